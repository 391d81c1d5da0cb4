"""Efficiency: tokens, latency and time as recorded (Z 6, P 1.4), and quality per token (S 1.8).

The quality in `token_efficiency` is of one kind in a group, the first that any of its rows has: the
implementation rate, the scenario's score, or correctness. The result names the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.columns import list_having
from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Metric,
    OneOf,
    Totals,
    centre,
    total,
)
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.declare.means import COUNT, declare_mean, declare_quantile, declare_recorded
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import DECIDABLE, correct
from calipers.metrics.families.cost import RATED, impl_rate
from calipers.metrics.families.scenarios import BEHAVIORS, scenario_score
from calipers.statistics.elementwise import (
    as_whole,
    at_least,
    choose,
    divide,
    fill_null,
    is_anywhere,
    power,
)
from calipers.statistics.intervals import Interval, bound, positive_interval, wilson
from calipers.support.lazy_numpy import np

prompt_tokens = declare_recorded("prompt_tokens")
completion_tokens = declare_recorded("completion_tokens")
latency_ms = declare_recorded("latency_ms")

total_tokens = Feature(
    "total_tokens",
    ("prompt_tokens", "completion_tokens"),
    lambda _: pl.col("prompt_tokens") + pl.col("completion_tokens"),
)

_count_tokens = partial(declare_mean, spec="Z 6.1", unit="tokens", better="lower")

prompt_tokens_mean = _count_tokens(
    prompt_tokens,
    name="prompt_tokens_mean",
    says="Tokens in the prompt, per call.",
    formula="mean(prompt_tokens)",
    needs=("prompt_tokens",),
)

completion_tokens_mean = _count_tokens(
    completion_tokens,
    name="completion_tokens_mean",
    says="Tokens in the completion, per call.",
    formula="mean(completion_tokens)",
    needs=("completion_tokens",),
)

total_tokens_mean = _count_tokens(
    total_tokens,
    name="total_tokens_mean",
    says="Tokens in prompt and completion together, per call.",
    formula="mean(prompt_tokens + completion_tokens)",
    needs=("prompt_tokens", "completion_tokens"),
    nulls="a row without both counts is left out",
)

latency_mean_ms = declare_mean(
    latency_ms,
    name="latency_mean_ms",
    says="Time a call takes, on average.",
    formula="mean(latency_ms)",
    spec="Z 6.2",
    needs=("latency_ms",),
    unit="ms",
    better="lower",
)


def _declare_latency(percent: int, **facts: Any) -> Metric:
    return declare_quantile(
        latency_ms,
        percent,
        "latency_ms",
        name=f"latency_p{percent}_ms",
        says=f"The time within which {percent} % of the calls are done.",
        needs=("latency_ms",),
        unit="ms",
        range=(0, inf),
        better="lower",
        **facts,
    )


latency_p50_ms = _declare_latency(50, profiles=("reasoning",))
latency_p95_ms = _declare_latency(95, spec="Z 6.2, S 1.7")
latency_p99_ms = _declare_latency(99, profiles=("reasoning",))


def _express_time_score(_: Settings) -> pl.Expr:
    """Return the score; at most 1, since P's formula has a pole at 1/e seconds."""
    seconds = pl.coalesce(pl.col("duration_seconds"), pl.col("latency_ms") / 1000)
    return pl.when(seconds < 1).then(1.0).otherwise(1 / (1 + seconds.log()))


time_score = Feature("time_score", ("duration_seconds", "latency_ms"), _express_time_score)

time_score_mean = declare_mean(
    time_score,
    says="How quick runs are: 1 up to a second, 0.3 at ten, 0.18 at a hundred.",
    formula="mean(1 / (1 + ln t) for t ≥ 1, else 1), t = duration_seconds, else latency_ms / 1000",
    spec="P 1.4, time taken",
    needs=(OneOf((("duration_seconds",), ("latency_ms",))),),
    nulls="a row without a duration or a latency is left out",
    range=(0, 1),
    better="higher",
)


