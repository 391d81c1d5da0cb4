"""The journal of `calipers judge`: a line per judgment, which record it is of and who made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calipers.judges.models import Judgment
from calipers.judges.rubrics import Rubric
from calipers.judges.spec import JudgeSpec
from calipers.records.unfinished import JUDGES_SCHEMA, WRITTEN
from calipers.support.errors import DataError, UsageError
from calipers.systems.journal import Journal, encode_record

Place = tuple[str, str, int]
"""A record's key, a judge's name and the number of the sample."""


class JudgeJournal:
    """The judgments made so far; new ones are appended."""

    def __init__(
        self, journal: Journal, judges: Sequence[JudgeSpec], rubrics: Sequence[Rubric]
    ) -> None:
        self._journal = journal
        self._judges: list[dict[str, Any]] = [
            {
                "judge": judge.name,
                "model": judge.answerable,
                "rubric": rubric.name,
                "rubric_hash": rubric.hash,
                "samples": judge.samples,
            }
            for judge, rubric in zip(judges, rubrics, strict=True)
        ]
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
            head = {"schema": JUDGES_SCHEMA, "judges": self._judges}
            self._journal.append(encode_record(head).encode())
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
        given, own = before.get("judges"), self._judges
        judges = [e for e in given if isinstance(e, dict)] if isinstance(given, list) else []
        compared: list[tuple[str, Any, Any]] = [
            ("schema", before.get("schema"), JUDGES_SCHEMA),
            ("number of judges", len(judges), len(own)),
        ]
        for old, new in zip(judges, own, strict=False):
            compared += ((name, old.get(name), value) for name, value in new.items())
        for name, then, now in compared:
            if then != now:
                raise UsageError(
                    f"{self._journal.path}: it was begun with another {name}: "
                    f"{str(then)[:60]}, not {now}",
                    fix="name another output: -o FILE",
                )
