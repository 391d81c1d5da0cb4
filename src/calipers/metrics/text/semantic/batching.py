"""Batches of items of different sizes, bounded by their total size and not by their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
Shape = tuple[int, int]


def batch_by_size(
    items: Iterable[T],
    shape: Callable[[T], Shape],
    room: Callable[[int, int], int],
    budget: int,
    most_padding: int,
) -> Iterator[list[T]]:
    """Yield batches of like shape, padded to the widest, whose `room` times items is bounded.

    So is the part of it that is padding. What alone is over the budget makes a batch of its own.

    >>> list(batch_by_size([5, 1, 4, 2], lambda n: (n, 1), lambda n, m: n * m, 8, most_padding=3))
    [[1, 2], [4], [5]]
    """
    batch: list[T] = []
    widest, filled = (0, 0), 0
    for item in sorted(items, key=shape):
        height, width = shape(item)
        grown = max(widest[0], height), max(widest[1], width)
        needed = (len(batch) + 1) * room(*grown)
        padding = needed - filled - room(height, width)
        if batch and (needed > budget or padding > most_padding):
            yield batch
            batch, grown, filled = [], (height, width), 0
        batch.append(item)
        widest = grown
        filled += room(height, width)
    if batch:
        yield batch
