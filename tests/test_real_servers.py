"""Servers as people have them: those of the Model Context Protocol's own repository, on Node.

They are installed by tests/install_node_servers.sh; where they are not, these tests are skipped. A client
that talks to a server through the workbench must see what one sees that talks to it directly.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .workbench import Client, Held, Json, descendants, serving, talking_to, toolboxes, until

NODE = shutil.which("node")
FOLDER = Path(__file__).parent
SERVERS = FOLDER / "node_modules" / "@modelcontextprotocol"

pytestmark = [
    pytest.mark.skipif(not NODE, reason="Node is not here"),
    pytest.mark.skipif(
        not SERVERS.exists(), reason="the servers are not installed (tests/install_node_servers.sh)"
    ),
]
GONE_WITHIN = 5.0


def server(name: str, *args: str, **more: Json) -> Json:
    return {"command": "node", "args": [str(SERVERS / f"server-{name}" / "dist" / "index.js"), *args], **more}


def by_npx(name: str, *args: str) -> Json:
    """The same server by its name, as documentation has it; nothing may be fetched."""
    return {"command": "npx", "args": ["--no-install", f"mcp-server-{name}", *args], "cwd": str(FOLDER)}


@asynccontextmanager
async def both(folder: Path, entry: Json) -> AsyncIterator[tuple[Client, Client]]:
    """A client that talks to the server directly, and one that does so through the workbench."""
    command = (entry["command"], *entry["args"])
    async with (
        talking_to(*command, folder=folder, env=entry.get("env")) as direct,
        serving(toolboxes(box={"it": entry}), folder) as through,
    ):
        await direct.initialize()
        yield direct, through


async def same(direct: Client, through: Client, tool: str, arguments: Json) -> Json:
    """The result of a call, which must be the same in both ways."""
    expected = await direct.ask("tools/call", {"name": tool, "arguments": arguments})
    result = await through.use("box", "it", tool, **arguments)
    assert result == expected["result"]
    return result


async def test_the_definitions_are_the_servers_own(tmp_path: Path) -> None:
    for entry in (server("everything"), server("filesystem", str(tmp_path)), server("memory")):
        async with both(tmp_path, entry) as (direct, through):
            definitions = (await direct.ask("tools/list"))["result"]["tools"]
            opened = await through.open("box")
            assert "_errors" not in opened
            added = {"toolbox_name": "box", "source_server": "it"}
            assert opened["tools"] == [{**definition, **added} for definition in definitions]


async def test_files_are_listed_read_and_kept_in_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "note.txt").write_text("ünïcödé ☃\nsecond line\n")
    (tmp_path / "secret.txt").write_text("not yours")
    async with both(tmp_path, server("filesystem", str(folder))) as (direct, through):
        read = await same(direct, through, "read_text_file", {"path": str(folder / "note.txt")})
        assert read["content"][0]["text"] == "ünïcödé ☃\nsecond line\n"
        await same(direct, through, "list_directory", {"path": str(folder)})
        refused = await same(direct, through, "read_text_file", {"path": str(tmp_path / "secret.txt")})
        assert refused["isError"]
        wrong = await same(direct, through, "read_text_file", {"path": 5})
        assert wrong["isError"]
        await through.text("box", "it", "write_file", path=str(folder / "new.txt"), content="written")
        assert (folder / "new.txt").read_text() == "written"


async def test_two_toolboxes_with_the_same_server_share_nothing(tmp_path: Path) -> None:
    def remembering(name: str) -> Json:
        return {**server("memory"), "env": {"MEMORY_FILE_PATH": str(tmp_path / name)}}

    config = toolboxes(work={"memory": remembering("work")}, home={"memory": remembering("home")})
    async with serving(config, tmp_path) as client:
        await asyncio.gather(client.open("work"), client.open("home"))
        ada = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
        await client.use("work", "memory", "create_entities", entities=[ada])
        work, home = [json.loads(await client.text(box, "memory", "read_graph")) for box in ("work", "home")]
        assert [entity["name"] for entity in work["entities"]] == ["Ada"]
        assert home["entities"] == []
        await client.close("home")
        found = json.loads(await client.text("work", "memory", "search_nodes", query="tea"))
        assert [entity["name"] for entity in found["entities"]] == ["Ada"]


async def test_everything_is_answered_as_it_is_directly(tmp_path: Path) -> None:
    async with both(tmp_path, server("everything")) as (direct, through):
        assert (await same(direct, through, "echo", {"message": "hello"}))["content"]
        await same(direct, through, "get-sum", {"a": 2, "b": 2.5})
        picture = await same(direct, through, "get-tiny-image", {})
        assert "image" in [block["type"] for block in picture["content"]]
        structured = await same(direct, through, "get-structured-content", {"location": "Chicago"})
        assert structured["structuredContent"]
        await same(direct, through, "get-annotated-message", {"messageType": "error", "includeImage": True})
        await same(direct, through, "get-resource-links", {"count": 3})
        assert (await same(direct, through, "get-sum", {"a": "two"}))["isError"]


# Calls that a server refuses for their arguments, and calls that fail for another reason.
REFUSED: list[tuple[str, str, Json]] = [
    ("everything", "echo", {}),
    ("everything", "get-sum", {"a": "two", "b": 1}),
    ("everything", "get-annotated-message", {"messageType": "none"}),
    ("files", "read_text_file", {}),
    ("files", "edit_file", {"path": "x", "edits": [{"old": "a"}]}),
    ("memory", "create_entities", {"entities": [{"name": "Ada"}]}),
]
FAILED: list[tuple[str, str, Json]] = [
    ("files", "read_text_file", {"path": "/no/such/file"}),
    ("memory", "add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]}),
]


async def test_refused_arguments_come_back_with_the_schema_after_a_short_opening(tmp_path: Path) -> None:
    box = {
        "everything": server("everything"),
        "files": server("filesystem", str(tmp_path)),
        "memory": {**server("memory"), "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory")}},
    }
    async with serving(toolboxes(box=box), tmp_path) as client:
        await client.result("open_toolbox", {"toolbox_name": "box", "detail": "signatures"})
        for name, tool, arguments in REFUSED:
            result = await client.use("box", name, tool, **arguments)
            own, beside = (block["text"] for block in result["content"])
            assert "-32602" in own
            assert beside.startswith(f"Input schema of {tool}: {{")
        for name, tool, arguments in FAILED:
            result = await client.use("box", name, tool, **arguments)
            assert result["isError"]
            assert len(result["content"]) == 1
        # Text for numbers and objects is mended before it is sent.
        assert "4.5" in await client.text("box", "everything", "get-sum", a="2", b="2.5")
        entity = {"name": "Ada", "entityType": "person", "observations": ["writes"]}
        assert "Ada" in await client.text("box", "memory", "create_entities", entities=json.dumps([entity]))


async def test_a_long_file_is_shown_in_part_and_read_on(tmp_path: Path) -> None:
    lines = [f"{n}: ünïcödé ☃" for n in range(5000)]
    (tmp_path / "long.txt").write_text("\n".join(lines))
    entry = server("filesystem", str(tmp_path)) | {"maxResultTokens": 600}
    async with serving(toolboxes(box={"it": entry}), tmp_path) as client:
        result = await client.use("box", "it", "read_text_file", path=str(tmp_path / "long.txt"))
        assert "structuredContent" not in result
        (link,) = (block for block in result["content"] if block["type"] == "resource_link")
        handle = link["uri"].rpartition("/")[2]
        part = await client.result("read_result", {"handle": handle, "grep": "^4321: "})
        assert part["content"][0]["text"] == f"4322: {lines[4321]}"


async def test_progress_of_a_long_operation_arrives_before_its_end(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": server("everything")}), tmp_path) as client:
        await client.open("box")
        operation = {"duration": 0.05, "steps": 5}
        call = client.begin_use(
            "box", "it", "trigger-long-running-operation", meta={"progressToken": "mine"}, **operation
        )
        assert "result" in await call
        notes = [note["params"] for note in client.heard() if note["method"] == "notifications/progress"]
        steps = [{"progressToken": "mine", "progress": step, "total": 5} for step in range(1, 6)]
        assert [{key: note[key] for key in steps[0]} for note in notes] == steps


async def test_all_three_in_one_toolbox_serve_side_by_side(tmp_path: Path) -> None:
    box = {
        "everything": server("everything"),
        "files": server("filesystem", str(tmp_path)),
        "memory": {**server("memory"), "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory")}},
    }
    async with serving(toolboxes(box=box), tmp_path) as client:
        opened = await client.open("box")
        assert opened["servers_connected"] == 3
        assert list(dict.fromkeys(tool["source_server"] for tool in opened["tools"])) == list(box)
        echoed, allowed, graph = await asyncio.gather(
            client.text("box", "everything", "echo", message="hello"),
            client.text("box", "files", "list_allowed_directories"),
            client.text("box", "memory", "read_graph"),
        )
        assert "hello" in echoed
        assert str(tmp_path) in allowed
        assert json.loads(graph) == {"entities": [], "relations": []}


@pytest.mark.skipif(not shutil.which("npx"), reason="npx is not here")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", ["closing", "the end of stdin", "SIGKILL"])
async def test_nothing_of_npx_and_its_server_is_left_after(tmp_path: Path, end: str) -> None:
    box = {"everything": by_npx("everything"), "files": by_npx("filesystem", str(tmp_path))}
    async with serving(toolboxes(box=box), tmp_path) as client:
        opened = await client.open("box")
        assert "_errors" not in opened
        assert "hello" in await client.text("box", "everything", "echo", message="hello")
        started = [Held(pid) for pid in descendants(client.process.pid)]
        assert len(started) >= 2 * 2 + 1  # wrappers, servers and the guard
        match end:
            case "closing":
                await client.close("box")
                await until(lambda: len(descendants(client.process.pid)) == 1)
                started = [
                    process for process in started if process.pid not in descendants(client.process.pid)
                ]
            case "the end of stdin":
                await client.end()
            case "SIGKILL":
                client.process.kill()
        async with asyncio.timeout(GONE_WITHIN + 1):
            await asyncio.gather(*(process.leaves() for process in started))
