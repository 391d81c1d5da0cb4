"""Checks of the exact text of a reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from calipers.metrics.checks.kind import Replies, ReplyTest, Schema, TextKind, read_template
from calipers.support.field_paths import Template
from calipers.support.patterns import count_groups
from calipers.support.strict_model import refuse

_TEXTS = {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}


def _evaluate(expression: pl.Expr, **columns: pl.Series) -> pl.Series:
    """Return an expression over columns; columns of one value apply to every row."""
    rows = max((len(column) for column in columns.values()), default=0)
    spread = {
        name: each if len(each) == rows else each.new_from_index(0, rows)
        for name, each in columns.items()
    }
    return pl.DataFrame(spread).select(expression.alias("held")).to_series()


def _search(reply: pl.Series, wanted: pl.Series, *, literal: bool = True) -> pl.Series:
    if len(wanted) == 1 and wanted[0] is not None:
        return reply.str.contains(wanted[0], literal=literal)
    test = pl.col("reply").str.contains(pl.col("wanted"), literal=literal)
    return _evaluate(test, reply=reply, wanted=wanted)


class Contains(TextKind):
    """The reply contains a text."""

    key = "contains"
    says = "The reply contains the text, letter by letter."
    example = "{order_id}"

    def hold(self, replies: Replies) -> pl.Series:
        return _search(replies.text, replies.fill(self.text))


class IContains(TextKind):
    """The same, upper and lower case alike."""

    key = "icontains"
    says = "The reply contains the text, upper and lower case alike."
    example = "thank you"

    def hold(self, replies: Replies) -> pl.Series:
        wanted = replies.fill(self.text).str.to_lowercase()
        return _search(replies.text.str.to_lowercase(), wanted)


class Equals(TextKind):
    """The reply is a text."""

    key = "equals"
    says = "The reply is the text; white space around either does not count."
    example = "{target}"

    def hold(self, replies: Replies) -> pl.Series:
        wanted = replies.fill(self.text).str.strip_chars()
        test = pl.col("reply") == pl.col("wanted")
        return _evaluate(test, reply=replies.text.str.strip_chars(), wanted=wanted)


class StartsWith(TextKind):
    """The reply starts with a text."""

    key = "starts_with"
    says = "The reply starts with the text, after white space."
    example = "Dear {customer}"

    def hold(self, replies: Replies) -> pl.Series:
        test = pl.col("reply").str.starts_with(pl.col("wanted"))
        reply = replies.text.str.strip_chars_start()
        return _evaluate(test, reply=reply, wanted=replies.fill(self.text))


@dataclass(frozen=True)
class Regex(TextKind):
    """A regular expression matches somewhere in the reply."""

    key = "regex"
    says = (
        "The regular expression matches somewhere in the reply. The syntax is that of Rust's "
        "regex, which takes linear time and has no look-around; `(?i)` at the start ignores case."
    )
    example = r"order\s+#?{order_id}\b"

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        text = read_template(value, is_pattern=True)
        try:
            count_groups(text.fill(dict.fromkeys(text.fields, "x")))
        except ValueError as error:
            refuse(
                f"no regular expression that can be used: {error}",
                fix="in the syntax of Rust's regex: no look-around, no backreferences",
            )
        return cls(text)

    def hold(self, replies: Replies) -> pl.Series:
        return _search(replies.text, replies.fill(self.text, quoted=True), literal=False)

    def tell(self, replies: Replies) -> pl.Series:
        pattern = replies.fill(self.text, quoted=True)
        found = pl.col("reply").str.extract(pl.col("pattern"), 0)
        matched = 'matches "' + found + '"'
        other = pl.format('no match of "{}"', pl.col("pattern"))
        return _evaluate(pl.coalesce(matched, other), reply=replies.text, pattern=pattern)


@dataclass(frozen=True)
class IsOneOf(ReplyTest):
    """The reply is one of several texts."""

    key = "one_of"
    says = "The reply is one of the texts; case and white space around it do not count."
    example = ("yes", "no")
    schema: ClassVar[Schema] = _TEXTS

    texts: tuple[Template, ...] = field(compare=False)

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        if not isinstance(value, list | tuple) or not value:
            refuse("a list of texts is needed", fix="for example one_of: ['yes', 'no']")
        return cls(tuple(read_template(each, at=(str(at),)) for at, each in enumerate(value)))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for text in self.texts for name in text.fields))

    @property
    def sentence(self) -> str:
        return f"one of {', '.join(choice.text for choice in self.texts)}"

    def hold(self, replies: Replies) -> pl.Series:
        columns = {
            f"wanted_{at}": replies.fill(each).str.strip_chars().str.to_lowercase()
            for at, each in enumerate(self.texts)
        }
        reply = replies.text.str.strip_chars().str.to_lowercase()
        test = pl.any_horizontal(pl.col("reply") == pl.col(name) for name in columns)
        return _evaluate(test, reply=reply, **columns)


KINDS = (Contains, IContains, Equals, StartsWith, Regex, IsOneOf)
