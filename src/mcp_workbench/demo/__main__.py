"""`python -m mcp_workbench.demo`: starts a workbench, talks to it as an agent would, prints what is seen."""

import json
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from mcp_workbench.counting import counter
from mcp_workbench.demo.client import Client, SessionError

WIDTH = 100
LINE = 80  # JSON that is longer is indented
MANY_TOOLS = 300
NOTE = "Send the offer on Monday"


def configuration(python: str) -> dict[str, Any]:
    def server(module: str, **more: object) -> dict[str, Any]:
        return {"command": python, "args": ["-m", f"mcp_workbench.demo.{module}"], **more}

    def toolbox(description: str, **servers: dict[str, Any]) -> dict[str, Any]:
        return {"description": description, "mcpServers": servers}

    return {
        "toolboxes": {
            "work": toolbox("Notes of the office", notes=server("notes", env={"NOTES_OWNER": "office"})),
            "home": toolbox("Notes of the family", notes=server("notes", env={"NOTES_OWNER": "family"})),
            "time": toolbox("Clocks and calendars", clock=server("clock")),
        }
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="mcp-workbench-demo-") as folder:
        config = Path(folder, "workbench-config.json")
        config.write_text(json.dumps(configuration(sys.executable)))
        try:
            command = (
                sys.executable,
                "-m",
                "mcp_workbench",
                "--config",
                str(config),
                "--catalogue",
                ":memory:",
            )
            with Client(command) as client:
                tour(client)
        except SessionError as error:
            print(f"The demo could not go on: {error}", file=sys.stderr)
            return 1
    show_how_to_use_it()
    return 0


def tour(client: Client) -> None:
    heading("The configuration: three toolboxes, two of them with the same server")
    show(pretty(configuration(sys.executable)))

    heading("What an agent reads when it connects")
    instructions = client.initialize()["instructions"]
    meta_tools = client.request("tools/list", {})["tools"]
    show(instructions)
    say(f"… and {len(meta_tools)} tools: {', '.join(tool['name'] for tool in meta_tools)}.")

    heading("It opens a toolbox: only now are the servers in it started")
    opening = open_toolbox(client, "work")
    show_opening(opening)

    heading("It calls a tool in each toolbox")
    use(client, "work", "notes", "add_note", {"text": NOTE})
    use(client, "work", "notes", "list_notes", {})
    say("The same server in the other toolbox is another process, with another owner and no such note:")
    if NOTE in use(client, "home", "notes", "list_notes", {}):
        raise SessionError("the note is in both toolboxes")
    use(client, "time", "clock", "days_between", {"start": "2024-02-01", "end": "2024-03-01"})
    say("“home” and “time” had not been opened: a call does it.")

    heading("It makes a mistake, and can mend it")
    use(client, "work", "note", "list_notes", {}, mistaken=True)

    heading("What this takes of the agent's context")
    openings = [opening, open_toolbox(client, "home"), open_toolbox(client, "time")]
    show_tokens(compact(instructions) + compact(meta_tools), openings)


# What the agent does


def open_toolbox(client: Client, name: str) -> str:
    answer = client.call_tool("open_toolbox", {"toolbox_name": name})
    if answer.is_error:
        raise SessionError(answer.text)
    return answer.text


def use(
    client: Client, toolbox: str, server: str, tool: str, arguments: dict[str, Any], *, mistaken: bool = False
) -> str:
    """Calls a tool, prints call and answer, and gives the answer, which to a mistake must be an error."""
    call = {"tool": {"toolbox": toolbox, "server": server, "tool": tool}, "arguments": arguments}
    answer = client.call_tool("use_tool", call)
    show(f"use_tool {json.dumps(call)}")
    show(f"  → {answer.text}")
    if answer.is_error is not mistaken:
        raise SessionError("this answer was not expected")
    return answer.text


# What is printed


def heading(text: str) -> None:
    line = f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text
    print(f"\n{line}\n{'-' * len(text)}")


def say(text: str) -> None:
    print(textwrap.fill(text, WIDTH))


def show(text: str) -> None:
    for line in text.splitlines():
        print(textwrap.fill(line, WIDTH, initial_indent="    ", subsequent_indent="      "))


def show_opening(opening: str) -> None:
    answer = json.loads(opening)
    first, *others = answer["tools"]
    show('open_toolbox {"toolbox_name": "work"}')
    show(pretty({**answer, "tools": [first]}))
    say(f"(indented for reading, and {len(others)} more tools left out)")


def show_tokens(fixed: str, openings: list[str]) -> None:
    tokens, exact = counter()
    how = "counted with o200k_base" if exact else "estimated"
    listings = [json.loads(opening)["tools"] for opening in openings]
    flat = [compact(as_listed(tool)) for listing in listings for tool in listing]
    per_tool = sum(map(tokens, flat)) / len(flat)
    rows = [
        ("always: the instructions and the tools of the workbench", tokens(fixed)),
        ("on opening “work”", tokens(openings[0])),
        (
            f"instead: all {len(flat)} tools flat, as {len(openings)} servers would list them",
            sum(map(tokens, flat)),
        ),
        (f"instead: {MANY_TOOLS} tools like these flat", round(per_tool * MANY_TOOLS)),
    ]
    for label, count in rows:
        print(f"    {count:>7,} tokens  {label}")
    say(
        f"Tokens are {how}. The first line stays about the same however many tools there are: with as few"
        " as here a workbench saves little or nothing, with hundreds nearly everything."
    )


def as_listed(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool as its own server lists it."""
    return {key: value for key, value in tool.items() if key not in ("toolbox_name", "source_server")}


def show_how_to_use_it() -> None:
    command = Path(sys.executable).with_name("mcp-workbench")
    entry = {"command": str(command), "args": ["--config", str(Path.cwd() / "workbench-config.json")]}
    heading("To use it")
    say("Write a workbench-config.json like the one above, and give your MCP client this entry:")
    print(pretty({"mcpServers": {"workbench": entry}}))


def pretty(value: Any, indent: str = "") -> str:
    """JSON, indented only where it does not fit on a line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= LINE or not isinstance(value, dict | list):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        items = [pretty(item, inner) for item in value]
    else:
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: {pretty(item, inner)}" for key, item in value.items()
        ]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
