"""Measures on labelled data: how well search finds, what forms cost."""
