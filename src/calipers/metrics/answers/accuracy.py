"""Accuracy: the share of tasks whose final answer is right, and its complements."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from calipers.metrics.answers.normalize import normalized_answer, normalized_target
from calipers.metrics.declare.declaration import Feature, OneOf
from calipers.metrics.declare.means import count_true, declare_sums, mean
from calipers.metrics.declare.settings import Settings

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

accuracy = mean(
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

error_rate = mean(
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
