"""The order of calls, and when to stop: all open calls, unless a gate can be decided sooner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from calipers.runs.state import State


class CallChooser(Protocol):
    """Chooses the calls of a run."""

    def calls(self, system: int) -> Iterator[int]:
        """Yield the numbers of the system's calls to make, one at a time."""

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Take the record of a finished call."""

    async def ready(self) -> None:
        """Wait until the records so far have been evaluated."""


class AllCalls:
    """Every call that is open, in the plan's order."""

    def __init__(self, state: State) -> None:
        self._state = state

    def calls(self, system: int) -> Iterator[int]:
        """Yield the calls without a record, or with one of a failed call."""
        return self._state.open_calls(system)

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Do nothing: no further call depends on a record."""

    async def ready(self) -> None:
        """Return at once."""
