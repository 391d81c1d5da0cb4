"""Kinds of check that plug-ins add, beside those of the library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import polars as pl

from calipers.metrics.checks.kind import Replies, ReplyTest, ask_user
from calipers.metrics.checks.kinds import load_kinds
from calipers.support.arguments import require_callable, require_type
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.support.registry import Registry, add_registry

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


def check_kinds() -> dict[str, type[ReplyTest]]:
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
