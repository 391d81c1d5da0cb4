"""What a folder's journal says was done and paid, where calls and judgments were repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calipers.runs.prepare import prepare_file
from calipers.runs.resume import CALL_HAS_FAILED, CALL_IS_DONE, CALL_IS_MISSING, State
from calipers.systems.journal import Journal
from tests.files import write_lines
from tests.runs.suites_at_hand import suite_folder, sums

SOLVER = "def answer(record):\n    return {'answer': 'done', 'cost_usd': 0.25}\n"


def record(task: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"t{task}", "model": "solver", "run": 1, **fields}


def judged(cost: float, **fields: Any) -> dict[str, Any]:
    judgment = {"judge": "j", "rubric": "r", "model": "openai:j", "cost_usd": cost, **fields}
    return record(0, answer="done", cost_usd=0.5, judgments=[judgment])


def read_state(folder: Path, *records: dict[str, Any]) -> State:
    (folder / "solver.py").write_text(SOLVER)
    suite_folder(folder, sums(3), [{"name": "solver", "python": "solver.py:answer"}])
    journal = Journal(write_lines(folder / "records.jsonl", records))
    return State(prepare_file(folder / "suite.yaml").plan, journal)


def test_a_failed_call_that_was_made_again_stays_paid(tmp_path: Path) -> None:
    failed = record(0, error="timeout: no reply in 60 s", cost_usd=0.4)
    state = read_state(
        tmp_path,
        failed,
        failed,
        record(0, answer="done", cost_usd=0.1),
        record(1, error="server: 500"),
    )
    assert [*state.calls[0]] == [CALL_IS_DONE, CALL_HAS_FAILED, CALL_IS_MISSING]
    assert state.replaced_calls == 2
    assert state.replaced_usd == pytest.approx(0.8)
    assert (state.tally.done, state.tally.errors) == (2, 1)
    assert state.tally.cost_usd == pytest.approx(0.1)
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 2


def test_judging_again_counts_once(tmp_path: Path) -> None:
    state = read_state(
        tmp_path, judged(0.2, scores=None, failed=True), judged(0.3, scores={"a": 5})
    )
    assert (state.tally.done, state.unjudged) == (1, set())
    assert state.tally.judging_usd == pytest.approx(0.3)
    assert state.tally.cost_usd == pytest.approx(0.8)
    assert state.dearest_judging == {0: 0.3}


@pytest.mark.parametrize("noted", [0.0, 1.5])
def test_a_budget_knows_what_was_spent_before(tmp_path: Path, noted: float) -> None:
    """By the journal and what it replaced, or by the manifest, where a run ended in good order."""
    (tmp_path / "solver.py").write_text(SOLVER)
    system = {"name": "solver", "python": "solver.py:answer"}
    suite = suite_folder(tmp_path, sums(9), [system], budget_calls=1)
    assert suite.run().exit_code == 3
    [done] = suite.records()
    failed = [record(0, error="timeout: no reply in 60 s", cost_usd=0.2)] * (5 if noted == 0 else 1)
    write_lines(suite.results / "records.jsonl", [*failed, done])
    manifest = suite.json("manifest.json") | {"spent_usd": noted}
    (suite.results / "manifest.json").write_text(json.dumps(manifest))
    assert suite.write(budget_calls=None, budget_usd=1.9).run().exit_code == 3
    assert len(suite.records()) == (3 if noted == 0 else 2)  # a call may cost $0.3125
    assert suite.json("manifest.json")["spent_usd"] == pytest.approx(1.75)
