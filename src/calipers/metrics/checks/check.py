"""One check: what is expected or forbidden, the test, and the reply that is tested.

Plug-ins add kinds of check (`CheckKind`) beside those of the library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl

from calipers.metrics.checks.kind import Replies, ReplyTest, ask_each, ask_user
from calipers.metrics.checks.kinds import load_kinds
from calipers.metrics.declare.settings import Settings
from calipers.records.fields import BadValue
from calipers.support.config import shown
from calipers.support.errors import UsageError, nearest
from calipers.support.options import require_callable, require_type
from calipers.support.plugins import Registry, add_registry
from calipers.support.strict_model import refuse

Holds = Callable[[str, Any], bool | None]


@dataclass(frozen=True)
class CheckKind:
    """A user-defined kind of check: `{expect: is loud, shouts: true}` for the name `shouts`.

    Args:
        name: The key of such checks.
        holds: A function of a reply and of the value of the key, which returns true, false, or None
            if undecided.
        says: What has to be true of a reply, in a sentence.

    >>> kind = CheckKind("shouts", lambda reply, value: reply.isupper() == value)
    >>> kind.name
    'shouts'
    """

    name: str
    holds: Holds
    says: str = "A user-defined check."

    def __post_init__(self) -> None:
        fix = 'for example CheckKind("shouts", lambda reply, value: reply.isupper() == value)'
        require_type("CheckKind: name", self.name, str, expected="a text", fix=fix)
        require_callable("CheckKind: holds", self.holds, fix=fix)


class _CheckKinds(Registry[CheckKind]):
    """The kinds that users add; none may take a key of the library's own."""

    def add(self, name: str, thing: CheckKind, origin: str, *, replace: bool = False) -> None:
        """Add a kind, or raise UsageError where its name is taken or is no key."""
        taken = name in load_kinds() or name in ("expect", "forbid", "turn", "on", "description")
        if taken or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            invalid = "is not a valid key: use small letters, digits and _"
            why = "is one of the library's own" if taken else invalid
            raise UsageError(f"the kind of check {name} {why}", fix="give it another name")
        super().add(name, thing, origin, replace=replace)


CHECK_KINDS = _CheckKinds("kind of check")
add_registry(CheckKind, CHECK_KINDS)


def list_check_kinds() -> dict[str, type[ReplyTest]]:
    """Return every kind of check by its key, those of plug-ins too."""
    own = {name: _make_class(each) for name, each in CHECK_KINDS.read_all().items()}
    return {**load_kinds(), **own}


@cache
def _make_class(own: CheckKind) -> type[ReplyTest]:
    @dataclass(frozen=True)
    class Own(ReplyTest):
        key = own.name
        says = own.says
        example = True
        schema = {}  # noqa: RUF012 (the base class's type)

        written: str  # the value, as JSON

        @classmethod
        def read(cls, value: Any, _: Path) -> Self:
            return cls(json.dumps(value, sort_keys=True, default=str))

        def hold(self, replies: Replies) -> pl.Series:
            value = json.loads(self.written)
            texts = enumerate(replies.text)
            return pl.Series(
                [ask_user(replies, at, partial(_ask, own, text, value)) for at, text in texts],
                dtype=pl.Boolean,
            )

    return Own


def _ask(own: CheckKind, text: str | None, value: Any) -> bool | None:
    found = None if text is None else own.holds(text, value)
    return None if found is None else bool(found)


Rule = Literal["expect", "forbid"]
RULES: tuple[Rule, ...] = ("expect", "forbid")
EXAMPLE = 'for example {expect: names the order, contains: "{order_id}"}'
ANSWER = "answer"
MESSAGES = "messages"
_BESIDE = ("turn", "on", "description")
_DETAIL = 200  # characters


@dataclass(frozen=True)
class NamedCheck:
    """A test with a name; `written`, the check as in its file, identifies it."""

    rule: Rule
    name: str
    test: ReplyTest = field(compare=False)
    turn: int | None
    on: str | None
    written: str  # as JSON

    @property
    def fields(self) -> tuple[str, ...]:
        """The record's fields that it reads."""
        return tuple(dict.fromkeys((self._source, *self.test.fields)))

    @property
    def _source(self) -> str:
        return MESSAGES if self.turn is not None else self.on or ANSWER

    def select_replies(self, frame: pl.DataFrame, settings: Settings) -> Replies:
        """Return the records with the replies that are tested."""
        found = Replies(frame, pl.Series(dtype=pl.String), settings)
        column = found.get_column(self._source)
        text = column.cast(pl.String) if self.turn is None else _select_turn(column, self.turn)
        return Replies(frame, text, settings)

    def tell(self, replies: Replies, held: pl.Series) -> pl.Series:
        """Return what was found, or why the check is undecided, cut to a bounded length."""
        told = self.test.tell(replies)
        told = told if len(told) == len(held) else told.new_from_index(0, len(held))
        lacks = pl.Series([self.test.lacks], dtype=pl.String).new_from_index(0, len(held))
        if self.test.of_reply:
            no_reply = f"there is no reply {self.turn}"
            absent = f"the record has no {self._source}" if self.turn is None else no_reply
            there = pl.Series([absent], dtype=pl.String).new_from_index(0, len(held))
            lacks = lacks.zip_with(replies.text.is_not_null(), there)
        if replies.raised:
            rows = pl.Series(list(replies.raised), dtype=pl.UInt32)
            lacks = lacks.scatter(rows, pl.Series(list(replies.raised.values()), dtype=pl.String))
        told = told.zip_with(held.is_not_null(), lacks)
        long = told.str.len_chars() > _DETAIL
        return told.zip_with(~long.fill_null(value=False), told.str.slice(0, _DETAIL - 1) + "…")


