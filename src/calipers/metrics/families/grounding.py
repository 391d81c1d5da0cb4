"""Grounding (Z 8): the share of an answer's statements that the retrieved passages do not support.

`metrics/grounding/` finds the statements and weighs what speaks for them: docs/rag_usr.md.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.means import declare_mean, declare_part, declare_sums, sum_whole
from calipers.metrics.declare.settings import Settings
from calipers.metrics.grounding import GROUNDING, judge_rows

_QUOTED = 3  # statements of a row
_LONGEST = 120  # characters of one


def _judge(settings: Settings) -> pl.Expr:
    text = settings.rag_text

    def of_batch(rows: pl.Series) -> pl.Series:
        texts, passages = rows.struct.field(text), rows.struct.field("passages")
        if texts.null_count() == len(texts) or passages.null_count() == len(passages):
            return pl.repeat(None, len(rows), dtype=GROUNDING, eager=True).alias(rows.name)
        return judge_rows(texts, passages)

    return pl.struct(text, "passages").map_batches(of_batch, return_dtype=GROUNDING)


_judged = Feature(
    "_grounding", ("passages", "answer", "cot"), _judge, GROUNDING, stored=False, listed=False
)
_part = partial(declare_part, of=_judged)
statements = _part("statements", part="statements", dtype=pl.Int32())
unsupported_statements = _part("unsupported_statements", part="unsupported", dtype=pl.Int32())
rag_support = _part("rag_support", part="support")

unsupported_share = Feature(
    "rag_usr",
    (statements, unsupported_statements),
    lambda _: pl.when(pl.col(statements.name) > 0).then(
        pl.col(unsupported_statements.name) / pl.col(statements.name)
    ),
)


def quote_unsupported(text: str, passages: str) -> str:
    """Return the statements of a text that the passages do not support, for `explain`."""
    from calipers.metrics.grounding.support import judge_text, list_passages  # noqa: PLC0415

    judged = judge_text(text, list_passages(passages))
    wrong = [
        text[sentence.statement.start : sentence.statement.end]
        for sentence in judged
        if not sentence.is_supported
    ]
    shown = [
        sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]}…"
        for sentence in wrong[:_QUOTED]
    ]
    rest = [f"and {len(wrong) - _QUOTED} more"] if len(wrong) > _QUOTED else []
    return "; ".join((*shown, *rest))


def _quote(settings: Settings) -> pl.Expr:
    def of_row(row: dict[str, str | None]) -> str | None:
        text, passages = row[settings.rag_text], row["passages"]
        return None if text is None or passages is None else quote_unsupported(text, passages)

    return pl.struct(settings.rag_text, "passages").map_elements(of_row, return_dtype=pl.String())


_counted = (statements, unsupported_statements)

rag_usr = declare_mean(
    unsupported_share,
    says="The share of an answer's statements that the retrieved passages do not support.",
    formula="mean over rows with statements of (unsupported statements / statements): "
    "docs/rag_usr.md; of the answer, or with the setting `rag_text: cot` of the chain of thought",
    spec="Z 8",
    needs=("passages", "answer"),
    nulls="a row without passages or without an answer is left out, and one whose answer states "
    "nothing; with an empty list of passages nothing is supported",
    range=(0, 1),
    better="lower",
    empty="no answer with passages states anything",
    aggregate=declare_sums(
        unsupported_share,
        *_counted,
        rag_support,
        **{f"{feature.name}__sum": sum_whole(feature) for feature in _counted},
    ),
    extras={
        "statements": "statements__sum",
        "unsupported": "unsupported_statements__sum",
    },
    quotes=Feature("unsupported", ("passages", "answer", "cot"), _quote, pl.String()),
)
