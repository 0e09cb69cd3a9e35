"""Tier 1: tokens counted exactly where that can be done, with what `tiktoken` may do instead."""

import sys
import threading
from collections.abc import Callable, Collection
from types import SimpleNamespace

import pytest

from mcp_workbench import tokens
from mcp_workbench.counting import counter

TEXT = "Reads a file. <|endoftext|>"


class Encoding:
    """Counts words."""

    def encode(self, text: str, disallowed_special: Collection[str]) -> list[str]:
        assert not disallowed_special, "refuses what looks like one of its special tokens"
        return text.split()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], object]], None]:
    def pretend(get_encoding: Callable[[str], object]) -> None:
        monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=get_encoding))

    return pretend


def test_tiktoken_counts_where_it_is_installed(install: Callable[[Callable[[str], object]], None]) -> None:
    install({"o200k_base": Encoding()}.__getitem__)
    count, exact = counter()
    assert exact
    assert count(TEXT) == 4


def test_tokens_are_estimated_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    count, exact = counter()
    assert not exact
    assert count(TEXT) == tokens.estimate(TEXT)


def test_tokens_are_estimated_where_its_table_cannot_be_had(
    install: Callable[[Callable[[str], object]], None],
) -> None:
    def offline(name: str) -> object:
        raise ConnectionError(name)

    install(offline)
    assert counter() == (tokens.estimate, False)


def test_nobody_waits_long_for_its_table(install: Callable[[Callable[[str], object]], None]) -> None:
    never = threading.Event()

    def hanging(name: str) -> object:
        never.wait()
        return Encoding()

    install(hanging)
    try:
        assert counter(patience=0.01) == (tokens.estimate, False)
    finally:
        never.set()
