"""What holds for every test."""

import itertools
from pathlib import Path

import pytest

_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _a_catalogue_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What one test's servers offer is not remembered in another, nor in the cache of whoever runs them."""
    cache: Path = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
