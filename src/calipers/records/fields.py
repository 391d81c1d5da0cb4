"""The record: one row per task × system × run, every field optional.

Each is declared once, in FIELDS: its type, the values it refuses, whose word it is, and where it is
shown; readers of logs, samples, the dashboard and docs/records.md follow from that. What is inside
a trace, a usage and judgments is read by `nested_fields.py`. `Field.read` reads one value,
`columns.py` a whole table.

>>> FIELDS["prob_correct"].read(1.5)
Traceback (most recent call last):
calipers.records.fields.OutsideRange: 1.5 is outside [0, 1]
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeGuard

import polars as pl

from calipers.support.lazy_numpy import is_numpy_scalar

PROB_CORRECT = "prob_correct"  # a probability, or an object of several with names
TAGS = "tags"  # a list, or one tag as a text
VARIANT = "variant"  # a configuration within a system or tier: a prompt, a sub-test
USUAL_GROUPS = ("category", "capability", "model", "tier", "variant")  # that records are grouped by
_SHOWN = 60  # characters of a bad value in a message

# A list of texts as JSON without escapes, which need not be parsed.
USUAL_NAMES = r'^\[(?:"[^"\\\x00-\x1f]*"(?:, ?"[^"\\\x00-\x1f]*")*)?\]$'


class BadValue(ValueError):  # noqa: N818 (reads as a sentence: "raise BadValue")
    """A value that its field cannot hold; the text says why."""


class OutsideRange(BadValue):
    """A number that its field does not allow; `--on-bad null` reads it as a null."""


class Number(str):
    """A JSON number as it was written: text fields keep the spelling, number fields the value."""

    __slots__ = ()


class Kind(Enum):
    """The type of a field."""

    TEXT = "text"  # a JSON number or boolean is read as its JSON text
    NUMBER = "number"
    BOOLEAN = "true or false"
    SCALAR = "text, number or boolean"  # typed as the data has it
    NAMES = "a list of texts"  # kept as JSON text, and may come as such
    NESTED = "list or object"  # kept as JSON text, and may come as such
    TEXTS = "a text or a list of texts"  # a list is kept as JSON text
    ANY = "anything"  # a text as it is, the rest as JSON text
    ITEMS = "a text, or a list of texts or objects"  # held as `ANY` is


class Author(Enum):
    """Whose word a field of a record is, where the record is made by a run."""

    TASK = "task"  # what was asked, and what counts as right
    HARNESS = "harness"  # who was called, how it ended, the clock
    SYSTEM = "system"  # what only the system under test can know: its answer, tokens, trace
    VERDICT = "verdict"  # of a comparison, a check or a judge; never the system's own


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the record: what it holds, whose word it is, and where it is shown."""

    name: str
    kind: Kind
    author: Author = Author.TASK
    low: float = -math.inf
    high: float = math.inf
    role: Literal["user", "assistant"] | None = None  # whose last message of a conversation it is
    is_long: bool = False  # often more than a line: no column of a table, nothing to filter by
    is_searched: bool = False  # by the dashboard
    in_report: bool = False  # with the samples of a report

    def read(self, value: Any) -> Any:
        """Return `value` in the type of this field, None for a null; raise BadValue if refused."""
        if is_numpy_scalar(value):
            value = value.item()
        if is_null(value):
            return None
        if self.kind is Kind.NUMBER:
            has_names = self.name == PROB_CORRECT and isinstance(value, Mapping)
            return self._read_several(value) if has_names else self._read_number(value)
        if self.kind is Kind.BOOLEAN:
            if isinstance(value, bool):
                return value
            raise BadValue(f"{_shorten(value)} is not true or false")
        return _read_names(value) if self.kind is Kind.NAMES else self._spell(value)

    def _read_several(self, values: Mapping[str, Any]) -> None:
        """Check numbers that have names, each a field of its own: the field itself is null."""
        for name, value in values.items():
            try:
                find_field(f"{self.name}.{name}").read(value)
            except BadValue as problem:
                raise type(problem)(f"{name}: {problem}") from None

    def _spell(self, value: Any) -> str:
        if self.kind in (Kind.ANY, Kind.ITEMS, Kind.NESTED):
            if not isinstance(value, str):
                return dump_json(value)
            is_free = self.kind in (Kind.ANY, Kind.ITEMS) or self.name == TAGS
            return str(value) if is_free else _check_json(value)
        if self.kind is Kind.TEXTS and isinstance(value, list | tuple):
            return _write_texts(value)
        return _write_text(value, self.kind)

    def _read_number(self, value: Any) -> float:
        if isinstance(value, Number) or (
            isinstance(value, int | float) and not isinstance(value, bool)
        ):
            try:
                number = float(value)
            except OverflowError:  # a whole number of hundreds of digits
                number = math.inf
            if not math.isfinite(number):
                raise OutsideRange(f"{_shorten(value)} is not a finite number")
            if not self.low <= number <= self.high:
                raise OutsideRange(f"{_shorten(value)} is {self.limits}")
            return number
        raise BadValue(f"{_shorten(value)} is not a number")

    @property
    def limits(self) -> str:
        """The range in words, as the second half of a sentence."""
        return "negative" if math.isinf(self.high) else f"outside [{self.low:g}, {self.high:g}]"

    @property
    def dtype(self) -> pl.DataType:
        """The Polars type of the column."""
        if self.kind is Kind.NUMBER:
            return pl.Float64()
        return pl.Boolean() if self.kind is Kind.BOOLEAN else pl.String()

    def mark_outside(self, value: pl.Expr) -> pl.Expr:
        """Return whether a number is one that this field refuses."""
        return value.is_infinite() | (value < self.low) | (value > self.high)


