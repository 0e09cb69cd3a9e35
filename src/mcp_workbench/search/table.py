"""The table of words and what they mean: a vector for each, made by `scripts/make_words_table.py`. Pure.

In the file: a line with the size of vectors; the words, each on a line, and an empty line; for each a weight
in two bytes; for each its vector, two components a byte. A frequent word has a small weight, it says little.
"""

from collections.abc import Iterable
from typing import Final

from .vectors import weighted_sum

_LOW: Final = bytes((byte & 15) + 120 for byte in range(256))
_HIGH: Final = bytes((byte >> 4) + 120 for byte in range(256))

# What other forms of a word lose; the table has not all of them.
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "ly")


def packed(
    words: Iterable[str], size: int, weights: Iterable[int], vectors: Iterable[Iterable[int]]
) -> bytes:
    """The file: components are from -7 to 7, weights below 65,536."""
    rows = bytearray()
    for vector in vectors:
        components = [component + 8 for component in vector]
        rows += bytes(low | high << 4 for low, high in zip(components[::2], components[1::2], strict=True))
    head = f"{size}\n" + "\n".join(words) + "\n\n"
    return head.encode() + b"".join(weight.to_bytes(2, "little") for weight in weights) + rows


class Table:
    def __init__(self, file: bytes) -> None:
        end = file.index(b"\n\n")
        size, *words = file[:end].decode().split("\n")
        self.size: Final = int(size)
        self._numbers = {word: number for number, word in enumerate(words)}
        self._weights = memoryview(file)[end + 2 :][: 2 * len(words)].cast("H")
        self._rows = memoryview(file)[end + 2 + 2 * len(words) :]

    def __len__(self) -> int:
        return len(self._numbers)

    def meaning(self, words: Iterable[str]) -> list[int]:
        """What some words mean together: zeros if none of them is known."""
        known = [number for word in words if (number := self._number(word)) is not None]
        return weighted_sum([(self._weights[number], self._row(number)) for number in known], self.size)

    def _number(self, word: str) -> int | None:
        number = self._numbers.get(word)
        if number is None and len(word) > 4:
            for ending in _ENDINGS:
                shorter = word.removesuffix(ending)
                if shorter != word and (number := self._numbers.get(shorter)) is not None:
                    return number
        return number

    def _row(self, number: int) -> bytes:
        half = self.size // 2
        row = bytes(self._rows[number * half : (number + 1) * half])
        both = bytearray(self.size)
        both[::2], both[1::2] = row.translate(_LOW), row.translate(_HIGH)
        return bytes(both)
