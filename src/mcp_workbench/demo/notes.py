"""A notebook as an MCP server: the notes live as long as the process, and belong to $NOTES_OWNER."""

import os
from typing import Any

from mcp_workbench.demo.stdio_server import Arguments, Tool, serve

OWNER = os.environ.get("NOTES_OWNER", "nobody")

_notes: list[dict[str, Any]] = []


def add_note(arguments: Arguments) -> object:
    _notes.append({"id": len(_notes) + 1, "owner": OWNER, "text": arguments["text"]})
    return _notes[-1]


def list_notes(_arguments: Arguments) -> object:
    return {"owner": OWNER, "notes": _notes}


def search_notes(arguments: Arguments) -> object:
    query = str(arguments["query"]).casefold()
    return {"owner": OWNER, "notes": [note for note in _notes if query in str(note["text"]).casefold()]}


TOOLS = (
    Tool(
        "add_note",
        "Write a note into the notebook. Returns the note with its id and owner.",
        {"text": {"type": "string", "description": "What to remember, in plain words", "minLength": 1}},
        ("text",),
        add_note,
    ),
    Tool("list_notes", "List all notes of the notebook, the oldest first.", {}, (), list_notes),
    Tool(
        "search_notes",
        "Find the notes that contain a text, in whatever case.",
        {"query": {"type": "string", "description": "The text to look for", "minLength": 1}},
        ("query",),
        search_notes,
    ),
)

if __name__ == "__main__":
    serve("notes", TOOLS)
