"""Grounding: which statements of a text its passages support.

Where the package was built with Rust, the native library reads the texts; the reader in Python
(`support.py`) is loaded for what that leaves, and to show the statements themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from calipers.metrics.text_counts import count_natively
from calipers.support.lazy_numpy import np


class Grounding(NamedTuple):
    """How many statements a text has, how many lack support, and the support of the weakest."""

    statements: int
    unsupported: int
    support: float | None  # None without statements


GROUNDING = pl.Struct(
    {"statements": pl.Int64(), "unsupported": pl.Int64(), "support": pl.Float64()}
)


def judge_rows(texts: pl.Series, passages: pl.Series) -> pl.Series:
    """Return a struct of `Grounding` for each text; null where there is no text, or no passages."""
    known = texts.is_not_null() & passages.is_not_null()
    if not known.all():
        rows = pl.int_range(len(texts), eager=True).filter(known)
        found = judge_rows(texts.gather(rows), passages.gather(rows)).to_frame("found")
        places = pl.when(known).then(known.cum_sum() - 1)
        return pl.select(places.alias("at")).select(pl.lit(found["found"]).gather("at")).to_series()
    counts = count_natively("judge_statements", texts, 3, passages)
    if counts is None:
        return _judge_in_python(texts, passages)
    support = counts[:, 2].copy().view(np.float64)
    left = counts[:, 0] < 0
    if left.any():
        where = pl.Series(left)
        rest = _judge_in_python(texts.filter(where), passages.filter(where)).struct.unnest()
        counts[left, :2] = rest.select("statements", "unsupported").to_numpy()
        support[left] = rest["support"].fill_null(0.0).to_numpy()
    judged = pl.DataFrame(
        {"statements": counts[:, 0], "unsupported": counts[:, 1], "support": support}
    )
    has_any = pl.when(pl.col("statements") > 0)
    return judged.with_columns(has_any.then("support")).to_struct(texts.name)


def _judge_in_python(texts: pl.Series, passages: pl.Series) -> pl.Series:
    rows = [_judge(*pair) for pair in zip(texts, passages, strict=True)]
    return pl.Series(texts.name, [row._asdict() for row in rows], dtype=GROUNDING)


def _judge(text: str, passages: str) -> Grounding:
    from calipers.metrics.grounding.support import judge_text, list_passages  # noqa: PLC0415

    judged = judge_text(text, list_passages(passages))
    unsupported = sum(not sentence.is_supported for sentence in judged)
    lowest = min((sentence.support for sentence in judged), default=None)
    return Grounding(len(judged), unsupported, lowest)
