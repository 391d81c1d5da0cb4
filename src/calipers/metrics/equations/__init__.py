"""Equations in chains of thought: how many there are, and how many are wrong.

Where the package was built with Rust, the native library counts; the reader in Python, whose
regular expressions take time to compile, is loaded for what that leaves, and to quote equations.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from calipers.metrics.text_counts import count_natively


class EquationCounts(NamedTuple):
    """How many equations a text holds, and how many signs that may join one."""

    equations: int
    wrong: int
    rounded: int
    equals_signs: int


COUNTS = pl.Struct(dict.fromkeys(EquationCounts._fields, pl.Int64()))


def count_equations_of(texts: pl.Series) -> pl.Series:
    """Return a struct of `EquationCounts` for each text; null where there is no text."""
    counts = count_natively("count_equations", texts, len(EquationCounts._fields))
    if counts is None:
        return _count_in_python(texts)
    left = counts[:, 0] < 0
    if left.any():
        rest = _count_in_python(texts.filter(pl.Series(left)))
        counts[left] = rest.struct.unnest().to_numpy()
    found = pl.from_numpy(counts, schema=list(EquationCounts._fields)).to_struct(texts.name)
    return found.set(texts.is_null(), None) if texts.null_count() else found


def _count_in_python(texts: pl.Series) -> pl.Series:
    from calipers.metrics.equations.parser import count_equations  # noqa: PLC0415

    counts = [None if text is None else count_equations(text)._asdict() for text in texts]
    return pl.Series(texts.name, counts, dtype=COUNTS)
