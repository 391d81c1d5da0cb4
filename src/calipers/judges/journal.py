"""The journal of `calipers judge`: a line per judgment, which record it is of and who made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calipers.judges.models import Judgment
from calipers.judges.rubrics import Rubric
from calipers.judges.spec import JudgeSpec
from calipers.records.unfinished import JUDGES_SCHEMA, WRITTEN
from calipers.support.errors import DataError, UsageError
from calipers.systems.journal import Journal, encode_record

_ANOTHER = "name another output: -o FILE"

Place = tuple[str, str, int]
"""A record's key, a judge's name and the number of the sample."""


class JudgeJournal:
    """The judgments made so far; new ones are appended."""

    def __init__(
        self, journal: Journal, judges: Sequence[JudgeSpec], rubrics: Sequence[Rubric]
    ) -> None:
        self._journal = journal
        self._of = {
            "schema": JUDGES_SCHEMA,
            "judges": [
                {
                    "judge": judge.name,
                    "model": judge.answerable,
                    "rubric": rubric.name,
                    "rubric_hash": rubric.hash,
                    "samples": judge.samples,
                }
                for judge, rubric in zip(judges, rubrics, strict=True)
            ],
        }
        self.done: dict[Place, Judgment] = {}
        self.calls = 0  # that were answered, over all runs
        self.cost_usd = 0.0
        self._read()

    def add(self, place: Place, judgment: Judgment) -> None:
        """Write a judgment; it counts only once it is written."""
        key, judge, sample = place
        line = {"key": key, "judge": judge, "sample": sample, "failed": judgment.failed}
        line |= {"calls": judgment.calls}
        text = encode_record({**line, "judgment": judgment.fields})
        self._journal.append(text.encode("utf-8", "replace"))
        self.done[place] = judgment

    def note_written(self, still_open: int | None) -> None:
        """Note that the output is written, with so many judgments open; None: work has begun."""
        self._journal.append(encode_record({WRITTEN: still_open}).encode())

    def _read(self) -> None:
        """Read the journal; raise UsageError if it is of other judges or rubrics."""
        lines = self._journal.read_lines()
        first = next(lines, None)
        if first is None:
            self._journal.append(encode_record(self._of).encode())
            return
        self._refuse_changes(first[2])
        for _, _, line in lines:
            if WRITTEN in line:
                continue
            judgment, sample = line.get("judgment"), line.get("sample")
            if (
                not isinstance(judgment, dict)
                or not {"scores", "reason", "flags"} <= set(judgment)
                or not isinstance(sample, int)
            ):
                raise DataError(
                    f"{self._journal.path}: a line that is not a judgment",
                    fix="take it out, or start over with another output: -o FILE",
                )
            place = (str(line.get("key")), str(line.get("judge")), sample)
            calls = int("prompt_tokens" in judgment)
            if isinstance(counted := line.get("calls"), int) and not isinstance(counted, bool):
                calls = max(calls, counted)
            self.done[place] = Judgment(judgment, bool(line.get("failed")), calls)
            self.calls += calls
            cost = judgment.get("cost_usd")
            self.cost_usd += cost if isinstance(cost, int | float) else 0.0

    def _refuse_changes(self, before: Mapping[str, Any]) -> None:
        for name, then, now in _compare_heads(before, self._of):
            if then != now:
                raise UsageError(
                    f"{self._journal.path}: it was begun with another {name}: "
                    f"{str(then)[:60]}, not {now}",
                    fix=_ANOTHER,
                )


def _compare_heads(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what the first line says now and said before, key by key."""
    yield "schema", before.get("schema"), now["schema"]
    judges = before.get("judges")
    then = [each for each in judges if isinstance(each, dict)] if isinstance(judges, list) else []
    yield "number of judges", len(then), len(now["judges"])
    for old, new in zip(then, now["judges"], strict=True):
        for name, value in new.items():
            yield name, old.get(name), value
