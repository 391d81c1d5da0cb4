"""Checks that are decided elsewhere: by a user's function, or by a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from calipers.metrics.checks.kind import (
    TEXT,
    Replies,
    ReplyTest,
    Schema,
    ask_each,
    ask_user,
    make_object_schema,
    read_keys,
    read_limit,
)
from calipers.metrics.families.judged import PASS_MARK, score_judgment
from calipers.records.fields import FIELDS, BadValue, Kind, load_json
from calipers.records.nested_fields import read_judgment_list, read_judgment_vote
from calipers.support.config import shown
from calipers.support.errors import UsageError
from calipers.support.strict_model import refuse
from calipers.support.user_code import Function, load_function

_NESTED = (Kind.NAMES, Kind.NESTED)


@dataclass(frozen=True)
class Python(ReplyTest):
    """A user's function returns true for the record."""

    key = "python"
    says = (
        "The function, `FILE.py:FUNCTION` relative to the file, returns true for the record (a "
        "dict of all its fields). None, or an exception, leaves the check undecided."
    )
    example = "checks.py:is_polite"
    of_reply = False

    reference: str
    folder: str
    columns: tuple[str, ...] = ()  # further fields of the data, once they are known

    @classmethod
    def read(cls, value: Any, base: Path) -> Self:
        """Return the test for a function, which is loaded to see that it is there."""
        file, _, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        if not (file and name.isidentifier()):
            refuse(f"{shown(value)} is not FILE.py:FUNCTION", fix="for example checks.py:is_polite")
        try:
            load_function(value, base)
        except UsageError as error:
            refuse(error.message, fix=error.fix)
        _load.cache_clear()
        return cls(value, str(base.resolve()))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*FIELDS, *self.columns)))

    @property
    def lacks(self) -> str:
        return f"{self.reference} returned neither true nor false"

    @property
    def sentence(self) -> str:
        return self.reference

    def hold(self, replies: Replies) -> pl.Series:
        if replies.get_column("trace").dtype == pl.Struct:
            raise BadValue("a trace that must be read as text")  # the fast reader leaves parts out
        function = _load(self.reference, self.folder)
        records = enumerate(map(_read_record, replies.frame.iter_rows(named=True)))
        found = (ask_user(replies, at, partial(function, record)) for at, record in records)
        held = [verdict if isinstance(verdict, bool) else None for verdict in found]
        return pl.Series(held, dtype=pl.Boolean)


@cache
def _load(reference: str, folder: str) -> Function:
    return load_function(reference, Path(folder))


def _read_record(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _decode(name, value) for name, value in row.items() if value is not None}


def _decode(name: str, value: Any) -> Any:
    """Return a field as it is in records: lists and objects, not their JSON."""
    kind = FIELDS[name].kind if name in FIELDS else None
    is_nested = kind in _NESTED or (kind is Kind.ITEMS and str(value)[:1] in ("[", "{"))
    return load_json(value, value) if is_nested and isinstance(value, str) else value


@dataclass(frozen=True)
class Judged(ReplyTest):
    """A judge says that the reply passes."""

    key = "judge"
    says = (
        "The suite's judge with this rubric passes the reply, by the majority of such judges: its "
        "score is at least 0.7, or `at_least` of `{rubric, at_least}`, or the rubric's `pass_at`."
    )
    example = "rubrics/polite.yaml"
    schema: ClassVar[Schema] = {
        "anyOf": [
            TEXT,
            make_object_schema({"rubric": TEXT, "at_least": {"type": "number"}}, "rubric"),
        ]
    }
    of_reply = False
    fields = ("judgments",)

    rubric: str
    at_least: float | None

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = "for example judge: technical_accuracy"
        written = {"rubric": value} if isinstance(value, str) else value
        found = read_keys(written, ("rubric", "at_least"), ("rubric",), fix)
        if not isinstance(found["rubric"], str) or not found["rubric"]:
            refuse("the rubric has no name", fix=fix)
        at_least = found.get("at_least")
        if at_least is not None:
            read_limit(at_least, fix="for example at_least: 0.8", at=("at_least",))
        return cls(found["rubric"], at_least)

    @property
    def lacks(self) -> str:
        return f"no judgment by the rubric {self.rubric} says so"

    @property
    def sentence(self) -> str:
        return f"judged by {self.rubric}"

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(replies.get_column("judgments"), self._count_votes)

    def _count_votes(self, text: str) -> bool | None:
        ours = [
            e for e in read_judgment_list(text) if self.rubric in (e.get("rubric"), e.get("judge"))
        ]
        told = [vote for vote in map(self._read_vote, ours) if vote is not None]
        return 2 * sum(told) > len(told) if told else None

    def _read_vote(self, judgment: Mapping[str, Any]) -> bool | None:
        vote = read_judgment_vote(judgment) if self.at_least is None else None
        if vote is not None:
            return vote
        scores = (judgment.get(name) for name in ("weighted_score", "overall_score"))
        score = next((number for number in scores if isinstance(number, int | float)), None)
        if score is None:
            score = score_judgment(judgment)
        mark = PASS_MARK if self.at_least is None else self.at_least
        return None if score is None else score >= mark


KINDS = (Python, Judged)
