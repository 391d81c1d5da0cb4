r"""The answer within a recorded text: what follows a mark, what a pattern finds, the last number.

>>> from calipers.metrics.declare.settings import Settings
>>> texts = pl.Series(["That makes $18.", "60 toys", "from 10-5 to -3", "none"])
>>> extract_answers(texts, Settings(answer="last-number")).to_list()
['18', '60', '-3', None]
>>> extract_answers(pl.Series(["A: 1\nA: 2"]), Settings(answer_after="A:")).to_list()
[' 2']
"""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.settings import Settings
from calipers.support.errors import UsageError
from calipers.support.patterns import check_pattern, count_groups

_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_LAST = rf"(?s)^(?:.*[^0-9A-Za-z.,-])?(-?(?:{_NUMBER}))[^0-9]*$"  # its minus sign touches no word
_LAST_DIGITS = rf"(?s)^(?:.*[^0-9.,])?({_NUMBER})[^0-9]*$"


def check_extraction(settings: Settings) -> None:
    """Raise UsageError for contradictory options, or a pattern that cannot be used."""
    ways = {
        "--answer-after": settings.answer_after is not None,
        "--answer-regex": settings.answer_regex is not None,
        "--answer": settings.answer != "recorded",
    }
    named = [flag for flag, is_given in ways.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: one way to find the answer", fix="keep one")
    if settings.answer_regex is not None:
        check_pattern("--answer-regex", settings.answer_regex)


def extract_answers(texts: pl.Series, settings: Settings) -> pl.Series:
    """Return the answers that the settings find in recorded texts; null where there is none."""
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
