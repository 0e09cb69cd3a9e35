"""What holds for every test."""

import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_NUMBERS = itertools.count()

# The same examples in every run, so that none fails for a change that it has nothing to do with.
# HYPOTHESIS_PROFILE=default looks for new ones. How long one takes says something about the machine alone.
settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(autouse=True)
def _a_catalogue_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What one test's servers offer is not remembered in another, nor in the cache of whoever runs them."""
    cache: Path = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that are run in this process say where, and from which level on, is logged."""
    root, own = logging.getLogger(), logging.getLogger("mcp_workbench")
    handlers, level = [*root.handlers], own.level
    yield
    for handler in [*root.handlers]:
        if handler not in handlers and type(handler).__module__.startswith("mcp_workbench"):
            root.removeHandler(handler)
    own.setLevel(level)
