"""A suite's prompts: what a run of several did not call, or called once, is not a pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import run
from tests.runs.test_shapes import compare_prompts

POLICY = {"thresholds": {"blocking": {"accuracy": 50}}}


@pytest.mark.parametrize("variant", ["steps", "plain"])
def test_a_prompt_that_was_never_called_leaves_the_gate_incomplete(
    variant: str, tmp_path: Path
) -> None:
    suite = compare_prompts(tmp_path)
    assert suite.run().exit_code == 0
    (tmp_path / "policy.json").write_text(json.dumps(POLICY), encoding="utf-8")
    records = suite.results / "records.jsonl"
    lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["variant"] == variant]
    records.write_text("".join(kept), encoding="utf-8")
    result = run("gate", records, "--policy", tmp_path / "policy.json")
    assert result.exit_code != 0
    assert "12 calls were not made" in result.output
