"""The tiers' statistics as one would write them in Polars by hand, all rows in memory.

No error bars, no grades, no frontier: means, the other statistics, pass@k, and repeated runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from benchmarks.contestants import Values

COLUMNS = ("id", "tier", "run", "passed", "impl_rate", "cost_usd", "duration_seconds")
DESCRIBED = ("pass_rate", "impl_rate", "cost_usd", "duration_seconds", "composite_score")
_KS = (1, 2, 3, 4, 5, 10)


def score(path: Path) -> Values:
    """Each tier's means, by which the numbers are compared."""
    passed = pl.col("passed").cast(pl.Float64)
    runs = pl.read_parquet(path, columns=list(COLUMNS)).with_columns(
        pass_rate=passed, composite_score=(passed + pl.col("impl_rate")) / 2
    )
    tiers = runs.group_by("tier").agg(each for name in DESCRIBED for each in _statistics(name))
    tasks = runs.group_by("tier", "id").agg(n=pl.len(), c=pl.col("passed").sum())
    tasks.with_columns(_pass_at(k) for k in _KS).group_by("tier").agg(
        pl.exclude("id", "n", "c").mean()
    )
    runs.select(pl.struct("id", "tier", "run").is_duplicated().sum())
    return {
        row["tier"]: {name: row[f"{name}_mean"] for name in DESCRIBED}
        for row in tiers.iter_rows(named=True)
    }


def _statistics(name: str) -> Iterator[pl.Expr]:
    column = pl.col(name)
    yield column.mean().alias(f"{name}_mean")
    yield column.median().alias(f"{name}_median")
    yield column.mode().min().alias(f"{name}_mode")
    yield column.min().alias(f"{name}_min")
    yield column.max().alias(f"{name}_max")
    yield column.std(ddof=0).alias(f"{name}_std")
    yield column.var(ddof=0).alias(f"{name}_var")


def _pass_at(k: int) -> pl.Expr:
    n, c = pl.col("n"), pl.col("c")
    all_fail = pl.lit(1.0)
    for i in range(k):
        all_fail = all_fail * ((n - c - i).clip(0) / (n - i))
    return (1 - all_fail).alias(f"pass_at_{k}")
