"""Records whose judge failed are judged again; the paid call is not repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from calipers.judges.panels import WorkingJudge
from calipers.records.judgment_shape import FAILED, get_judgments, sum_judging_cost
from calipers.runs.plan import Key
from calipers.runs.preparing import Prepared
from calipers.runs.state import read_key
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal
from calipers.systems.secrets import mask_for

Record = dict[str, Any]


class Rejudging:
    """Asks the judges that failed, and appends the record again."""

    def __init__(
        self, judges: Sequence[WorkingJudge], journal: Journal, budget: Budget, of: Prepared
    ) -> None:
        self._check = of.checks
        self._judges = {judge.judge.name: judge for judge in judges}
        self._journal = journal
        self._budget = budget
        self._mask = mask_for(of.suite.served)
        self._systems = {system.name: at for at, system in enumerate(of.suite.systems)}
        self._concurrency = of.suite.concurrency

    async def all(self) -> None:
        """Judge them, many at a time."""
        records = self._find_failed()
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._work(records))

    def _find_failed(self) -> Iterator[Record]:
        """Yield the records as they are now; what is appended meanwhile is not among them."""
        last: dict[Key, tuple[int, int]] = {}
        end = 0
        for start, end, record in self._journal.read_lines():
            if record.get("error") is None and any(e.get(FAILED) for e in get_judgments(record)):
                last[read_key(record)] = (start, end)
            else:
                last.pop(read_key(record), None)
        spans = set(last.values())
        for start, upto, record in self._journal.read_lines():
            if start >= end:
                return
            if (start, upto) in spans:
                yield record

    async def _work(self, records: Iterator[Record]) -> None:
        for record in records:
            system = self._systems[str(record["model"])]
            reserved = await self._budget.reserve_judging(system)
            if reserved is None:
                return
            try:
                judgments = await self._judge(record)
            except BaseException:
                self._budget.release(reserved)
                raise
            paid = [new for old, new in judgments if new is not old]
            again = {**record, "judgments": [new for _, new in judgments]}
            if self._check:
                again = self._check(again)
            self._journal.add(self._mask.mask_value(again))
            self._budget.settle_judging(system, reserved, sum_judging_cost({"judgments": paid}))

    async def _judge(self, record: Record) -> list[tuple[Record, Record]]:
        """Return each judgment with its replacement, which is the same if it was good."""
        each = (self._judge_one(record, judgment) for judgment in get_judgments(record))
        return await asyncio.gather(*each)

    async def _judge_one(self, record: Record, judgment: Record) -> tuple[Record, Record]:
        judge = self._judges.get(str(judgment.get("judge")))
        if judge is None or not judgment.get(FAILED):
            return judgment, judgment
        return judgment, (await judge(record, judgment.get("sample", 1))).fields
