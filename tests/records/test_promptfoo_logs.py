"""Results of promptfoo: prompts, repeated tests, variables, tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers as cal
from tests.records.log_files import (
    make_promptfoo_row,
    write_texts,
)


@pytest.mark.parametrize("version", [2, 3])
def test_promptfoo_has_a_tier_per_prompt_and_tells_errors_from_failures(
    tmp_path: Path, version: int
) -> None:
    rows = [
        make_promptfoo_row(0, "Say"),
        make_promptfoo_row(0, "Tell", success=False, failureReason=1, error="not equal"),
        make_promptfoo_row(
            1, "Say", success=False, failureReason=2, error="timeout", response=None
        ),
    ]
    document = {"results": {"results": rows} if version > 2 else rows}
    table = cal.read(write_texts(tmp_path / "out.json", document, indent=2))
    assert table["tier"].to_list() == ["Say", "Tell", "Say"]
    assert table["passed"].to_list() == [True, False, False]
    assert table["error"].to_list() == [None, None, "timeout"]
    assert table["model"].to_list() == ["openai:gpt-4o-mini"] * 3
    assert table["target"].to_list() == ["Bonjour"] * 3
    assert table["language"].to_list() == ["French"] * 3
    assert table["prompt_tokens"].to_list() == [7.0, 7.0, None]
    scores = cal.score(tmp_path / "out.json").groups[0].metrics
    assert (scores["score_total"].value, scores["score_tone"].value) == (1.0, 0.5)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_repeated_test_of_promptfoo_is_a_task_of_several_runs(
    tmp_path: Path, suffix: str
) -> None:
    rows = [make_promptfoo_row(test, "Say", promptIdx=0) for test in (1, 0)]
    rows += [make_promptfoo_row(2, "Say", promptIdx=0, vars={"language": "Greek"})]
    path = tmp_path / f"out{suffix}"
    write_texts(path, *(rows if suffix == ".jsonl" else [{"results": {"results": rows}}]))
    table = cal.read(path).sort("id", "run")
    assert table.select("id", "run").rows() == [("0", 1), ("0", 2), ("2", 1)]
    assert table["input"].to_list() == ["Say 0", "Say 1", "Say 2"]


def test_what_promptfoo_compares_with_has_its_variables_filled_in(tmp_path: Path) -> None:
    template = {"type": "equals", "value": "{{greeting}}"}
    known = {"assertion": template, "metadata": {"renderedAssertionValue": "Bonjour"}}
    rows = [
        make_promptfoo_row(0, "Say", testCase={"assert": [template]}, gradingResult=grading)
        for grading in ({"componentResults": [known]}, None)
    ]
    table = cal.read(write_texts(tmp_path / "out.json", {"results": rows}))
    assert table["target"].to_list() == ["Bonjour", None]


def test_an_answer_of_promptfoo_may_be_any_json(tmp_path: Path) -> None:
    row = make_promptfoo_row(0, "Say", response={"output": {"a": [1, "é"]}})
    table = cal.read(write_texts(tmp_path / "out.json", {"results": [row]}))
    assert table["answer"].to_list() == ['{"a": [1, "é"]}']


def test_the_tokens_of_promptfoos_cache_are_kept_apart(tmp_path: Path) -> None:
    cached = {"output": "4", "tokenUsage": {"total": 30, "cached": 30}}
    told = {"total": 15, "prompt": 10, "completion": 5}
    fresh = {**told, "completionDetails": {"cacheReadInputTokens": 7, "reasoning": 2}}
    rows = [
        make_promptfoo_row(0, "Say", response=cached),
        make_promptfoo_row(1, "Say", response={"output": "4", "tokenUsage": fresh}),
    ]
    table = cal.read(write_texts(tmp_path / "out.json", {"results": rows}))
    assert table["cached_tokens"].to_list() == [30, None]
    assert table["prompt_tokens"].to_list() == [None, 3]  # of 10, without what was cached
    assert table["cache_read_tokens"].to_list() == [None, 7]


@pytest.mark.parametrize("version", [2, 3])
def test_the_counts_of_promptfoo_stand_beside_ours(tmp_path: Path, version: int) -> None:
    failed = {"success": False, "failureReason": 1}
    rows = [make_promptfoo_row(0, "Say"), make_promptfoo_row(1, "Say", **failed)]
    for successes, equal in ((1, True), (7, False)):
        stats = {"stats": {"successes": successes, "failures": 1, "errors": 0}}
        inner = {"results": rows, **stats}
        path = write_texts(tmp_path / "out.json", {"results": inner} if version > 2 else inner)
        [share, *counts] = cal.score(path).inputs[0].stated
        assert (share.ours, share.equal, share.n) == ("pass_rate", equal, successes + 1)
        assert [(each.name, each.value) for each in counts] == [
            ("stats/successes", successes),
            ("stats/failures", 1),
            ("stats/errors", 0),
        ]
    assert share.reason == "it is of 8 samples, ours of 2"
    [_, left] = cal.convert(path, tmp_path / "records.parquet").notices
    assert "figures that the log states of itself are not written" in left
