"""`normalize(s)`: which answer a text holds, and when two count as the same (DEFINITIONS, Z).

Surrounding white space is removed, case is folded, and a plain decimal number is written in one
way, so that `18.0`, `+18` and `18` are one answer. Numbers stay text: no digit is lost to a float.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
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
