"""Judged records, and the command that audits them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import calipers as cal
from calipers.judges.audit_result import AuditGroup, JudgeAudit
from tests import commands
from tests.shared_data import FOLDER

Row = dict[str, Any]


def judgment(
    judge: str | None = "j1",
    score: float | None = 0.5,
    *,
    passed: bool | None = True,
    **more: Any,
) -> Row:
    return {"judge": judge, "passed": passed, "weighted_score": score, **more}


def record(task: str, *judgments: Row, **more: Any) -> Row:
    return {"id": task, "judgments": list(judgments), **more}


def items(*given: tuple[float, float]) -> dict[str, Any]:
    return {f"F{n}": {"achieved": got, "max": top} for n, (got, top) in enumerate(given, start=1)}


PANEL = [
    record("q1", judgment("a", 0.9), judgment("b", 0.7), judgment("c", 0.5, passed=False)),
    record("q1", judgment("a", 0.8), judgment("b", 0.8)),
    record(
        "q2",
        judgment("a", 0.4, passed=False),
        judgment("b", 0.1, passed=False),
        judgment("c", 0.2, passed=False),
    ),
    record("q3", judgment("a", None, passed=None), judgment("b", 0.6), judgment("c", 0.9)),
]


def only(audit: cal.Audit) -> AuditGroup:
    [group] = audit.groups
    return group


def judge_named(audit: cal.Audit, name: str) -> JudgeAudit:
    [found] = [judge for judge in only(audit).judges if judge.judge == name]
    return found


run, refused = partial(commands.run, "judge"), partial(commands.refused, "judge")


def three_judges() -> list[Row]:
    text = (FOLDER / "judge/scylla_three_judges.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def scylla() -> list[Row]:
    """A record per run, with the judgments of its judges."""
    runs: dict[tuple[Any, ...], Row] = {}
    for row in three_judges():
        key = (row["task"], row["tier"], row["subtest"], row["run"])
        run_record = runs.setdefault(key, record("/".join(map(str, key)), suite=row["task"]))
        run_record["judgments"].append(
            judgment(str(row["judge_number"]), row["score"], passed=row["passed"])
        )
    return list(runs.values())