KINDS = (impl_rate, scenario_score, correct)  # the first is kind 1
QUALITY = OneOf((*RATED.choices, BEHAVIORS, *DECIDABLE.choices))

_NAME = "token_efficiency"
_N, _KIND, _TOKENS, _QUALITY = (f"{_NAME}__{total}" for total in ("n", "kind", "tokens", "quality"))
_SQUARES, _CROSS, _TOKEN_SQUARES = (
    f"{_NAME}__{total}" for total in ("squares", "cross", "token_squares")
)

kinds_known = Feature(
    "_quality_kinds",
    KINDS,
    lambda _: pl.sum_horizontal(
        pl.col(kind.name).is_not_null().cast(pl.Int64) * 2**bit for bit, kind in enumerate(KINDS)
    ),
    pl.Int8(),
)
"""The kinds of quality that a row has, a bit for each."""


def _has(kind: int) -> pl.Expr:
    bit: pl.Expr = pl.col(kinds_known.name) // 2 ** (kind - 1) % 2
    return bit == 1


def _choose_by_kind(choices: Iterable[pl.Expr], kind: pl.Expr) -> pl.Expr:
    """Return the expression for the kind of quality that a group has."""
    first, second, third = choices
    others = pl.when(kind == 2).then(second).otherwise(third)  # noqa: PLR2004
    return pl.when(kind == 1).then(first).otherwise(others)


def _add_kind(table: Frame) -> Frame:
    """Return each row of the table with its group's kind of quality."""
    some = {kind: _has(kind).cast(pl.Int64).max().over(GROUP) for kind in (1, 2)}
    later = pl.when(some[2] == 1).then(pl.lit(2)).otherwise(pl.lit(3))
    return table.with_columns(pl.when(some[1] == 1).then(pl.lit(1)).otherwise(later).alias(_KIND))


def _sum_rows(table: Frame) -> Frame:
    """Return the group's totals over the rows that have its kind of quality."""
    kind = pl.col(_KIND)

    columns = {
        _N: pl.col("with_tokens"),
        _TOKENS: pl.col("tokens"),
        _TOKEN_SQUARES: pl.col("_token_squares"),
        **{
            name: _choose_by_kind(
                (pl.col(f"{prefix}{kind_of_quality.name}") for kind_of_quality in KINDS), kind
            )
            for name, prefix in ((_QUALITY, "sum_"), (_SQUARES, "_squares_"), (_CROSS, "_cross_"))
        },
    }
    used = _choose_by_kind(map(_has, (1, 2, 3)), kind)
    rows = _add_kind(table).filter(used).with_columns(**columns)
    return rows.group_by(GROUP).agg(*(pl.col(name).sum() for name in columns), pl.col(_KIND).max())


def _list_totals() -> Iterator[tuple[str, pl.Expr]]:
    tokens = pl.col(total_tokens.name)
    yield "rows", COUNT
    yield "with_tokens", tokens.count().cast(pl.Int64)
    yield "tokens", tokens.sum()
    yield "_token_squares", (tokens * tokens).sum()
    for kind in KINDS:
        quality = pl.when(~tokens.is_null()).then(pl.col(kind.name).cast(pl.Float64))
        yield f"sum_{kind.name}", quality.sum()
        yield f"_squares_{kind.name}", (quality * quality).sum()
        yield f"_cross_{kind.name}", (quality * tokens).sum()


_by_kinds = Aggregate(
    features=(kinds_known, total_tokens, *KINDS),
    keys=(kinds_known.name,),
    where=lambda: pl.col(kinds_known.name) > 0,
    totals=dict(_list_totals()),
    finish=(_sum_rows,),
)


def _compute_ratio(totals: Totals) -> Any:
    return np.divide(totals[_QUALITY], totals[_TOKENS])


