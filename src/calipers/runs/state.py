"""The state of a folder's journal: which calls are done, which failed, what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from calipers.records.judgment_shape import FAILED as FAILED_JUDGMENT
from calipers.records.judgment_shape import get_judgments, sum_judging_cost
from calipers.records.rows import classify_scalar
from calipers.runs.plan import CallPlan, Key
from calipers.support.errors import DataError
from calipers.systems.journal import Journal
from calipers.systems.simulated_user import sum_user_cost
from calipers.systems.tally import Tally

MISSING, FAILED, DONE = 0, 1, 2


class State:
    """A byte per call, and the sums."""

    def __init__(self, plan: CallPlan, journal: Journal) -> None:
        self._plan = plan
        self._path = journal.path
        self._systems = {system.name: at for at, system in enumerate(plan.suite.systems)}
        self.calls = [bytearray(plan.per_system) for _ in plan.suite.systems]
        self.tally = Tally(plan.calls)
        self.replaced_calls = 0  # failed ones that were made again
        self.replaced_usd = 0.0
        self.dearest: dict[int, float] = {}  # what a system's dearest call cost
        self.dearest_judging: dict[int, float] = {}  # the same of its judges
        self._judging: dict[tuple[int, int], float] = {}  # what judges cost, where they do
        self.unjudged: set[tuple[int, int]] = set()  # done, but a judge failed
        self.predicted: type | None = None  # the type of what was predicted first
        self._read(journal)
        self.tally.begin()

    @property
    def missing(self) -> int:
        """How many calls have no record."""
        return sum(each.count(MISSING) for each in self.calls)

    def _read(self, journal: Journal) -> None:
        """Count every line once; of two records of one call the later counts, a good one first."""
        lines: list[dict[int, tuple[int, int]]] = [{} for _ in self.calls]
        failed: dict[tuple[int, int], dict[str, Any]] = {}
        doubles = False
        for start, end, record in journal.read_lines():
            system, number = self.locate(record)
            self.predicted = self.predicted or classify_scalar(record.get("predicted"))
            states = self.calls[system]
            judging, dearest = sum_judging_cost(record), self.dearest_judging.get(system, 0.0)
            self.dearest_judging[system] = max(judging, dearest)
            if states[number] == DONE:
                doubles = True
                if (system, number) in self.unjudged:  # the later one has more judgments
                    lines[system][number] = (start, end)
                    paid = self._judging.get((system, number), 0.0)
                    self.tally.judge(judging - paid)
                    self.note_judgments(system, number, record)
                continue
            if (before := failed.pop((system, number), None)) is not None:
                doubles = True
                self.tally.add(before, sign=-1)
                self.replaced_calls += 1
                self.replaced_usd += before.get("cost_usd") or 0.0
            self.tally.add(record)
            if (cost := record.get("cost_usd")) is not None:
                cost += sum_user_cost(record)
                self.dearest[system] = max(cost, self.dearest.get(system, 0.0))
            lines[system][number] = (start, end)
            states[number] = DONE
            self.note_judgments(system, number, record)
            if record.get("error") is not None:
                states[number] = FAILED
                failed[system, number] = record
        if doubles:
            journal.keep_only(iter(sorted(span for each in lines for span in each.values())))

    def locate(self, record: Mapping[str, Any]) -> tuple[int, int]:
        """Return the system and the number of the call that a record is of, or raise DataError."""
        key = read_key(record)
        system, number = self._systems.get(key[1]), self._plan.number(key)
        if system is None or number is None:
            raise DataError(
                f"{self._path}: a record that is none of the suite's: "
                f"id {key[0]}, model {key[1]}, run {key[3]}",
                fix="take it out, or start over with another folder: -o FOLDER",
            )
        return system, number

    def note_judgments(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Note what the judges of a call's record cost, and whether one failed."""
        if "judgments" not in record:
            self.unjudged.discard((system, number))
            return
        if cost := sum_judging_cost(record):
            self._judging[system, number] = cost
        failed = any(each.get(FAILED_JUDGMENT) for each in get_judgments(record))
        (self.unjudged.add if failed else self.unjudged.discard)((system, number))


def read_key(record: Mapping[str, Any]) -> Key:
    """Return what identifies a record."""
    run = record.get("run")
    tier = record.get("tier")
    return (
        str(record.get("id")),
        str(record.get("model")),
        None if tier is None else str(tier),
        run if isinstance(run, int) else 0,
    )


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
        return (at for at, state in enumerate(self._state.calls[system]) if state != DONE)

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Do nothing: no further call depends on a record."""

    async def ready(self) -> None:
        """Return at once."""
