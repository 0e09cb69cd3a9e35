"""Vectors of small whole numbers, many compared at once with the big integers of Python. Pure.

A vector is kept as bytes, 128 for zero. Side by side in one big integer, the same component of all vectors is
multiplied by one number in one step: several thousand vectors take some milliseconds, without a library.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

ZERO: Final = 128
_LARGEST: Final = 127
_SIGNED: Final = bytes(byte ^ ZERO for byte in range(256))
_LANE: Final = 4  # bytes for each component of a sum


class Vector(msgspec.Struct, frozen=True):
    components: bytes
    length: float

    def cosine(self, other: "Vector") -> float:
        """The cosine of the angle between the two."""
        product = sum((a - ZERO) * (b - ZERO) for a, b in zip(self.components, other.components, strict=True))
        return product / (self.length * other.length)


def vector(numbers: Sequence[float]) -> Vector | None:
    """The direction of some numbers; None where they have none."""
    largest = max(map(abs, numbers), default=0)
    if not largest:
        return None
    scale, half = _LARGEST / largest, ZERO + 0.5
    return from_components(bytes([int(number * scale + half) for number in numbers]))


def from_components(components: bytes) -> Vector:
    return Vector(components, math.hypot(*memoryview(components.translate(_SIGNED)).cast("b")))


def between(directions: Iterable[Sequence[float]]) -> Vector | None:
    """The direction between some, where there are any: each counts the same, however long it is."""
    total: list[float] = []
    for numbers in directions:
        share = 1 / math.hypot(*numbers)
        if total:
            total = [sum_ + share * number for sum_, number in zip(total, numbers, strict=True)]
        else:
            total = [share * number for number in numbers]
    return vector(total)


def weighted_sum(parts: Iterable[tuple[int, bytes]], size: int) -> list[int]:
    """The sum of vectors, each by a weight: positive, and below 2^24 all together."""
    total = weights = 0
    lanes = bytearray(_LANE * size)
    for weight, components in parts:
        lanes[::_LANE] = components
        total += weight * int.from_bytes(lanes, "little")
        weights += weight
    zero = ZERO * weights
    return [number - zero for number in _unpacked(total, size)]


def _unpacked(packed: int, count: int) -> memoryview:
    return memoryview(packed.to_bytes(_LANE * count, "little")).cast("I")


class Columns:
    """Many vectors, component by component."""

    def __init__(self, vectors: Sequence[Vector], size: int) -> None:
        rows = b"".join([vector.components for vector in vectors])
        lanes = bytearray(_LANE * len(vectors))
        self._columns: list[int] = []
        for component in range(size):
            lanes[::_LANE] = rows[component::size]
            self._columns.append(int.from_bytes(lanes, "little"))
        self._inverse_lengths = [1 / vector.length for vector in vectors]

    def cosines(self, query: Vector) -> list[float]:
        """How near each vector is to this one."""
        count = len(self._inverse_lengths)
        above = below = shift = 0
        for component, column in zip(query.components, self._columns, strict=True):
            factor = component - ZERO
            shift += factor
            if factor > 0:
                above += factor * column
            elif factor < 0:
                below -= factor * column
        zero, scale = ZERO * shift, 1 / query.length
        return [
            (more - less - zero) * inverse * scale
            for more, less, inverse in zip(
                _unpacked(above, count), _unpacked(below, count), self._inverse_lengths, strict=True
            )
        ]
