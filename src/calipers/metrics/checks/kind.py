"""A kind of check: its key, how its value is read, its schema, and for which replies it holds.

A kind is one class. It works on columns of replies: on a million records as on one.
"""

from __future__ import annotations

import json
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import polars as pl

from calipers.records.fields import FIELDS, Author
from calipers.support.config import shown
from calipers.support.field_paths import Template
from calipers.support.strict_model import refuse

if TYPE_CHECKING:
    from calipers.metrics.declare.settings import Settings

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
_WRITTEN = frozenset(
    name
    for name, field in FIELDS.items()
    if field.author is not Author.TASK and name not in ("model", "tier", "variant", "run")
)
NOT_NEGATIVE: Schema = {"type": "number", "minimum": 0}


def make_object_schema(properties: Mapping[str, Schema], *needed: str) -> Schema:
    """Return the schema of a mapping that has these keys and no others."""
    required = {"required": list(needed)} if needed else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def read_template(value: Any, *, at: tuple[str, ...] = (), is_pattern: bool = False) -> Template:
    """Return a text with fields; a number stands for its digits."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = json.dumps(value)
    if not isinstance(value, str) or not value:
        refuse("a text is needed", fix="put it in quotes", at=at)
    return make_template(value, at=at, is_pattern=is_pattern)


def make_template(text: str, *, at: tuple[str, ...] = (), is_pattern: bool = False) -> Template:
    """Return a text with fields of the task; refuse those that a run writes.

    A reply that is compared with itself passes whatever it says.
    """
    template = Template(text, is_pattern=is_pattern)
    for name in template.fields:
        if name in _WRITTEN:
            refuse(
                f"{{{name}}} is what the run writes: a check compares it with the task",
                fix=f"{{target}}, or {{task.{name}}} for the column {name} of the data",
                at=at,
            )
    return template


def read_limit(value: Any, *, fix: str, at: tuple[str, ...] = (), whole: bool = False) -> float:
    """Return a number from 0 on."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < float("inf"):
        what = "a whole number from 0 on" if whole else "a number from 0 on"
        refuse(f"{shown(value)} is not {what}", fix=fix, at=at)
    return value


def read_keys(value: Any, known: Sequence[str], needed: Sequence[str], fix: str) -> dict[str, Any]:
    """Return a mapping that has all that is needed and nothing that is unknown."""
    if not isinstance(value, Mapping):
        refuse(f"{shown(value)} is not a mapping of keys to values", fix=fix)
    from calipers.support.errors import nearest  # noqa: PLC0415 (only where something is wrong)

    for key in value:
        if key not in known:
            refuse(f"{shown(key)} is not a known key", fix=nearest(str(key), known), at=(key,))
    for key in needed:
        if key not in value:
            refuse(f"{key} is missing", fix=fix)
    return dict(value)


_PACKAGE = Path(__file__).parents[2]
_REGEX_SPECIAL = r"([\\.+*?()|\[\]{}^$#&\-~])"


@dataclass(frozen=True)
class Replies:
    """Records, and of each the reply that is checked; null where there is none."""

    frame: pl.DataFrame
    text: pl.Series
    settings: Settings
    raised: dict[int, str] = field(default_factory=dict)  # by the row: what a user's code raised

    def __len__(self) -> int:
        return self.frame.height

    def get_column(self, name: str) -> pl.Series:
        """Return a field of the records; nulls if no record has it."""
        if name in self.frame.columns:
            return self.frame[name]
        return pl.Series(name, [None], dtype=pl.String).new_from_index(0, len(self))

    def fill(self, template: Template, *, quoted: bool = False) -> pl.Series:
        """Return a template's text for each record: null where it lacks a field.

        A single value is returned where the text is the same for all. With `quoted`, values of
        fields are escaped for a regular expression.
        """
        if not template.fields:
            return pl.Series([template.fill({})], dtype=pl.String)
        parts = [
            self._as_text(part, quoted=quoted) if is_field else pl.lit(part)
            for part, is_field in template.pieces
        ]
        return self.frame.select(pl.concat_str(parts).alias("filled")).to_series()

    def _as_text(self, name: str, *, quoted: bool) -> pl.Expr:
        """Return a field as people write it: a whole number without its point."""
        column = self.get_column(name)
        text = column.cast(pl.String)
        if column.dtype.is_float():
            whole = (column % 1 == 0).fill_null(value=False) & (column.abs() < 2**53)
            text = text.zip_with(~whole, column.cast(pl.Int64, strict=False).cast(pl.String))
        expression = pl.lit(text)
        return expression.str.replace_all(_REGEX_SPECIAL, r"\${1}") if quoted else expression


