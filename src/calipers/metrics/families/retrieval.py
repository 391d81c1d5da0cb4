"""Retrieval: how many of the relevant passages were found, and how high they stand.

Gain is binary. Precision divides by K and recall by the number of relevant passages, as trec_eval
does; the reciprocal rank is over all passages; the ideal of nDCG is over min(K, relevant).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from math import log2
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature, Metric
from calipers.metrics.declare.means import declare_mean
from calipers.metrics.declare.settings import Settings
from calipers.records.fields import Number, dump_json, is_text, load_json

SHOWN = (5,)
_FOUND = pl.Struct({"ranks": pl.List(pl.Int32()), "relevant": pl.Int32()})


def find_ranks(passages: str, relevant_ids: str) -> tuple[list[int], int] | None:
    """Return the ranks, from 1, of the relevant passages, and how many there are.

    None where no passage has an id. A passage that comes again counts once.

    >>> find_ranks('[{"id": "a"}, {"id": 7}, {"id": "a"}]', '["a", "c"]')
    ([1], 2)
    """
    json = load_json(passages)
    ids = (
        [_read_id(passage.get("id")) for passage in json if isinstance(passage, dict)]
        if (isinstance(json, list))
        else []
    )
    if not isinstance(json, list) or (json and not any(number is not None for number in ids)):
        return None
    relevant = set(_read_ids(relevant_ids))
    ranks, open_ = [], set(relevant)
    for rank, each in enumerate(json, start=1):
        id_ = _read_id(each.get("id")) if isinstance(each, dict) else None
        if id_ in open_:
            open_.discard(id_)
            ranks.append(rank)
    return ranks, len(relevant)


def _read_ids(field: str) -> Iterator[str]:
    value = load_json(field, field) if field.lstrip()[:1] == "[" else field
    for each in value if isinstance(value, list) else [value]:
        if (id_ := _read_id(each)) is not None:
            yield id_


def _read_id(value: Any) -> str | None:
    if value is None or is_text(value):
        return value
    return str(value) if isinstance(value, Number) else dump_json(value)


def _rank_rows(rows: pl.Series) -> pl.Series:
    passages, relevant = rows.struct.field("passages"), rows.struct.field("relevant_ids")
    found: list[dict[str, Any] | None] = [None] * len(rows)
    for row in (passages.is_not_null() & relevant.is_not_null()).arg_true():
        if (ranked := find_ranks(passages[row], relevant[row])) is not None:
            found[row] = {"ranks": ranked[0], "relevant": ranked[1]}
    return pl.Series(rows.name, found, dtype=_FOUND)


_ranked = Feature(
    "_retrieval",
    ("passages", "relevant_ids"),
    lambda _: pl.struct("passages", "relevant_ids").map_batches(_rank_rows, return_dtype=_FOUND),
    _FOUND,
    stored=False,
    listed=False,
)
_RANKS = pl.col(_ranked.name).struct.field("ranks")
_RELEVANT = pl.col(_ranked.name).struct.field("relevant")
_NULLS = (
    "a row without passages that have an `id`, or without `relevant_ids`, is left out; a passage "
    "that comes again counts once"
)
_NONE_RELEVANT = f"{_NULLS}; a row with an empty list of relevant ids is left out"


def _count_hits(k: int) -> pl.Expr:
    return _RANKS.list.eval((pl.element() <= k).cast(pl.Int32)).list.sum()


def _measure_ndcg(k: int) -> pl.Expr:
    gains = [0.0, *accumulate(1 / log2(rank + 1) for rank in range(1, k + 1))]
    gain = pl.when(pl.element() <= k).then(1 / (pl.element() + 1).cast(pl.Float64).log(2))
    ideal = _RELEVANT.clip(upper_bound=k).replace_strict(
        dict(enumerate(gains)), default=None, return_dtype=pl.Float64()
    )
    return pl.when(_RELEVANT > 0).then(_RANKS.list.eval(gain.otherwise(0.0)).list.sum() / ideal)


def _measure_recall(k: int) -> pl.Expr:
    return pl.when(_RELEVANT > 0).then(_count_hits(k) / _RELEVANT)


def _measure_precision(k: int) -> pl.Expr:
    return _count_hits(k) / k


_AT_K = {
    "precision": (
        _measure_precision,
        "The share of the first {k} passages that are relevant.",
        "mean(relevant among the first {k} / {k})",
        _NULLS,
    ),
    "recall": (
        _measure_recall,
        "The share of the relevant passages that stand among the first {k}.",
        "mean(relevant among the first {k} / relevant)",
        _NONE_RELEVANT,
    ),
    "ndcg": (
        _measure_ndcg,
        "How high the relevant passages stand among the first {k}: 1 where they come first.",
        "mean(Σ 1/log2(rank + 1) over the relevant among the first {k} / the most that could be)",
        _NONE_RELEVANT,
    ),
}


def _declare(feature: Feature, says: str, formula: str, nulls: str) -> Metric:
    return declare_mean(
        feature,
        says=says,
        formula=formula,
        spec="Z 8, retrieval",
        profiles=("reasoning",),
        needs=("passages", "relevant_ids"),
        nulls=nulls,
        range=(0, 1),
        better="higher",
        empty="no record has both passages with an id and relevant_ids",
        optional="unless named",
    )


@cache
def declare_retrieval(kind: str, k: int) -> Metric:
    """Return `retrieval_precision_at_K`, `retrieval_recall_at_K` or `retrieval_ndcg_at_K`."""
    measure, says, formula, nulls = _AT_K[kind]

    def express(settings: Settings) -> pl.Expr:
        del settings
        return measure(k)

    feature = Feature(f"retrieval_{kind}_at_{k}", (_ranked,), express)
    return _declare(feature, says.format(k=k), formula.format(k=k), nulls)


retrieval_mrr = _declare(
    Feature(
        "retrieval_mrr",
        (_ranked,),
        lambda _: pl.when(_RANKS.is_not_null()).then((1 / _RANKS.list.first()).fill_null(0.0)),
    ),
    "How high the first relevant passage stands: 1 in the first place, 1/2 in the second.",
    "mean(1 / rank of the first relevant passage, 0 without one)",
    _NULLS,
)

SHOWN_METRICS = tuple(declare_retrieval(kind, k) for kind in _AT_K for k in SHOWN)