def is_null(value: Any) -> bool:
    """Return True if a value counts as none: null, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def keep_first_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of JSON as a mapping; the first of a repeated key counts, as in Polars."""
    mapping = dict(pairs)
    return mapping if len(mapping) == len(pairs) else dict(reversed(pairs))


def _write_text(value: Any, kind: Kind) -> str:
    if isinstance(value, Number | bool | int | float):
        text = dump_json(value)
        if text in ("Infinity", "-Infinity"):
            raise BadValue(f"{text} is not a finite number")
        return text
    if isinstance(value, str):
        return value
    kind_found = "a list" if isinstance(value, list | tuple) else "an object"
    wanted = kind.value if kind is Kind.TEXTS else "a text"
    raise BadValue(f"{_shorten(value)} is {kind_found}, not {wanted}")


def _write_texts(values: Sequence[Any]) -> str:
    if not values:
        raise BadValue("an empty list, not a text or a list of texts")
    for value in values:
        if not is_text(value):
            raise BadValue(f"{_shorten(value)} in the list is not text")
    return dump_json(values)


def _read_names(value: Any) -> str:
    names = load_json(value) if is_text(value) else value
    if not isinstance(names, list | tuple) or not all(map(is_text, names)):
        raise BadValue(f"{_shorten(value)} is not {Kind.NAMES.value}")
    # A lone surrogate is legal in JSON and in no UTF-8 column.
    return json.dumps(list(names), ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")


def is_text(value: Any) -> TypeGuard[str]:
    """Return True if a value of JSON is a text, and not a number as it was written."""
    return isinstance(value, str) and not isinstance(value, Number)


def load_json(text: str | bytes, default: Any = None) -> Any:
    """Return what a text is the JSON of, or the default if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def load_nested(value: Any, problem: str) -> Any:
    """Return a value, which tables hold as JSON text; raise BadValue if that is not JSON."""
    if not is_text(value):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # Polars does not escape all it should
        raise BadValue(problem) from None


def dump_json(value: Any) -> str:
    """Return a value as JSON text, its numbers as they were written."""
    try:
        return _encode(value)
    except RecursionError:
        raise BadValue("nested too deep") from None


def _check_json(text: str) -> str:
    """Return a text that is JSON itself, as tables hold nested values."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise BadValue(f"{_shorten(text)} is not JSON") from None
    return str(text)


def _encode(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))}: {_encode(part)}" for key, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_encode, value))}]"
    if isinstance(value, float) and math.isnan(value):
        return "null"
    return json.dumps(value, default=str)


