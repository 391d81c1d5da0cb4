"""How many parts there are, and which keys Spark puts into different ones, of equal size.

Where Spark puts a row is told by the hash of its key: a key per partition is looked for. Were the
hash another one, parts would be less even, and the results the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"
_CLASSIC = "pyspark.sql.classic"  # frames whose plan says how much data there is
_USUAL_PARTITIONS = 200  # where a platform chooses the number itself
_USUAL_CORES = 8  # which Spark Connect does not tell
_PART_ROWS = 250_000  # fewer are not worth a task
_PART_BYTES = 4 << 20  # nor is less, as it is read
_SEED = 42
_BITS = 0xFFFFFFFF


def count_partitions(frames: Sequence[DataFrame]) -> int:
    """Return into how many partitions the cells of these rows are shuffled.

    As many as the user lets Spark shuffle into, or fewer for little data.
    """
    session = frames[0].sparkSession
    found = session.conf.get(_PARTITIONS)
    most = int(found) if found is not None and found.isdecimal() else _USUAL_PARTITIONS
    if not all(type(each).__module__.startswith(_CLASSIC) for each in frames):
        return most
    plans = (each._jdf.queryExecution().optimizedPlan() for each in frames)  # noqa: SLF001
    size = sum(int(str(plan.stats().sizeInBytes())) for plan in plans)
    return min(most, max(size // _PART_BYTES, 2 * _count_cores(session)))


def count_parts(session: SparkSession, partitions: int, rows: int) -> int:
    """Return how many parts are worth a task each: one per core or more, never above partitions."""
    return min(max(-(-rows // _PART_ROWS), _count_cores(session)), partitions)


def _count_cores(session: SparkSession) -> int:
    context = getattr(session, "_sc", None)
    return _USUAL_CORES if context is None else int(context.defaultParallelism)


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