def ask_user(replies: Replies, row: int, ask: Callable[[], Any]) -> Any:
    """Return what a user's code says of a reply; None, and a note of it, if it raises."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 (it may fail in any way, the score must not)
        # Not the message: it may hold what must not be written, such as a key in an address.
        replies.raised[row] = f"it raised {type(error).__name__}{_locate(error)}"
        return None


def _locate(error: Exception) -> str:
    """Return the line of the user's code from which an error came, if there is one."""
    for frame in traceback.extract_tb(error.__traceback__):
        if not Path(frame.filename).is_relative_to(_PACKAGE):
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


def ask_each(
    values: Iterable[Any], ask: Callable[[Any], Any], dtype: type[pl.DataType] = pl.Boolean
) -> pl.Series:
    """Return the result of `ask` for each value; null for null."""
    return pl.Series([None if value is None else ask(value) for value in values], dtype=dtype)


class ReplyTest(ABC):
    """A test of replies; `load_kinds` lists the subclasses."""

    key: ClassVar[str]  # in a check: `{expect: NAME, KEY: VALUE}`
    says: ClassVar[str]  # what has to be true of a reply
    example: ClassVar[Any]  # a value
    schema: ClassVar[Schema] = TEXT  # of its value
    of_reply: ClassVar[bool] = True  # whether it reads the reply's text

    @classmethod
    @abstractmethod
    def read(cls, value: Any, base: Path) -> Self:
        """Return the test that a value asks for; `refuse` says what is wrong with it.

        Args:
            value: What stands behind the key, as YAML or JSON has it.
            base: The folder that paths are relative to.
        """

    @abstractmethod
    def hold(self, replies: Replies) -> pl.Series:
        """Return whether it holds for each reply: true, false, or null if undecided."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The record's fields that it reads beside the reply."""
        return ()

    @property
    def sentence(self) -> str:
        """What is tested, in a few words."""
        return self.key

    @property
    def lacks(self) -> str:
        """Why it is undecided for a reply that exists."""
        named = ", ".join(self.fields)
        return f"the record has no {named}" if named else "it cannot be decided"

    def tell(self, replies: Replies) -> pl.Series:
        """Return what was found in each reply, a text; one value where it is the same for all."""
        del replies
        return pl.Series([self.sentence], dtype=pl.String)


@dataclass(frozen=True)
class TrueKind(ReplyTest):
    """A kind whose only value is true; `forbid` asks for the opposite."""

    example = True
    schema: ClassVar[Schema] = {"const": True}

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        """Return the test; refuse anything but true."""
        if value is not True:
            fix = f"what must not be: {{forbid: NAME, {cls.key}: true}}"
            refuse("only true is allowed", fix=fix)
        return cls()


@dataclass(frozen=True)
class TextKind(ReplyTest):
    """A kind whose value is a text, with fields."""

    text: Template = field(compare=False)

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        """Return the test for a text."""
        return cls(read_template(value))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in the text."""
        return self.text.fields

    @property
    def sentence(self) -> str:
        """The key with the text."""
        return f'{self.key.replace("_", " ")} "{self.text.text}"'

    def tell(self, replies: Replies) -> pl.Series:
        """Return the text with the fields filled in."""
        return f'{self.key.replace("_", " ")} "' + replies.fill(self.text) + '"'