def _shorten(value: Any) -> str:
    # Of a list of millions, the first elements are enough to see what it is.
    text = dump_json(value[:_SHOWN] if isinstance(value, list | tuple) else value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


_RUN, _SYSTEM, _VERDICT = Author.HARNESS, Author.SYSTEM, Author.VERDICT

FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("id", Kind.TEXT, is_searched=True),
        Field("model", Kind.TEXT, _RUN),
        Field("tier", Kind.TEXT, _RUN),
        Field("variant", Kind.TEXT, _RUN),
        Field("category", Kind.TEXT),
        Field("capability", Kind.TEXT),
        Field("input", Kind.TEXT, role="user", is_long=True, is_searched=True, in_report=True),
        Field("target", Kind.TEXT, is_searched=True, in_report=True),
        Field("answer", Kind.TEXT, _SYSTEM, role="assistant", is_searched=True, in_report=True),
        Field(
            "cot",
            Kind.TEXT,
            _SYSTEM,
            role="assistant",
            is_long=True,
            is_searched=True,
            in_report=True,
        ),
        Field("finish_reason", Kind.TEXT, _SYSTEM),
        Field("prompt_tokens", Kind.NUMBER, _SYSTEM, low=0, in_report=True),
        Field("completion_tokens", Kind.NUMBER, _SYSTEM, low=0, in_report=True),
        Field("cache_read_tokens", Kind.NUMBER, _SYSTEM, low=0),
        Field("cache_write_tokens", Kind.NUMBER, _SYSTEM, low=0),
        Field("reasoning_tokens", Kind.NUMBER, _SYSTEM, low=0),
        Field("cost_usd", Kind.NUMBER, _SYSTEM, low=0, in_report=True),
        Field("latency_ms", Kind.NUMBER, _RUN, low=0, in_report=True),
        Field("duration_seconds", Kind.NUMBER, _RUN, low=0),
        Field(PROB_CORRECT, Kind.NUMBER, _SYSTEM, low=0, high=1, in_report=True),
        Field("impl_rate", Kind.NUMBER, _VERDICT, low=0, high=1),
        Field("correct", Kind.BOOLEAN, _VERDICT),
        Field("passed", Kind.BOOLEAN, _VERDICT),
        Field("run", Kind.SCALAR, _RUN),
        Field("predicted", Kind.SCALAR, _SYSTEM),
        Field("actual", Kind.SCALAR),
        Field("start_time", Kind.SCALAR, _RUN),
        Field("end_time", Kind.SCALAR, _RUN),
        Field("expected_behaviors", Kind.NAMES),
        Field("observed_behaviors", Kind.NAMES, _VERDICT),
        Field("violations", Kind.NAMES, _VERDICT, in_report=True),
        Field("tags", Kind.NESTED),
        Field("judgments", Kind.NESTED, _VERDICT, is_long=True),
        Field("trace", Kind.NESTED, _SYSTEM, is_long=True),
        Field("usage", Kind.NESTED, _SYSTEM, is_long=True),
        Field("messages", Kind.NESTED, _SYSTEM, is_long=True),
        Field("checks", Kind.NESTED, _VERDICT, is_long=True),
        Field("passages", Kind.ITEMS, _SYSTEM, is_long=True),
        Field("relevant_ids", Kind.ITEMS),
        Field("optimal_tools", Kind.NESTED),
        Field("reference", Kind.TEXTS, is_long=True, in_report=True),
        Field("error", Kind.ANY, _RUN, is_searched=True, in_report=True),
    )
}

BILLED_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")
"""The counts of tokens that have a price of their own; `reasoning_tokens` are in the second."""

REPORTED = "reported"
"""The field in which a run keeps what a system reports about itself, which decides nothing."""


TRUNCATED_REASONS = ("length", "max_tokens", "max_output_tokens", "model_length")
"""The finish_reason of a reply that was cut off: first in OpenAI's word, which is ours."""

_FINISHED = {
    **dict.fromkeys(TRUNCATED_REASONS, "length"),
    **dict.fromkeys(("end_turn", "stop_sequence", "eos"), "stop"),
    **dict.fromkeys(("tool_use", "tool_call", "function_call"), "tool_calls"),
    **dict.fromkeys(("safety", "refusal", "contentfilter"), "content_filter"),
}


def name_finish_reason(reason: Any) -> str | None:
    """Return why a reply ended in OpenAI's word; None for what is not a reason.

    >>> name_finish_reason("MAX_TOKENS"), name_finish_reason("end_turn"), name_finish_reason("odd")
    ('length', 'stop', 'odd')
    """
    if not isinstance(reason, str) or not reason.strip():
        return None
    word = reason.strip().lower()
    return _FINISHED.get(word, word)


def find_field(name: str) -> Field:
    """Return the field of that name; one that the contract does not define holds any scalar."""
    if name.startswith(f"{PROB_CORRECT}."):
        return replace(FIELDS[PROB_CORRECT], name=name)
    return FIELDS.get(name) or Field(name, Kind.SCALAR)
