"""All known tools, in memory: searching while others search, give up, or have an embedder that fails."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mcp_workbench.library import Library
from mcp_workbench.naming import Origin
from mcp_workbench.search import shipped
from mcp_workbench.search.index import Hit, Index
from mcp_workbench.workbench import Workbench

from .fake_link import FakeServer, knowledge_of, silent_client
from .test_workbench import Fakes, configured, reaching


async def library(servers: Fakes) -> tuple[Library, Workbench]:
    """One over a workbench whose toolbox `dev` is open."""
    configuration = configured(*servers)
    known = knowledge_of(configuration)
    bench = Workbench(configuration, reaching(servers), silent_client(), known)
    await bench.open("dev")
    return Library(configuration, known, bench), bench


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Semaphore, list[str]]]:
    """Searches of the index wait to be let go; what is told of them is when each began and ended."""
    may_go, told = threading.Semaphore(0), list[str]()
    search = Index.search

    def slowly(self: Index, query: str, limit: int, toolbox: str | None = None) -> list[Hit]:
        told.append(f"{query} begins")
        assert may_go.acquire(timeout=30)
        told.append(f"{query} ends")
        return search(self, query, limit, toolbox)

    monkeypatch.setattr(Index, "search", slowly)
    yield may_go, told
    may_go.release(100)


async def test_a_search_that_is_given_up_has_the_index_to_itself_until_it_ends(
    held: tuple[threading.Semaphore, list[str]],
) -> None:
    may_go, told = held
    known, bench = await library({"dev/files": FakeServer("read", "write")})
    async with bench:
        first = asyncio.create_task(known.found("read", 8, None))
        while not told:  # noqa: ASYNC110 - a thread says so
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(known.found("write", 8, None))
        for _ in range(20):
            await asyncio.sleep(0)
        assert told == ["read begins"]
        may_go.release(2)
        hits, total, unseen = await second
    assert told == ["read begins", "read ends", "write begins", "write ends"]
    assert (hits[0].tool.name, total, unseen) == ("write", 2, 0)


class Embedder:
    """One that fails where it is told to."""

    name, size = "failing", 2

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def embed(self, texts: Sequence[str]) -> list[Any]:
        if self._fails:
            raise OSError("its weights are gone")
        return [None for _ in texts]


def broken() -> Embedder:
    raise OSError("it was installed in part")


@pytest.mark.parametrize(
    "embedder", [lambda: None, broken, lambda: Embedder(fails=True), lambda: Embedder(fails=False)]
)
async def test_whatever_is_wrong_with_the_embedder_words_are_found(
    embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "installed_embedder", embedder)
    known, bench = await library({"dev/files": FakeServer("read", "write")})
    async with bench:
        for _ in range(3):
            hits, _, _ = await known.found("read", 8, None)
            assert (hits[0].origin, hits[0].tool.name) == (Origin("dev", "files"), "read")
            for _ in range(20):
                await asyncio.sleep(0)
