"""Which calls are made next, and until when: all that are open, unless somebody knows better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from calipers.runs.state import State


class Course(Protocol):
    """Chooses the calls of a run."""

    def calls(self, system: int) -> Iterator[int]:
        """The numbers of the system's calls that are to be made; asked for one at a time."""

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """A call is over: its record."""

    async def ready(self) -> None:
        """Wait until it is known what the records so far mean for the next call."""


class AllCalls:
    """Every call that is open, in the plan's order."""

    def __init__(self, state: State) -> None:
        self._state = state

    def calls(self, system: int) -> Iterator[int]:
        """Those without a record, or with one of a failed call."""
        return self._state.open_calls(system)

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Nothing depends on it."""

    async def ready(self) -> None:
        """At once."""