def _compute_centre(totals: Totals) -> Any:
    return choose(totals[_TOKENS] == 0, 0.0, divide(totals[_QUALITY], totals[_TOKENS]))


def _sum_squares(totals: Totals) -> Any:
    """Return Σ (quality − ratio · tokens)² over the rows."""
    ratio = _compute_centre(totals)
    of_tokens = power(ratio, 2) * totals[_TOKEN_SQUARES]
    return at_least(0.0, totals[_SQUARES] - 2 * ratio * totals[_CROSS] + of_tokens)


def find_quality(totals: Totals) -> str | None:
    """Return the kind of quality that the group has, or None."""
    kind = int(totals.get(_KIND, 0))
    return KINDS[kind - 1].name if kind else None


def note_quality(groups: Iterable[Totals]) -> Iterator[str]:
    """Yield which kinds of quality were used, for readers of the tables."""
    having = list_having(groups, _KIND)
    found = dict.fromkeys(quality for totals in having if (quality := find_quality(totals)))
    if found:
        yield f"{_NAME}: the quality is {', in other groups '.join(found)}"


def _refuse(totals: Totals) -> Any:
    """Return why there is no ratio although rows have a quality; None, or a column, too."""
    kind = totals.get(_KIND, 0)
    if not is_anywhere(kind != 0):
        return None
    reason = choose((kind != 0) & (totals[_TOKENS] == 0), "no tokens were used", None)
    for number, quality in enumerate(KINDS, start=1):
        lacking = f"no record has {quality.name} and the numbers of its tokens"
        reason = choose((kind == number) & (totals[_N] == 0), lacking, reason)
    return reason


@dataclass(frozen=True)
class _EfficiencyDelta:
    """The delta method on the logarithm of the ratio, which cannot fall below 0.

    Where no row has any quality, it is at most what Wilson's upper bound of it gives.
    """

    name: str = "delta of logarithm"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread(_NAME, totals)
        n, is_none = as_whole(totals[_N]), value == 0
        around = positive_interval(value, spread, clusters, confidence)
        if not is_anywhere(is_none):
            return around
        most = fill_null(wilson(0.0, n, 0.0, clusters, confidence).high)
        high = divide(most * n, totals[_TOKENS])
        return bound(
            choose(is_none, high * 0.0, fill_null(around.low)),
            choose(is_none, high, fill_null(around.high)),
            fill_null(around.stderr),
            choose(is_none, None, around.reason),
        )


def _express_effect() -> pl.Expr:
    """Return the effect of a row; null without quality of the group's kind or without tokens."""
    choices = (pl.col(kind.name).cast(pl.Float64) for kind in KINDS)
    return _choose_by_kind(choices, total(_KIND)) - centre(_NAME) * pl.col(total_tokens.name)


token_efficiency = Metric(
    name=_NAME,
    says="Quality for the tokens that it took; `quality` names its kind.",
    formula="Σ quality / Σ (prompt_tokens + completion_tokens), quality = the first that any row "
    "of the group has: impl_rate, the scenario's score, correct",
    spec="S 1.8",
    needs=("prompt_tokens", "completion_tokens", QUALITY),
    nulls="a row without that kind of quality, or without both token counts, is left out",
    unit="per token",
    range=(0, inf),
    better="higher",
    aggregate=_by_kinds,
    rows=_N,
    value=_compute_ratio,
    empty=f"no record has {QUALITY}",
    refused=_refuse,
    work=f"{{{_QUALITY}}} / {{{_TOKENS}}}",
    interval=_EfficiencyDelta(),
    extras={"quality": find_quality},
    influence=Influence(
        name=_NAME,
        rows=_N,
        centre=_compute_centre,
        effect=_express_effect(),
        squares=_sum_squares,
        per=_TOKENS,
        keyed=_by_kinds,
        keyed_step=_add_kind,
        keyed_reads=(_KIND,),
    ),
    weight=lambda _: pl.col(total_tokens.name),
)
