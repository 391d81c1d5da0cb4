"""Ten runs of each task in a thousand tiers, in no order: what passed, how far, cost and time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

TIERS = 1_000
RUNS = 10
_SEED = 21
_STEP = 7_368_787  # a prime: stepping by it visits every row once, far from its neighbours


def batches(rows: int, batch_rows: int) -> Iterator[pl.DataFrame]:
    """The runs in batches; a task has `RUNS` of them in each tier."""
    tiers = pl.Series([f"T{tier:03}" for tier in range(TIERS)])
    for start in range(0, rows, batch_rows):
        rng = np.random.default_rng([_SEED, start])
        count = min(batch_rows, rows - start)
        numbers = np.arange(start, start + count) * _STEP % rows
        tries = numbers // TIERS
        yield pl.DataFrame(
            {
                "id": "task-" + pl.Series(tries // RUNS).cast(pl.String).str.zfill(5),
                "tier": tiers.gather(numbers % TIERS),
                "run": tries % RUNS + 1,
                "passed": rng.random(count) < 0.6,
                "impl_rate": np.round(rng.random(count), 2),
                "cost_usd": np.round(rng.gamma(2, 0.02, count), 6),
                "duration_seconds": np.round(rng.gamma(3, 20, count), 3),
            }
        )
