"""Checks of numbers: the one in the reply, the reply's length, and what the call took."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import polars as pl

from calipers.metrics.checks.kind import (
    NOT_NEGATIVE,
    Replies,
    ReplyTest,
    Schema,
    make_object_schema,
    read_keys,
    read_limit,
    read_template,
)
from calipers.support.field_paths import Template
from calipers.support.strict_model import refuse

_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_NUMBER = rf"[-+]?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_ROUNDING = 1e-9  # 10.3 is within 0.1 of 10.2, whatever doubles make of it


def _find_last_number(text: pl.Series) -> pl.Series:
    """Return the last number of each text, thousands commas allowed; null without one."""
    plain = text.str.replace_all("−", "-", literal=True)
    last = plain.str.extract_all(_NUMBER).list.last()
    return last.str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)


@dataclass(frozen=True)
class LastNumber(ReplyTest):
    """The last number of the reply is a given one."""

    key = "number"
    says = (
        "The last number in the reply lies within `tolerance` (0 unless set) of `value`. "
        "Thousands commas are read; units and percent signs are not."
    )
    example: ClassVar[Any] = {"value": "{target}", "tolerance": 0.01}
    schema: ClassVar[Schema] = make_object_schema(
        {"value": {"type": ["number", "string"]}, "tolerance": NOT_NEGATIVE}, "value"
    )

    value: Template = field(compare=False)
    tolerance: float

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = "for example number: {value: 12.5, tolerance: 0.1}"
        if not isinstance(value, dict):
            value = {"value": value}
        found = read_keys(value, ("value", "tolerance"), ("value",), fix)
        text = read_template(found["value"], at=("value",))
        if not text.fields and _find_last_number(pl.Series([text.text]))[0] is None:
            refuse(f"{text.text} is not a number", fix=fix, at=("value",))
        tolerance = read_limit(found.get("tolerance", 0), fix=fix, at=("tolerance",))
        return cls(text, tolerance)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.value.fields

    @property
    def lacks(self) -> str:
        return f"{self.value.text} is not a number in this record"

    def hold(self, replies: Replies) -> pl.Series:
        """Compare; a reply without a number does not hold."""
        wanted = _find_last_number(replies.fill(self.value))
        last_number = _find_last_number(replies.text)
        if len(wanted) == 1:
            wanted = wanted.new_from_index(0, len(last_number))
        near = (last_number - wanted).abs() <= self.tolerance + _ROUNDING * self.tolerance
        there = replies.text.is_not_null() & wanted.is_not_null()
        return near.fill_null(value=False).set(~there, None)

    def tell(self, replies: Replies) -> pl.Series:
        found = _find_last_number(replies.text).cast(pl.String)
        return ("the last number is " + found).fill_null("no number")


@dataclass(frozen=True)
class Length(ReplyTest):
    """The number of words or characters of the reply is within bounds."""

    key = "length"
    says = "The reply has at least `at_least` and at most `at_most` words, or chars (code points)."
    example: ClassVar[Any] = {"at_most": 100, "unit": "words"}
    schema: ClassVar[Schema] = {
        **make_object_schema(
            {
                "at_least": {"type": "integer", "minimum": 0},
                "at_most": {"type": "integer", "minimum": 0},
                "unit": {"enum": ["words", "chars"], "default": "words"},
            }
        ),
        "minProperties": 1,
    }

    at_least: int
    at_most: int | None
    unit: Literal["words", "chars"]

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = "for example length: {at_most: 100, unit: words}"
        found = read_keys(value, ("at_least", "at_most", "unit"), (), fix)
        unit = found.pop("unit", "words")
        if unit not in ("words", "chars"):
            refuse(f"unit: {unit} is not a unit", fix="words or chars", at=("unit",))
        if not found:
            refuse("no bound is given", fix=fix)
        for name, bound in found.items():
            read_limit(bound, fix=fix, at=(name,), whole=True)
        return cls(found.get("at_least", 0), found.get("at_most"), unit)

    def _count(self, text: pl.Series) -> pl.Series:
        return text.str.len_chars() if self.unit == "chars" else text.str.count_matches(r"\S+")

    def hold(self, replies: Replies) -> pl.Series:
        count = self._count(replies.text)
        held = count >= self.at_least
        return held if self.at_most is None else held & (count <= self.at_most)

    def tell(self, replies: Replies) -> pl.Series:
        return self._count(replies.text).cast(pl.String) + f" {self.unit}"


@dataclass(frozen=True)
class _Most(ReplyTest):
    """A limit on what the call took, by the fields that are read."""

    unit: ClassVar[str]
    schema: ClassVar[Schema] = NOT_NEGATIVE
    of_reply = False

    most: float

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        return cls(read_limit(value, fix=f"for example {cls.key}: {cls.example}"))

    def _measure(self, replies: Replies) -> pl.Series:
        """Return what each call took."""
        columns = map(replies.get_column, self.fields)
        return self._combine(*(column.cast(pl.Float64, strict=False) for column in columns))

    def _combine(self, *fields: pl.Series) -> pl.Series:
        return reduce(add, fields)

    def hold(self, replies: Replies) -> pl.Series:
        return self._measure(replies) <= self.most

    def tell(self, replies: Replies) -> pl.Series:
        return self._measure(replies).cast(pl.String) + self.unit


class MaxLatency(_Most):
    """The call took at most a given time."""

    key = "max_latency_ms"
    says = "The call took at most this many milliseconds: `latency_ms`, or else `duration_seconds`."
    example = 2000
    unit = " ms"
    fields = ("latency_ms", "duration_seconds")

    def _combine(self, *fields: pl.Series) -> pl.Series:
        latency, seconds = fields
        return latency.zip_with(latency.is_not_null(), seconds * 1000)


class MaxCost(_Most):
    """The call cost at most a given sum."""

    key = "max_cost_usd"
    says = "The call cost at most this many US dollars, by `cost_usd`."
    example = 0.01
    unit = " USD"
    fields = ("cost_usd",)


class MaxTokens(_Most):
    """The call used at most a given number of tokens."""

    key = "max_tokens"
    says = "The call used at most this many tokens, those of prompt and completion together."
    example = 1500
    unit = " tokens"
    fields = ("prompt_tokens", "completion_tokens")


KINDS = (LastNumber, Length, MaxLatency, MaxCost, MaxTokens)
