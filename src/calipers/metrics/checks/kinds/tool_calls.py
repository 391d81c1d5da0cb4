"""Checks of the tools that were called, as the record's trace has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from calipers.metrics.checks.kind import (
    TEXT,
    Replies,
    ReplyTest,
    Schema,
    ask_each,
    make_object_schema,
    make_template,
    read_keys,
    read_limit,
)
from calipers.records.fields import BadValue
from calipers.support.config import shown
from calipers.support.field_paths import Template
from calipers.support.strict_model import refuse

Calls = Sequence[Mapping[str, Any]]
_SHOWN = 12  # names of tools in a detail


def _read_calls(replies: Replies, *, with_args: bool = False) -> Iterator[Calls | None]:
    """Yield each record's calls; None if its trace does not list them."""
    traces = replies.get_column("trace")
    if traces.dtype == pl.Struct:
        if with_args:
            raise BadValue("a trace that must be read as text")  # the fast reader leaves args out
        for trace in traces:
            yield None if trace is None else trace["tool_calls"]
        return
    for text in traces:
        yield None if text is None else _parse_calls(text)


def _parse_calls(text: str) -> Calls | None:
    try:
        trace = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise BadValue("trace is not JSON") from None
    calls = trace.get("tool_calls") if isinstance(trace, Mapping) else None
    if not isinstance(calls, list):
        return None
    return [call for call in calls if isinstance(call, Mapping)]


def _list_names(calls: Calls) -> list[str]:
    return [str(call.get("tool_name")) for call in calls]


class _ToolKind(ReplyTest):
    """A test of the tool calls in the trace."""

    of_reply = False
    lacks = "the record has no trace with tool_calls"

    @property
    def fields(self) -> tuple[str, ...]:
        return ("trace",)

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(_read_calls(replies), _describe_calls, pl.String)


def _describe_calls(calls: Calls) -> str:
    names = _list_names(calls)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"called {', '.join(names[:_SHOWN])}{more}" if names else "no tool was called"


@dataclass(frozen=True)
class ToolCalled(_ToolKind):
    """A tool was called, perhaps with certain arguments."""

    key = "tool_called"
    says = "The tool was called; with `args`, at least once with these values among its arguments."
    example: ClassVar[Any] = {"name": "refund", "args": {"order": "{order_id}"}}
    schema: ClassVar[Schema] = {
        "anyOf": [TEXT, make_object_schema({"name": TEXT, "args": {"type": "object"}}, "name")]
    }

    name: str
    args: str  # as JSON

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = 'for example tool_called: {name: refund, args: {order: "4711"}}'
        written = {"name": value} if isinstance(value, str) else value
        found = read_keys(written, ("name", "args"), ("name",), fix)
        if not isinstance(found["name"], str) or not found["name"]:
            refuse("the tool has no name", fix=fix, at=("name",))
        if not isinstance(found.get("args", {}), Mapping):
            refuse("args is not a mapping", fix=fix, at=("args",))
        for key, text in found.get("args", {}).items():
            if isinstance(text, str):
                make_template(text, at=("args", key))
        return cls(found["name"], json.dumps(found.get("args", {})))

    @property
    def _wanted(self) -> dict[str, Any]:
        args: dict[str, Any] = json.loads(self.args)
        return args

    @property
    def fields(self) -> tuple[str, ...]:
        texts = (value for value in self._wanted.values() if isinstance(value, str))
        return ("trace", *dict.fromkeys(name for text in texts for name in Template(text).fields))

    def hold(self, replies: Replies) -> pl.Series:
        wanted = self._wanted
        filled = {
            name: replies.fill(Template(value)).to_list()
            for name, value in wanted.items()
            if isinstance(value, str)
        }
        held: list[bool | None] = []
        for row, calls in enumerate(_read_calls(replies, with_args=bool(wanted))):
            args = {**wanted, **{n: v[row if len(v) > 1 else 0] for n, v in filled.items()}}
            held.append(None if calls is None else _has_call(calls, self.name, args))
        return pl.Series(held, dtype=pl.Boolean)


def _has_call(calls: Calls, name: str, args: Mapping[str, Any]) -> bool | None:
    if any(value is None for value in args.values()):
        return None  # a field that the record lacks
    return any(
        call.get("tool_name") == name and _has_args(call.get("args"), args) for call in calls
    )


def _has_args(given: Any, wanted: Mapping[str, Any]) -> bool:
    if not wanted:
        return True
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return False
    return isinstance(given, Mapping) and all(
        name in given and _is_same(given[name], value) for name, value in wanted.items()
    )


def _is_same(given: Any, wanted: Any) -> bool:
    """Compare values; a text that is wanted may be a number's digits."""
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(wanted, str) and not isinstance(given, str):
        return json.dumps(given) == wanted
    return bool(given == wanted)


@dataclass(frozen=True)
class ToolOrder(_ToolKind):
    """Tools were called in a given order."""

    key = "tool_order"
    says = "The tools were called in this order; others may have been called in between."
    example = ("look_up", "refund")
    schema: ClassVar[Schema] = {"type": "array", "items": TEXT, "minItems": 1}

    names: tuple[str, ...]

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        if not isinstance(value, list | tuple) or not value:
            refuse(f"{shown(value)} is not a list", fix="for example tool_order: [look_up, refund]")
        for at, each in enumerate(value):
            if not isinstance(each, str) or not each:
                refuse(f"{shown(each)} is not a tool's name", fix="put it in quotes", at=(at,))
        return cls(tuple(value))

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(_read_calls(replies), self._is_in)

    def _is_in(self, calls: Calls) -> bool:
        called = iter(_list_names(calls))
        return all(name in called for name in self.names)


@dataclass(frozen=True)
class MaxToolCalls(_ToolKind):
    """There were at most a given number of calls."""

    key = "max_tool_calls"
    says = "Tools were called at most this many times, all together."
    example = 4
    schema: ClassVar[Schema] = {"type": "integer", "minimum": 0}

    most: int

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        return cls(int(read_limit(value, fix="for example max_tool_calls: 4", whole=True)))

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(_read_calls(replies), lambda calls: len(calls) <= self.most)

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(_read_calls(replies), lambda calls: f"{len(calls)} tool calls", pl.String)


KINDS = (ToolCalled, ToolOrder, MaxToolCalls)
