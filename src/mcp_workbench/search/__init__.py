"""Finding tools by what they do. `index.Index` ties the ingredients together."""
