"""The pages of what is listed: own opaque cursors, an order that stays, and everything once."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.workbench import Client, Json, fake, serving, toolboxes

# Of each list the member of its result, what tells one entry from another, and how they are called here.
LISTS = {
    "tools/list": ("tools", "name", "dev__a_tool_{}"),
    "prompts/list": ("prompts", "name", "dev__a_prompt_{}"),
    "resources/list": ("resources", "uri", "test://one/{}"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", "test://{}/{{more}}"),
}
MANY = 1200
EVERY_LIST = pytest.mark.parametrize("method", LISTS)


def dynamic(**servers_by_toolbox: Any) -> Json:
    return toolboxes(**servers_by_toolbox) | {"toolMode": "dynamic"}


def abundant(**script: Any) -> Json:
    """A server with many of everything, which it pages itself."""
    return fake(
        tools=["change"],
        many_tools=MANY,
        prompts=[f"prompt_{number}" for number in range(MANY)],
        resources=[f"test://one/{number}" for number in range(MANY)],
        templates=[f"test://{number}/{{more}}" for number in range(MANY)],
        page_size=100,
        cursors="empty",
        **script,
    )


async def page(client: Client, method: str, cursor: str | None = None) -> tuple[list[Json], str | None]:
    """One page, and the cursor of the next one."""
    answer = await client.ask(method, {} if cursor is None else {"cursor": cursor})
    assert "result" in answer, answer
    return answer["result"][LISTS[method][0]], answer["result"].get("nextCursor")


async def pages(client: Client, method: str, cursor: str | None = None) -> list[list[Json]]:
    """All pages, or all from this cursor on."""
    found, cursor = await page(client, method, cursor)
    walked = [found]
    while cursor is not None:
        found, cursor = await page(client, method, cursor)
        walked.append(found)
    return walked


async def entries(client: Client, method: str, cursor: str | None = None) -> list[Json]:
    return [entry for found in await pages(client, method, cursor) for entry in found]


async def names(client: Client, method: str = "tools/list", cursor: str | None = None) -> list[str]:
    """What is listed, by what tells one from another; nothing is there twice."""
    found = [entry[LISTS[method][1]] for entry in await entries(client, method, cursor)]
    assert len(set(found)) == len(found)
    return found


async def first_page(client: Client, method: str = "tools/list") -> tuple[list[str], str]:
    """The names on the first page of a list that has more of them, and the cursor of the second."""
    found, cursor = await page(client, method)
    assert cursor
    return [entry[LISTS[method][1]] for entry in found], cursor


# Walking ----------------------------------------------------------------------------------------


@EVERY_LIST
async def test_a_large_list_comes_in_pages_on_which_everything_is_seen_once(
    method: str, tmp_path: Path
) -> None:
    _, key, name = LISTS[method]
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        walked = await pages(client, method)
    assert len(walked) > 1
    assert all(walked)
    found = [entry[key] for page in walked for entry in page]
    assert [it for it in found if it in {name.format(number) for number in range(MANY)}] == [
        name.format(number) for number in range(MANY)
    ]
    assert len(found) - MANY == (4 if method == "tools/list" else 0)  # the meta-tools, and `change`


async def test_every_tool_of_a_large_list_can_be_called(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        for name in (await names(client))[3 + 1 :: 199]:
            result = await client.result(name, {"text": name})
            assert result == {"content": [{"type": "text", "text": name}]}


@EVERY_LIST
async def test_walking_again_gives_the_same_pages(method: str, tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        assert await pages(client, method) == await pages(client, method)


async def test_a_cursor_gives_the_same_page_again_and_null_is_none(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        first, cursor = await page(client, "tools/list")
        second = await page(client, "tools/list", cursor)
        assert await page(client, "tools/list", cursor) == second
        answer = await client.ask("tools/list", {"cursor": None})
    assert answer["result"]["tools"] == first
    assert first[0]["name"] == "open_toolbox"
    assert not {tool["name"] for tool in first} & {tool["name"] for tool in second[0]}


async def test_a_client_that_turns_no_pages_sees_all_of_a_common_list(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake(tools=[], many_tools=300)}), tmp_path) as client:
        await client.open("dev")
        found, cursor = await page(client, "tools/list")
    assert len(found) == 3 + 300
    assert cursor is None


async def test_few_tools_with_large_definitions_come_in_pages_too(tmp_path: Path) -> None:
    def large(server: str) -> Json:
        described = [
            {"name": f"{server}{number}", "description": "x" * 25_000, "inputSchema": {"type": "object"}}
            for number in range(4)
        ]
        return fake(tools=described)

    async with serving(dynamic(dev={name: large(name) for name in "abcdefgh"}), tmp_path) as client:
        await client.open("dev")
        walked = await pages(client, "tools/list")
    sizes = [len(json.dumps(found)) for found in walked]
    assert len(walked) > 1
    assert max(sizes) < sum(sizes) * 3 / 4
    found = [tool["name"] for page in walked for tool in page][3:]
    assert found == [f"dev__{server}_{server}{number}" for server in "abcdefgh" for number in range(4)]


async def test_a_fixed_toolbox_with_many_tools_is_paged_from_the_first_list_on(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=[], many_tools=MANY)})
    async with serving(config, tmp_path, arguments=("--toolbox", "dev")) as client:
        walked = await pages(client, "tools/list")
    assert len(walked) > 1
    assert [tool["name"] for page in walked for tool in page][3:] == [f"a_tool_{n}" for n in range(MANY)]


# Order ------------------------------------------------------------------------------------------


@EVERY_LIST
async def test_what_is_opened_later_stands_at_the_end(method: str, tmp_path: Path) -> None:
    def small(name: str) -> Json:
        return fake(
            tools=[name], prompts=[name], resources=[f"test://{name}"], templates=[f"test://{name}/{{x}}"]
        )

    config = dynamic(early={"a": small("one")}, late={"a": small("two")}, last={"a": small("three")})
    async with serving(config, tmp_path) as client:
        seen: list[list[str]] = []
        for toolbox in ("late", "last", "early"):  # not as the configuration has them
            await client.open(toolbox)
            seen.append(await names(client, method))
    for before, after in itertools.pairwise(seen):
        assert after[: len(before)] == before
        assert len(after) == len(before) + 1


async def test_a_tool_that_a_server_adds_stands_at_the_end_wherever_the_server_puts_it(
    tmp_path: Path,
) -> None:
    growing = fake(tools=["change", "echo", "pid"], tools_after=["big", "change", "args", "echo", "pid"])
    config = dynamic(dev={"a": growing, "b": fake(tools=["echo"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        before = await names(client)
        await client.result("dev__a_change", {})
        while (after := await names(client)) == before:
            await client.notification()
    assert after == [*before, "dev__a_big", "dev__a_args"]


async def test_a_tool_whose_definition_changes_keeps_its_place(tmp_path: Path) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("one", "two", "change", "three")]
    changed = [{**tool, "title": "changed"} for tool in reversed(tools)]
    config = dynamic(dev={"a": fake(tools=tools, tools_after=changed)})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        before = await names(client)
        await client.result("dev__a_change", {})
        while not any(tool.get("title") == "changed" for tool in await entries(client, "tools/list")):
            await client.notification()
        assert await names(client) == before


async def test_the_order_is_kept_when_a_server_in_the_middle_is_restarted(tmp_path: Path) -> None:
    servers = {name: fake(tools=["echo", "die", "pid"]) for name in "abc"}
    async with serving(dynamic(dev=servers), tmp_path) as client:
        await client.open("dev")
        before = await entries(client, "tools/list")
        await client.result("dev__b_die", {})
        await client.result("dev__b_pid", {})  # by a new process
        assert await entries(client, "tools/list") == before


async def test_what_was_closed_and_is_opened_again_stands_at_the_end(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake(tools=["echo"])}, other={"a": fake(tools=["echo"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.open("other")
        await client.close("dev")
        await client.open("dev")
        assert (await names(client))[3:] == ["other__a_echo", "dev__a_echo"]


# Changes between two pages ----------------------------------------------------------------------


async def test_what_is_added_between_two_pages_is_seen_once_on_the_last_one(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake(tools=[], many_tools=MANY)}, other={"a": fake(tools=["echo", "pid"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        first, cursor = await first_page(client)
        await client.open("other")
        rest = await names(client, cursor=cursor)
        assert [*first, *rest] == await names(client)
    assert rest[-2:] == ["other__a_echo", "other__a_pid"]


async def test_what_is_removed_between_two_pages_costs_none_of_the_others(tmp_path: Path) -> None:
    config = dynamic(
        seen={"a": fake(tools=[], many_tools=100)},
        dev={"a": fake(tools=[], many_tools=MANY)},
        unseen={"a": fake(tools=["echo"])},
    )
    async with serving(config, tmp_path) as client:
        for toolbox in ("seen", "dev", "unseen"):
            await client.open(toolbox)
        first, cursor = await first_page(client)
        assert "seen__a_tool_99" in first
        assert "unseen__a_echo" not in first
        await client.close("seen")
        await client.close("unseen")
        rest = await names(client, cursor=cursor)
    assert [name for name in [*first, *rest] if name.startswith("dev__")] == [
        f"dev__a_tool_{number}" for number in range(MANY)
    ]
    assert not [name for name in rest if not name.startswith("dev__")]


async def test_a_cursor_whose_neighbours_are_gone_leads_to_an_empty_page(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake(tools=[], many_tools=MANY)})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        _, cursor = await first_page(client)
        await client.close("dev")
        assert await page(client, "tools/list", cursor) == ([], None)


# Cursors ----------------------------------------------------------------------------------------

BAD: list[Any] = [
    "",
    "x",
    "0",
    "1",
    "100",
    "é",
    "\x00",
    "tools:1",
    7,
    1.5,
    True,
    [],
    {},
    ["a"],
    "a" * 100_000,
]


@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
@EVERY_LIST
async def test_a_cursor_that_no_list_gave_is_refused(method: str, mode: str, tmp_path: Path) -> None:
    config = toolboxes(dev={"a": abundant()}) | {"toolMode": mode}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        for cursor in BAD:
            answer = await client.ask(method, {"cursor": cursor})
            assert answer["error"]["code"] == -32602, cursor
            assert "cursor" in answer["error"]["message"]
        assert "result" in await client.ask(method)


async def test_a_cursor_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        _, cursor = await first_page(client)
        for changed in (cursor + " ", " " + cursor, cursor.swapcase(), cursor[:-1], cursor + "0", cursor * 2):
            answer = await client.ask("tools/list", {"cursor": changed})
            assert answer["error"]["code"] == -32602, changed


async def test_the_cursor_of_one_list_is_no_cursor_of_another(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": abundant()}), tmp_path) as client:
        await client.open("dev")
        cursors = {method: (await first_page(client, method))[1] for method in LISTS}
        for method in LISTS:
            for owner, cursor in cursors.items():
                answer = await client.ask(method, {"cursor": cursor})
                assert ("result" in answer) == (owner == method)
                assert "result" in answer or answer["error"]["code"] == -32602


async def test_a_list_is_asked_for_with_or_without_parameters(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        expected = (await client.ask("tools/list"))["result"]
        for frame in (
            b'{"jsonrpc":"2.0","id":"by hand","method":"tools/list"}\n',
            b'{"jsonrpc":"2.0","id":"by hand","method":"tools/list","params":{"_meta":{"a":1},"x":2}}\n',
        ):
            answer = client.expect("by hand")
            client.write(frame)
            assert (await answer)["result"] == expected
