"""Tier 1: which tools are found, and that the index stays right while servers come and go."""

import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.naming import Origin
from mcp_workbench.offers import Offer
from mcp_workbench.search.index import Hit, Index
from mcp_workbench.search.shipped import shipped_table
from mcp_workbench.search.table import Table
from mcp_workbench.search.vectors import Vector, vector

TABLE = shipped_table()


def tool(name: str, description: str = "", **more: object) -> Offer:
    definition = {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}
    return Offer(name, json.dumps(definition, ensure_ascii=False).encode())


FILES = Origin("dev", "filesystem")
WEATHER = Origin("life", "weather")
MAIL = Origin("office", "mail")

FILE_TOOLS = [
    tool("read_file", "Read the contents of a file."),
    tool("write_file", "Create or overwrite a file with new contents."),
    tool("list_directory", "List what is in a directory."),
]
WEATHER_TOOLS = [tool("get_forecast", "Weather forecast for a city for the next days.")]
MAIL_TOOLS = [
    tool("send_message", "Send an email to someone.", title="Send mail"),
    tool("searchInbox", "Find messages.", inputSchema={"type": "object", "properties": {"mailbox": {}}}),
]


def load_table() -> Table:
    return TABLE


def filled(index: Index) -> Index:
    index.put(FILES, FILE_TOOLS, "Development environment")
    index.put(WEATHER, WEATHER_TOOLS)
    index.put(MAIL, MAIL_TOOLS, "Correspondence")
    return index


def names(hits: Iterable[Hit]) -> list[str]:
    return [hit.tool.name for hit in hits]


def found(query: str, index: Index | None = None, toolbox: str | None = None) -> list[str]:
    return names((index or filled(Index(load_table))).search(query, 10, toolbox))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read a file", "read_file"),
        ("readFile", "read_file"),
        ("READ-FILE", "read_file"),
        ("overwriting files", "write_file"),
        ("directories", "list_directory"),
        ("Send mail", "send_message"),
        ("inbox", "searchInbox"),
        ("messages in a mailbox", "searchInbox"),
        ("will it rain tomorrow", "get_forecast"),
        ("show the folder", "list_directory"),
    ],
)
def test_the_best_tool_for_a_query_comes_first(query: str, first: str) -> None:
    assert found(query)[0] == first


def test_a_tool_is_found_by_its_server_and_by_what_its_toolbox_is_for() -> None:
    assert set(found("filesystem")) >= {"read_file", "write_file", "list_directory"}
    assert set(found("correspondence")) >= {"send_message", "searchInbox"}


def test_a_hit_tells_where_its_tool_is_with_the_very_definition() -> None:
    hit = filled(Index(load_table)).search("weather forecast", 1)[0]
    assert (hit.origin, hit.tool) == (WEATHER, WEATHER_TOOLS[0])
    assert hit.score > 0


def test_no_more_is_found_than_asked_for() -> None:
    assert len(filled(Index(load_table)).search("file", 1)) == 1
    assert filled(Index(load_table)).search("file", 0) == []


@pytest.mark.parametrize("query", ["", "   ", "?!", "the of and", "qwrtz plmokn", "\ud800", "x" * 100_000])
def test_what_matches_nothing_finds_nothing(query: str) -> None:
    assert found(query) == []


def test_only_tools_of_the_toolbox_are_found_where_one_is_named() -> None:
    assert set(found("file message forecast", toolbox="office")) <= {"send_message", "searchInbox"}
    assert found("send an email", toolbox="life") == []
    assert found("send an email", toolbox="nowhere") == []


def test_chinese_and_russian_tools_are_found_in_their_own_words() -> None:
    index = Index(load_table)
    index.put(Origin("a", "b"), [tool("x1", "获取城市的天气预报"), tool("x2", "Прогноз погоды в городе")])
    assert found("上海天气", index) == ["x1"]
    assert found("ПРОГНОЗ", index) == ["x2"]


def test_without_a_table_words_decide_alone() -> None:
    index = filled(Index())
    assert found("read a file", index)[0] == "read_file"
    assert found("rain", index) == []


def test_the_table_is_loaded_by_the_first_search_and_only_once() -> None:
    loaded = []

    def load() -> Table:
        loaded.append(1)
        return TABLE

    index = filled(Index(load))
    assert not loaded
    found("file", index)
    found("rain", index)
    assert len(loaded) == 1


def test_a_server_that_lists_other_tools_now_is_found_by_these_alone() -> None:
    index = filled(Index(load_table))
    found("anything", index)
    index.put(FILES, [tool("paint_wall", "Paint a wall in some colour.")])
    assert found("read a file", index, "dev") == []
    assert found("paint", index) == ["paint_wall"]
    assert len(index) == 1 + len(WEATHER_TOOLS) + len(MAIL_TOOLS)


def test_a_dropped_server_is_forgotten_and_an_unknown_one_is_no_trouble() -> None:
    index = filled(Index(load_table))
    found("anything", index)
    index.drop(MAIL)
    index.drop(MAIL)
    index.drop(Origin("never", "seen"))
    assert len(index) == len(FILE_TOOLS) + len(WEATHER_TOOLS)
    assert "send_message" not in found("send an email", index)


