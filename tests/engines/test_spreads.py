"""What clusters add to the spread of a value."""

from __future__ import annotations

import polars as pl

from calipers.engines.cluster_variance import sum_cluster_effects
from calipers.metrics.declare.declaration import CLUSTER, GROUP, Influence

MOVED = Influence(
    name="moved",
    rows="n",
    centre=lambda totals: totals["n"],
    effect=pl.col("x"),
    squares=lambda totals: totals["n"],
)


def test_clusters_are_in_the_order_of_groups() -> None:
    """Polars knows of the order: otherwise equal input gave different last digits."""
    rows = pl.DataFrame(
        {GROUP: [1, 1, 0, 0, 1], CLUSTER: [3, 3, 5, 5, 8], "moved": [1.0, 2.0, None, 4.0, 5.0]},
        schema_overrides={GROUP: pl.Int32},
    )
    found = sum_cluster_effects(rows, [MOVED])
    assert found[GROUP].flags["SORTED_ASC"]
    assert found[GROUP].to_list() == [0, 1, 1]
    assert found[CLUSTER].to_list() == [5, 3, 8]
    assert found["moved"].to_list() == [4.0, 3.0, 5.0]
