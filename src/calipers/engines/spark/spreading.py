"""How many parts there are, and which keys Spark puts into different ones, of equal size.

Where Spark puts a row is told by the hash of its key: a key per partition is looked for. Were the
hash another one, parts would be less even, and the results the same.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"
_USUAL_PARTITIONS = 200  # where a platform chooses the number itself
_USUAL_CORES = 8  # which Spark Connect does not tell
_PART_ROWS = 250_000  # fewer are not worth a task
_SEED = 42
_BITS = 0xFFFFFFFF


def count_partitions(session: SparkSession) -> int:
    """Return into how many partitions the user lets Spark shuffle."""
    found = session.conf.get(_PARTITIONS)
    return int(found) if found is not None and found.isdecimal() else _USUAL_PARTITIONS


def count_parts(session: SparkSession, rows: int) -> int:
    """Return how many parts are worth a task each: one per core or more, never above partitions."""
    context = getattr(session, "_sc", None)
    cores = _USUAL_CORES if context is None else context.defaultParallelism
    return min(max(-(-rows // _PART_ROWS), cores), count_partitions(session))


def find_keys(partitions: int) -> tuple[int, ...]:
    """Return a number for each partition, in the partitions' order.

    >>> find_keys(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < partitions:
        found.setdefault(hash_int(key) % partitions, key)
        key += 1
    return tuple(found[each] for each in range(partitions))


def hash_int(number: int) -> int:
    """Return the hash of a 32-bit number as Spark's `hash` gives it (Murmur3)."""
    mixed = (number * 0xCC9E2D51) & _BITS
    mixed = (_rotate(mixed, 15) * 0x1B873593) & _BITS
    state = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    state ^= 4  # the length in bytes
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _BITS
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _BITS
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(number: int, by: int) -> int:
    return ((number << by) | (number >> (32 - by))) & _BITS
