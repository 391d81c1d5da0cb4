"""Several who watch the same rows on their way, each with groups of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from calipers.engines.codes import group_text
from calipers.engines.plan import name_kept
from calipers.metrics.declare.declaration import CLUSTER, GROUP
from calipers.records.sinks import Watch

_ID = "id"


def watch_groups(watch: Watch, by: tuple[str, ...], cluster: str | None) -> Watch:
    """Return the watch for rows that are read without groups: it sees those of these fields."""
    fields = by if cluster is None else (*by, cluster)
    given = {name: own for name, own in watch.columns.items() if own not in (GROUP, CLUSTER)}
    told = {f"_told_{name}": name_kept(name) for name in fields}

    def take(rows: pl.DataFrame) -> None:
        named = rows.select(pl.col(f"_told_{name}").alias(name) for name in fields)
        groups = named.select(group_text(by).alias(GROUP)) if by else pl.lit("{}").alias(GROUP)
        rows = rows.drop(told).with_columns(groups)
        if cluster is not None:
            text = named[cluster].cast(pl.String)
            number = pl.when(text.is_not_null()).then(text.hash().reinterpret(signed=True))
            rows = rows.with_columns(number.alias(CLUSTER))
        watch.take(rows)

    keep = tuple(dict.fromkeys((*watch.kept, *fields)))
    return replace(watch, kept=keep, columns=given | told, take=take)


def watch_together(watches: Sequence[Watch]) -> Watch:
    """Return one watch that shows each of these what it asks for."""
    columns = {_ID: _ID}
    for place, watch in enumerate(watches):
        columns |= {f"{place}:{name}": own for name, own in watch.columns.items() if name != _ID}

    def take(rows: pl.DataFrame) -> None:
        for place, watch in enumerate(watches):
            own = (
                pl.col(_ID if name == _ID else f"{place}:{name}").alias(name)
                for name in watch.columns
            )
            watch.take(rows.select(own))

    keep = tuple(dict.fromkeys(name for watch in watches for name in watch.kept))
    return Watch(kept=keep, columns=columns, take=take)
