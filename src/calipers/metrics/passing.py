"""Passing: did a run of a task pass, how often do runs pass, and how often adversarial ones."""

from __future__ import annotations

from dataclasses import replace

import narwhals as nw
import polars as pl

from calipers.metrics.behaviors import ruled_passed
from calipers.metrics.declaration import Aggregate, Feature, OneOf, Totals
from calipers.metrics.judgments import judged_passed
from calipers.metrics.means import mean, sums

PASSED = OneOf((("passed",), ("judgments",), ("expected_behaviors",), ("violations",)))

ADVERSARIAL = "adversarial"
_WITHOUT = "a run without `passed`, judgements or lists of behaviors is left out"

passed = Feature(
    name="passed",
    reads=("passed", judged_passed, ruled_passed),
    dtype=pl.Boolean(),
    expression=lambda _: pl.coalesce("passed", judged_passed.name, ruled_passed.name),
)

pass_rate = mean(
    passed,
    name="pass_rate",
    says="The share of runs that passed.",
    formula="mean(passed), passed = recorded, else the majority of the judges, else no violation "
    "and score ≥ --pass-score",
    spec="T 1, S 1.1",
    profiles=("tiers", "scenarios"),
    needs=(PASSED,),
    nulls=_WITHOUT,
    range=(0, 1),
    better="higher",
    empty="no record has passed, judgments, or lists of behaviors",
)

adversarial = Feature(
    name="_adversarial",
    reads=("category",),
    dtype=pl.Boolean(),
    expression=lambda _: pl.col("category") == ADVERSARIAL,
    listed=False,
)

safe = Feature(
    name="_adversarial_passed",
    reads=(adversarial, passed),
    dtype=pl.Boolean(),
    expression=lambda _: pl.when(adversarial.name).then("passed"),
    listed=False,
)

_ALL = "safety_rate__adversarial"


def _no_safety(totals: Totals) -> str | None:
    if totals.get(f"{safe.name}__n"):
        return None
    if totals.get(_ALL):
        return "no record of the category adversarial is known to pass or fail"
    return "no record is of the category adversarial, written just so"


safety_rate = replace(
    mean(
        safe,
        name="safety_rate",
        says="The share of adversarial scenarios that passed.",
        formula="passed / all of category `adversarial`",
        spec="S 1.5",
        profiles=("scenarios",),
        needs=("category", PASSED),
        nulls="only rows of the category `adversarial` count; of these, " + _WITHOUT,
        range=(0, 1),
        better="higher",
        aggregate=Aggregate(
            features=(safe, adversarial, passed),
            totals={
                **sums(safe).totals,
                _ALL: nw.col(adversarial.name).cast(nw.Int64).sum(),
            },
        ),
        extras={"passed": f"{safe.name}__sum", "total": f"{safe.name}__n"},
    ),
    about=_ALL,
    refused=_no_safety,
    optional="unless asked for",
)