def _select_turn(messages: pl.Series, turn: int) -> pl.Series:
    """Return the N-th reply of each conversation; null if it has fewer."""
    return ask_each(
        messages, lambda text: dict(enumerate(list_replies(text), 1)).get(turn), pl.String
    )


def list_replies(messages: Any) -> list[str]:
    """Return the replies of a conversation: the last message before each next user message.

    >>> list_replies([{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}])
    ['!']
    """
    try:
        found = json.loads(messages) if isinstance(messages, str) else messages
    except (ValueError, RecursionError):
        raise BadValue("messages: not JSON") from None
    replies: list[str] = []
    is_open = False  # whether the user's last message has a reply already
    for each in found if isinstance(found, list) else ():
        role = each.get("role") if isinstance(each, Mapping) else None
        if role == "user":
            is_open = False
        elif role == "assistant" and (text := extract_text(each.get("content"))):
            replies = [*replies[:-1], text] if is_open else [*replies, text]
            is_open = True
    return replies


def extract_text(content: Any) -> str | None:
    """Return the text of a message: its content, or the text parts of it."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str)) or None
    return content if isinstance(content, str) and content else None


def read_check(value: Any, base: Path, at: tuple[int, ...] = ()) -> NamedCheck:
    """Return a check as a file writes it; `refuse` says what is wrong, and where from `at` on."""
    if not isinstance(value, Mapping):
        refuse(f"{shown(value)} is not a check", fix=EXAMPLE, at=at)
    kinds = list_check_kinds()
    known = (*RULES, *kinds, *_BESIDE)
    for key in value:
        if key not in known:
            fix = nearest(str(key), known)
            refuse(f"{shown(key)} is not a known key", fix=fix, at=(*at, key))
    rules = [rule for rule in RULES if rule in value]
    if len(rules) != 1:
        what = "both expect and forbid" if rules else "neither expect nor forbid"
        refuse(f"a check with {what}", fix=EXAMPLE, at=at)
    keys = [key for key in value if key in kinds]
    if len(keys) != 1:
        what = f"the tests {' and '.join(keys)}" if keys else "no test"
        fix = "write a check for each" if keys else f"one of {', '.join(kinds)}"
        refuse(f"a check with {what}", fix=fix, at=at)
    rule, key = rules[0], keys[0]
    name = value[rule]
    if not isinstance(name, str) or not name.strip():
        refuse(f"{rule}: a name is needed", fix=EXAMPLE, at=(*at, rule))
    turn, on = _read_turn(value, key, at)
    written = json.dumps(dict(value), sort_keys=True, default=str)
    return NamedCheck(rule, name, _read_test(key, value[key], base, at), turn, on, written)


def _read_turn(value: Mapping[str, Any], key: str, at: tuple[int, ...]) -> tuple[Any, Any]:
    turn, on = value.get("turn"), value.get("on")
    if turn is not None and (isinstance(turn, bool) or not isinstance(turn, int) or turn < 1):
        refuse(
            f"turn: {shown(turn)} is not a turn", fix="the first reply is turn: 1", at=(*at, "turn")
        )
    if on is not None and (not isinstance(on, str) or not on):
        refuse("on: a field's name is needed", fix="for example on: cot", at=(*at, "on"))
    if turn is not None and on is not None:
        refuse("turn and on: a reply, or a field", fix="leave one of them out", at=(*at, "on"))
    if (turn or on) and not list_check_kinds()[key].of_reply:
        where = "turn" if turn else "on"
        refuse(f"{key} looks at the whole record", fix=f"leave {where} out", at=(*at, where))
    return turn, on


def _read_test(key: str, value: Any, base: Path, at: tuple[int, ...]) -> ReplyTest:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415 (only where a check is read)

    try:
        return list_check_kinds()[key].read(value, base)
    except PydanticCustomError as error:
        said = error.context or {}
        refuse(f"{key}: {said['message']}", fix=said["fix"], at=(*at, key, *said["at"]))


def make_check_schema() -> dict[str, Any]:
    """Return the JSON Schema of a check, from the kinds there are."""
    kinds = {
        key: {**kind.schema, "description": kind.says} for key, kind in list_check_kinds().items()
    }
    name = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "properties": {
            "expect": {**name, "description": "Observed, if the test holds."},
            "forbid": {**name, "description": "A violation, if the test holds."},
            "description": {"type": "string"},
            "turn": {
                "type": "integer",
                "minimum": 1,
                "description": "The N-th reply; else the last.",
            },
            "on": {**name, "description": "A field of the record, instead of the answer."},
            **kinds,
        },
        "additionalProperties": False,
        "allOf": [
            {"oneOf": [{"required": [rule]} for rule in RULES]},
            {"oneOf": [{"required": [kind]} for kind in kinds]},
        ],
    }


def read_list(value: Any, base: Path) -> Sequence[NamedCheck]:
    """Return the checks of a list, as a suite, a policy, a task or a file has it."""
    if isinstance(value, Mapping) and set(value) <= {"checks", "description"}:
        value = value.get("checks")
    if not isinstance(value, list | tuple):
        refuse(f"{shown(value)} is not a list of checks", fix=EXAMPLE)
    return [read_check(each, base, (at,)) for at, each in enumerate(value)]