servers = st.sampled_from([FILES, WEATHER, MAIL])
listings = st.lists(st.sampled_from([*FILE_TOOLS, *WEATHER_TOOLS, *MAIL_TOOLS]), max_size=4, unique=True)
steps = st.lists(st.tuples(servers, st.none() | listings, st.booleans()), max_size=8)


@given(steps, st.sampled_from(["file", "send an email", "weather in the city", "rain", "open a folder"]))
def test_an_index_that_was_changed_finds_what_a_new_one_would(
    steps: list[tuple[Origin, list[Offer] | None, bool]], query: str
) -> None:
    index, now = Index(load_table), dict[Origin, list[Offer]]()
    for server, tools, then_search in steps:
        if tools is None:
            index.drop(server)
            now.pop(server, None)
        else:
            index.put(server, tools)
            now[server] = tools
        if then_search:
            index.search("file", 3)
    new = Index(load_table)
    for server in sorted(now):
        new.put(server, now[server])
    assert len(index) == len(new)
    assert index.search(query, 20) == new.search(query, 20)


schema_keys = st.sampled_from(["properties", "items", "anyOf", "description", "title", "type", "a"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(schema_keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["title", "description", "inputSchema", "annotations"]), json_values))
def test_a_definition_of_any_shape_is_found_by_its_name(definition: dict[str, object]) -> None:
    index = Index(load_table)
    index.put(FILES, [Offer("odd_tool", json.dumps(definition).encode())])
    assert found("odd", index) == ["odd_tool"]


@pytest.mark.parametrize(
    "definition",
    [
        b"",
        b"[]",
        b"not JSON",
        b'{"description":"\\ud800 odd"}',
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"\xff",
    ],
)
def test_a_definition_that_cannot_be_read_is_found_by_its_name(definition: bytes) -> None:
    index = Index(load_table)
    index.put(FILES, [Offer("odd_tool", definition)])
    assert found("odd tool", index) == ["odd_tool"]


def test_parameters_are_found_deep_in_a_schema_that_may_be_huge() -> None:
    inner = {"type": "object", "properties": {"latitude": {"description": "north or south"}}}
    schema = {"type": "object", "properties": {"places": {"type": "array", "items": {"anyOf": [inner]}}}}
    huge = {"type": "object", "properties": {f"p{n}": {} for n in range(50_000)}}
    index = Index(load_table)
    index.put(WEATHER, [tool("locate", inputSchema=schema), tool("huge", inputSchema=huge)])
    assert found("latitude", index)[0] == "locate"
    assert found("south", index)[0] == "locate"


# With an embedder -----------------------------------------------------------------------------------


class Embedder:
    """Knows two subjects, and counts what it is asked."""

    name = "two subjects"
    size = 2
    SUBJECTS = (("file", "paper"), ("message", "letter"))

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.asked += texts
        return [
            vector([sum(word in text for word in subject) for subject in self.SUBJECTS]) for text in texts
        ]


def learnt(index: Index, embedder: Embedder) -> Index:
    while texts := index.unlearnt(2):
        index.learn(texts, embedder.embed(texts))
    return index


def test_sentences_count_once_all_tools_are_learnt() -> None:
    index, embedder = filled(Index()), Embedder()
    index.use(embedder, {})
    assert found("a letter", index) == []
    index = learnt(index, embedder)
    assert set(found("a letter", index)) == {"send_message", "searchInbox"}


def test_until_a_new_tool_is_learnt_it_is_found_by_words() -> None:
    index, embedder = filled(Index()), Embedder()
    index.use(embedder, {})
    learnt(index, embedder)
    index.put(WEATHER, [tool("get_tides", "High and low water.")])
    assert index.unlearnt(9) != []
    assert found("tides", index) == ["get_tides"]
    index.drop(WEATHER)
    assert index.unlearnt(9) == []
    assert found("a letter", index) != []


def test_what_another_run_learnt_is_not_asked_again() -> None:
    cache: dict[str, bytes] = {}
    first = filled(Index())
    first.use(Embedder(), cache)
    learnt(first, Embedder())
    again, embedder = Index(), Embedder()
    again.use(embedder, cache)
    filled(again)
    # The forecast has no direction here, and so nothing to keep.
    assert len(again.unlearnt(9)) == 1
    learnt(again, embedder)
    assert found("a letter", again) == found("a letter", first) != []


def test_each_part_of_a_query_for_several_things_counts() -> None:
    index, embedder = filled(Index()), Embedder()
    index.use(embedder, {})
    learnt(index, embedder)
    found("open that paper, then write a letter", index)
    assert embedder.asked[-2:] == ["open that paper", "write a letter"]


def test_without_an_embedder_there_is_nothing_to_learn() -> None:
    index = filled(Index())
    assert index.unlearnt(9) == []
    index.learn(["a text"], [None])
    assert found("a letter", index) == []
