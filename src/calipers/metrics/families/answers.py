"""Answers (Z, S): normalization, accuracy, precision and recall, and diversity.

Before answers are compared, surrounding white space is removed, case is folded, and a plain decimal
number is written in one way, so that `18.0`, `+18` and `18` are one answer (DEFINITIONS, Z).
Numbers stay text: no digit is lost to a float.

Diversity is Z's self-consistency entropy v0, over a data set in a single pass. How far the runs of
one task agree is in `repeated_runs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    GROUP,
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
from calipers.metrics.declare.means import (
    COUNT,
    count_true,
    count_values,
    declare_mean,
    declare_sums,
)
from calipers.metrics.declare.settings import Settings
from calipers.statistics.elementwise import (
    as_whole,
    at_least,
    at_most,
    choose,
    hypot,
    is_one,
    log,
    power,
)
from calipers.statistics.intervals import (
    ONE_ROW,
    UNKNOWN,
    Interval,
    bound,
    compute_error,
    design_effect,
    t_quantile,
)
from calipers.support.errors import UsageError
from calipers.support.patterns import check_pattern, count_groups

# White space as Python's str.isspace() has it; Rust's lacks \x1c to \x1f.
PYTHON_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_NUMBER = r"^[+-]?(?:(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?|\.[0-9]+)$"
_NORMAL = r"^(?:0|[1-9][0-9]*|[a-z]+)$"  # most short answers, which are normal already
_LEADING = r"^-?[.0]"  # a zero is missing before the point, or there are too many
_KEY_CHARS = 64
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_LAST = rf"(?s)^(?:.*[^0-9A-Za-z.,-])?(-?(?:{_DIGITS}))[^0-9]*$"  # its minus sign touches no word
_LAST_DIGITS = rf"(?s)^(?:.*[^0-9.,])?({_DIGITS})[^0-9]*$"


def check_extraction(settings: Settings) -> None:
    """Raise UsageError for contradictory options, or a pattern that cannot be used."""
    ways = {
        "--set answer_after": settings.answer_after is not None,
        "--set answer_regex": settings.answer_regex is not None,
        "--set answer": settings.answer != "recorded",
    }
    named = [flag for flag, is_given in ways.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: one way to find the answer", fix="keep one")
    if settings.answer_regex is not None:
        check_pattern("--set answer_regex", settings.answer_regex)


def extract_answers(texts: pl.Series, settings: Settings) -> pl.Series:
    r"""Return the answers that the settings find in recorded texts; null where there is none.

    What follows a mark, what a pattern finds, or the last number.

    >>> texts = pl.Series(["That makes $18.", "60 toys", "from 10-5 to -3", "none"])
    >>> extract_answers(texts, Settings(answer="last-number")).to_list()
    ['18', '60', '-3', None]
    >>> extract_answers(pl.Series(["A: 1\nA: 2"]), Settings(answer_after="A:")).to_list()
    [' 2']
    """
    if settings.answer_after is not None:
        parts = texts.str.split(settings.answer_after)
        found = parts.list.last()
        return found.set(parts.list.len() < 2, None)  # noqa: PLR2004 (a mark makes two parts)
    if settings.answer_regex is not None:
        whole = texts.str.extract_all(settings.answer_regex).list.last()
        has_group = count_groups(settings.answer_regex) > 0
        return whole.str.extract(settings.answer_regex, 1) if has_group else whole
    if settings.answer == "last-number":
        signed = texts.str.extract(_LAST)
        return signed.zip_with(signed.is_not_null(), texts.str.extract(_LAST_DIGITS))
    return texts


def normalize(texts: pl.Series, settings: Settings) -> pl.Series:
    """Return the texts as they are compared."""
    rows = (~texts.str.contains(_NORMAL)).arg_true()
    others = texts.gather(rows).str.strip_chars(PYTHON_SPACE).str.to_lowercase()
    if settings.normalize != "text":
        others = _replace_at(others.str.contains(_NUMBER), others, _spell_numbers)
    return texts.clone().scatter(rows, others) if len(rows) else texts


def _spell_numbers(numbers: pl.Series) -> pl.Series:
    """Return one spelling per value: no plus, no commas, no redundant zeros, no minus zero."""
    numbers = numbers.str.replace_all(",", "", literal=True).str.strip_prefix("+")
    numbers = _replace_at(numbers.str.contains(_LEADING), numbers, _spell_leading_zeros)
    has_point = numbers.str.contains(".", literal=True)
    shorter = numbers.str.strip_chars_end("0").str.strip_chars_end(".")
    numbers = shorter.zip_with(has_point, numbers)
    return numbers.set(numbers == "-0", "0")


def _spell_leading_zeros(numbers: pl.Series) -> pl.Series:
    return numbers.str.replace(r"^(-?)\.", "${1}0.").str.replace(r"^(-?)0+([0-9])", "${1}${2}")


def _replace_at(
    where: pl.Series, texts: pl.Series, change: Callable[[pl.Series], pl.Series]
) -> pl.Series:
    """Return the texts with those changed for which `where` is true."""
    rows = where.arg_true()
    return texts.scatter(rows, change(texts.gather(rows))) if len(rows) else texts


def _declare_normalized(field: str, find: Callable[[pl.Series, Settings], pl.Series]) -> Feature:
    def express(settings: Settings) -> pl.Expr:
        return pl.col(field).map_batches(
            lambda texts: normalize(find(texts, settings), settings), return_dtype=pl.String
        )

    return Feature(f"_normalized_{field}", (field,), express, pl.String(), stored=False)


normalized_answer = _declare_normalized("answer", extract_answers)
normalized_target = _declare_normalized("target", lambda texts, _: texts)


def _shorten_answer(_: Settings) -> pl.Expr:
    """Return the normalized answer; a long one is cut and hashed, so that totals hold no texts."""
    text = pl.col(normalized_answer.name)
    short = text.str.slice(0, _KEY_CHARS) + "…#" + text.hash(seed=0).cast(pl.String)
    return pl.when(text.str.len_bytes() > _KEY_CHARS).then(short).otherwise(text)


answer_key = Feature("answer_key", (normalized_answer,), _shorten_answer, pl.String(), listed=False)


DECIDABLE = OneOf((("correct",), ("answer", "target")))


def _decide_correct(_: Settings) -> pl.Expr:
    same = pl.col(normalized_answer.name) == pl.col(normalized_target.name)
    compared = pl.when(pl.col("target").is_not_null()).then(same.fill_null(value=False))
    return pl.coalesce(pl.col("correct"), compared)


correct = Feature(
    "correct",
    ("correct", "target", normalized_answer, normalized_target),
    _decide_correct,
    pl.Boolean(),
)

unanswered = Feature(
    "unanswered",
    ("correct", "answer", "target"),
    lambda _: (
        pl.col("target").is_not_null() & pl.col("answer").is_null() & pl.col("correct").is_null()
    ),
    pl.Boolean(),
    listed=False,
)

accuracy = declare_mean(
    correct,
    name="accuracy",
    says="The share of tasks whose final answer is right.",
    formula="mean(correct), correct = recorded, else normalize(answer) = normalize(target)",
    spec="Z 2.1, S 1.2",
    needs=(DECIDABLE,),
    nulls="a row with neither a recorded `correct` nor a target is left out; "
    "a target without an answer is wrong and counted as unanswered",
    better="higher",
    aggregate=declare_sums(correct, unanswered, unanswered=count_true(unanswered)),
    extras={"unanswered": "unanswered"},
)

error_rate = declare_mean(
    correct,
    name="error_rate",
    says="The share of tasks whose final answer is wrong.",
    formula="1 − accuracy",
    spec="Z 2.3",
    needs=(DECIDABLE,),
    nulls=accuracy.nulls,
    better="lower",
    complement=True,
)

usr = replace(
    error_rate,
    name="usr",
    says="Unsupported step rate v0: a wrong answer counts as an unsupported path of reasoning.",
    formula="1 − accuracy, the proxy that Z defines",
    spec="Z 2.2",
)


_BOOLEANS = {"true": True, "false": False}
_N, _LABELLED = "classified__n", "classified__without_label"


def _as_number(label: str) -> float:
    """Return a label as a number; NaN, which equals no number, if it is not one."""
    try:
        return float(label)
    except ValueError:
        return nan


def _mark_positive(values: pl.Series, label: str | None) -> pl.Series:
    """Return which values are the positive label; without a label, only `true` is."""
    if label is None:
        words = values.cast(pl.String).str.to_lowercase()
        return words.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    if values.dtype.is_numeric():
        return values == _as_number(label)
    return values.cast(pl.String) == label


def _declare_positive(field: str) -> Feature:
    def express(settings: Settings) -> pl.Expr:
        mark = partial(_mark_positive, label=settings.positive)
        return pl.col(field).map_batches(mark, return_dtype=pl.Boolean)

    return Feature(f"_{field}_positive", (field,), express, pl.Boolean(), stored=False)


_predicted, _actual = _declare_positive("predicted"), _declare_positive("actual")
_BOTH = pl.col("predicted").is_not_null() & pl.col("actual").is_not_null()
_TOLD = pl.col(_predicted.name).is_not_null() & pl.col(_actual.name).is_not_null()

labelled = Feature(
    "_labelled",
    ("predicted", "actual", _predicted, _actual),
    lambda _: pl.when(_BOTH).then(_TOLD),
    pl.Boolean(),
)
"""Whether the two labels of a row, where it has both, are known to be positive or not."""


def _declare_hits(name: str, *, among: Feature, of: Feature) -> Feature:
    """Return the feature that is true for rows of one kind that are of the other kind too."""
    return Feature(
        name,
        (labelled, _predicted, _actual),
        lambda _: pl.when(pl.col(labelled.name) & pl.col(among.name)).then(of.name),
        pl.Boolean(),
    )


_precise = _declare_hits("prediction_right", among=_predicted, of=_actual)
_recalled = _declare_hits("positive_found", among=_actual, of=_predicted)


def _declare_share(hits: Feature, kind: str, **facts: Any) -> Metric:
    """Return precision or recall: the share of rows of one kind that are of the other too."""

    def refuse(totals: Totals) -> str | None:
        if totals.get(_LABELLED):
            return "predicted and actual hold labels: name the positive one, --set positive=LABEL"
        if totals.get(_N) and not totals[f"{hits.name}__n"]:
            return f"no record is {kind} positive"
        return None

    counted = {_N: count_true(labelled), _LABELLED: (~pl.col(labelled.name)).cast(pl.Int64).sum()}
    share = declare_mean(
        hits,
        needs=("predicted", "actual"),
        nulls="a row without both `predicted` and `actual` is left out",
        better="higher",
        aggregate=declare_sums(hits, labelled, **counted),
        refused=refuse,
        **facts,
    )
    # No value per task: two systems predict different rows as positive.
    return replace(share, rows=_N, averaged=None)


precision = _declare_share(
    _precise,
    "predicted",
    name="precision",
    says="Of the rows predicted positive, the share that is.",
    formula="true positives / (true positives + false positives); `positive` names the label",
    spec="S 1.3",
)

recall = _declare_share(
    _recalled,
    "actually",
    name="recall",
    says="Of the rows that are positive, the share predicted so.",
    formula="true positives / (true positives + false negatives); `positive` names the label",
    spec="S 1.4",
)


_ROWS_PER_ANSWER = 5  # the fewest on average, as in the rule for chi-square tests
_FEW_ROWS = f"fewer than {_ROWS_PER_ANSWER} rows for each distinct answer: others may be unseen"
_ROUNDING = 1e-9


def _sum_entropy(answers: Frame) -> Frame:
    count = pl.col("answer_n")
    log_n = count.cast(pl.Float64).log()
    return (
        answers.with_columns(n_log_n=count * log_n, n_log_n_log_n=count * log_n * log_n)
        .group_by(GROUP)
        .agg(
            count.sum().alias("answers__n"),
            count.max().alias("answers__most"),
            COUNT.alias("answers__distinct"),
            pl.col("n_log_n").sum().alias("answers__n_log_n"),
            pl.col("n_log_n_log_n").sum().alias("answers__n_log_n_log_n"),
        )
    )


_answers = count_values(answer_key, "answer_n", finish=(_sum_entropy,))


def _compute_sce(totals: Totals) -> Any:
    """Return −Σ p ln p from the totals of the counts; exactly 0 with one distinct answer."""
    count = totals["answers__n"]
    found = at_least(0.0, log(count) - totals["answers__n_log_n"] / count)
    return found * (totals["answers__distinct"] != 1)


def _compute_normalized_sce(totals: Totals) -> Any:
    most = log(at_least(2.0, totals["answers__distinct"]))
    return at_most(1.0, _compute_sce(totals) / most)


def _average_log_counts(totals: Totals) -> float:
    return totals["answers__n_log_n"] / totals["answers__n"]


def _sum_squares(totals: Totals) -> Any:
    """Return Σ over rows of (mean of ln count − ln count of the row's answer)²."""
    mean = _average_log_counts(totals)
    return at_least(0.0, totals["answers__n_log_n_log_n"] - totals["answers__n"] * power(mean, 2))


_information = Influence(
    name="answers",
    rows="answers__n",
    centre=_average_log_counts,
    effect=centre("answers") - total("answer_n").cast(pl.Float64).log(),
    squares=_sum_squares,
    keyed=_answers,
    keyed_reads=("answer_n",),
)


@dataclass(frozen=True)
class _EntropyDelta:
    """The delta method to second order, for the effective number of independent rows.

    The entropy of a sample is too low by (distinct − 1) / 2n on average (Miller 1955). It is
    concave: t standard errors away it is t² / 2n lower than the slope says. The upper bound allows
    for an unseen answer, as if one more row had one. With few rows per distinct answer, any number
    may be unseen: then there is no upper bound.
    """

    normalized: bool = False
    name: str = "delta"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        n, distinct = as_whole(totals["answers__n"]), totals["answers__distinct"]
        spread, clusters = read_spread("answers", totals)
        if is_one(n) and clusters.too_few:
            return replace(UNKNOWN, reason=ONE_ROW)
        stderr = compute_error(spread, clusters)
        scale = log(at_least(2, distinct)) if self.normalized else 1.0
        nats = value * scale
        unlike = n - totals["answers__most"]
        size = n / design_effect(spread, _sum_squares(totals), n, clusters, unlike)
        t = t_quantile(clusters, confidence)
        middle = nats + (distinct - 1) / (2 * size)
        low = middle - t * stderr - t * t / (2 * size)
        unseen = at_least(0.0, log(size + 1) - nats) / size
        high = middle + t * hypot(stderr, unseen)
        few = distinct * _ROWS_PER_ANSWER > size + _ROUNDING
        reason = choose(clusters.too_few, ONE_ROW, choose(few, _FEW_ROWS, None))
        return bound(
            at_most(nats, low) / scale,
            choose(few, nan, at_least(nats, high) / scale),
            stderr / scale,
            reason,
        )


sce = Metric(
    name="sce",
    says="Entropy of the answers over the data set: how varied they are, in nats.",
    formula="−Σ p ln p over the distinct normalised answers",
    spec="Z 4.1",
    needs=("answer",),
    nulls="a row without an answer is left out",
    unit="nats",
    range=(0, inf),
    aggregate=_answers,
    rows="answers__n",
    value=_compute_sce,
    empty="no record has an answer",
    work="ln {answers__n} − {answers__n_log_n} / {answers__n}, "
    "{answers__n_log_n} being Σ n ln n over {answers__distinct} distinct answers",
    interval=_EntropyDelta(),
    influence=_information,
    not_resampled="answers are missing from resamples, whose entropy falls short of the sample's",
    weight=lambda _: 1 / pl.col("answer_n"),
)

sce_normalized = replace(
    sce,
    name="sce_normalized",
    says="Entropy of the answers as a share of the most it could be with as many distinct ones.",
    formula="sce / ln(distinct answers); 0 when there is one",
    unit=None,
    range=(0, 1),
    value=_compute_normalized_sce,
    work="(ln {answers__n} − {answers__n_log_n} / {answers__n}) / ln {answers__distinct}, "
    "0 where all answers are one",
    interval=_EntropyDelta(normalized=True),
)
