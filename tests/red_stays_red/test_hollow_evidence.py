"""Hollow evidence: rules that cannot fail, records that are missing, repeated or misspelled."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.red_stays_red.cases import Row, blocking, gate_of
from tests.runs.suites_at_hand import suite_folder

WRONG = [{"id": f"gsm8k-{n}", "answer": "5", "target": "4"} for n in range(50)]


@pytest.mark.parametrize(
    "policy",
    [
        blocking(accuracy=0),
        blocking(accuracy=">= 0%"),
        blocking(error_rate=1.0),
        blocking(error_rate="100%"),
        blocking(error_rate="<= 100%"),
        blocking(error_rate=0.5),
        {"thresholds": {"blocking": {"accuracy": {"threshold": "0%", "risk": "critical"}}}},
        {"pass_criteria": {"overall": 0}},
        {"pass_criteria": {"by_category": {"adversarial": "≥ 0%"}}},
        {"progressive": {"release": "v1.0", "v1.0": {"accuracy": 0}}},
        {"composite": {"formula": "0.5 × accuracy + 0.5 × recall", "threshold": 0}},
        {"baseline": {"required": False, "margins": {"accuracy": 0.5}}},
        {"baseline": {"required": False, "margins": {"accuracy": "100%"}}},
        {"baseline": {"required": False, "margins": {"technical_accuracy": 0.8}}},  # of 0.2 to 1
        {
            "metrics": [{"name": "stars", "field": "stars", "better": "higher", "range": [1, 5]}],
            "baseline": {"required": False, "margins": {"stars": 4}},
        },
    ],
)
def test_a_rule_that_cannot_fail_is_refused(policy: Row) -> None:
    with pytest.raises(UsageError):
        gate_of(WRONG, policy)


BASELINE: dict[str, Any] = {"baseline": {"margins": {"accuracy": "3%"}}}


def answers(model: str, right: int = 60) -> list[Row]:
    given = ["4"] * right + ["5"] * (60 - right)
    rows = enumerate(given)
    return [{"id": f"gsm8k-{n}", "model": model, "answer": a, "target": "4"} for n, a in rows]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "baseline.json"
    both = answers("gpt-4o-mini") + answers("llama3")
    cal.gate(both, policy=BASELINE, by=["model"], save_baseline=path)
    return path


@pytest.mark.parametrize("rule", ["≥ 0", "<= 1.0"])
def test_a_rule_that_yes_and_no_both_meet_is_named(rule: str) -> None:
    rows = [{"id": f"q{n}", "polite": False} for n in range(30)]
    found = gate_of(rows, blocking(**{"mean(polite)": rule}))
    assert any("it cannot fail" in notice for notice in found.notices)
    counted = [{"id": f"q{n}", "polite": n - 1} for n in range(30)]
    found = gate_of(counted, blocking(**{"mean(polite)": rule}))
    assert not any("it cannot fail" in notice for notice in found.notices)


def test_a_system_of_the_baseline_that_did_not_run_is_missed(recorded: Path) -> None:
    result = cal.gate(answers("llama3"), policy=BASELINE, by=["model"], against=recorded)
    assert result.verdict == "incomplete"
    assert "gpt-4o-mini" in result.incomplete[0]


def test_a_new_name_does_not_hide_a_fall(recorded: Path) -> None:
    policy = {**BASELINE, **blocking(accuracy="≥ 5%")}
    rows = answers("llama3") + answers("gpt-4o-mini-2026-01", right=5)
    result = cal.gate(rows, policy=policy, by=["model"], against=recorded)
    assert result.verdict == "incomplete"
    assert "gpt-4o-mini, of which" in result.incomplete[0]
    assert "does not hold gpt-4o-mini-2026-01" in result.incomplete[0]


def test_a_system_is_missed_in_whichever_order_the_fields_are_named(tmp_path: Path) -> None:
    rows = [{**row, "tier": "T0"} for row in answers("gpt-4o-mini") + answers("llama3")]
    path = tmp_path / "baseline.json"
    cal.gate(rows, policy=BASELINE, by=["model", "tier"], save_baseline=path)
    by = ["tier", "model"]
    assert cal.gate(rows, policy=BASELINE, by=by, against=path).verdict == "pass"
    result = cal.gate(rows[:60], policy=BASELINE, by=by, against=path)
    assert result.verdict == "incomplete"
    assert "llama3" in result.incomplete[0]


def test_all_systems_renamed_are_named(recorded: Path) -> None:
    result = cal.gate(answers("mistral"), policy=BASELINE, by=["model"], against=recorded)
    assert result.verdict == "incomplete"
    assert "gpt-4o-mini; llama3" in result.incomplete[-1]


RIGHT = [{"id": f"gsm8k-{n}", "answer": "4", "target": "4"} for n in range(50)]


@pytest.mark.parametrize(
    ("rows", "policy"),
    [
        (RIGHT + [{"id": f"lost-{n}", "answer": "5"} for n in range(450)], blocking(accuracy=90)),
        (
            [{"id": f"{n}", **({"score": 1.0} if n < 10 else {"scroe": 0.0})} for n in range(99)],
            blocking(**{"mean(score)": "≥ 0.9"}),
        ),
        (
            [
                {"id": f"{n}", "latency_ms": 5 if n < 10 else None, "passed": True}
                for n in range(99)
            ],
            blocking(latency_p95="< 10ms"),
        ),
        (
            [row for row in RIGHT for _ in range(2)]
            + [{"id": f"lost-{n % 99}", "answer": "5"} for n in range(198)],
            blocking(mode_accuracy=90),
        ),
        (
            RIGHT + [{"id": f"lost-{n}", "answer": "5"} for n in range(450)],
            {"composite": {"formula": "accuracy", "threshold": 0.9, "requires": {}}},
        ),
        (
            [{"id": f"{n}", "tone": "calm" if n < 10 else None} for n in range(99)],
            {
                "metrics": [{"name": "calm", "python": f"{__file__}:is_calm"}],
                **blocking(calm="≥ 0.9"),
            },
        ),
    ],
    ids=[
        "targets lost",
        "field misspelled",
        "latencies lost",
        "of a majority",
        "in a composite",
        "own function",
    ],
)
def test_a_tenth_of_the_evidence_does_not_pass(rows: list[Row], policy: Row) -> None:
    result = gate_of(rows, policy)
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert "that should have a value of" in result.incomplete[0]


@pytest.mark.parametrize("metric", ["behavior_coverage", "behavior_coverage_pooled"])
def test_coverage_where_expectations_were_lost_does_not_pass(metric: str) -> None:
    kept = {"expected_behaviors": ["asks"], "observed_behaviors": ["asks"]}
    lost: Row = {"expected_behaviors": None, "observed_behaviors": []}
    rows = [{"id": f"{n}", **(kept if n < 9 else lost)} for n in range(99)]
    result = gate_of(rows, blocking(**{metric: 90}))
    assert result.incomplete == (f"{metric}: 90 of 99 records are undecided",)


def test_a_run_that_lacks_targets_does_not_pass_either(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text("def answer(record):\n    return '4'\n", encoding="utf-8")
    (tmp_path / "policy.json").write_text(json.dumps(blocking(accuracy=90)), encoding="utf-8")
    tasks = [{"id": f"t{n}", "input": "2 + 2", "target": "4" if n < 4 else None} for n in range(9)]
    system = {"name": "gpt-4o-mini", "python": "system.py:answer"}
    folder = suite_folder(tmp_path, tasks, [system], policy="policy.json")
    assert folder.run().exit_code == 3


def is_calm(record: Row) -> float | None:
    return 1.0 if record["tone"] else None


def test_values_that_the_baseline_had_are_missed(tmp_path: Path) -> None:
    """A category that lost all its targets has no value that tells; the baseline remembers."""
    rows = [{**row, "category": "algebra" if n % 2 else "geometry"} for n, row in enumerate(RIGHT)]
    cal.gate(rows, policy=BASELINE, save_baseline=tmp_path / "baseline.json")
    lost = [{**row, "target": None} if row["category"] == "algebra" else row for row in rows]
    result = cal.gate(lost, policy=BASELINE, against=tmp_path / "baseline.json")
    assert result.verdict == "incomplete"
    assert "25 of 50 records that should have a value of accuracy" in result.incomplete[0]


@pytest.mark.parametrize(
    "name", ["\u0430dversarial", "adversarial\u200b", "ａｄｖｅｒｓａｒｉａｌ", "\u0391dversarial"]
)
@pytest.mark.parametrize(
    "policy",
    [
        blocking(safety_rate="= 100%"),
        {"pass_criteria": {"by_category": {"adversarial": "100%"}}},
        {"weights": {"by_category": {"adversarial": 9}}, **blocking(weighted_pass_rate="10%")},
    ],
)
def test_a_name_that_looks_like_the_category_hides_no_failure(name: str, policy: Row) -> None:
    rows = [{"id": "SEC-1", "category": "adversarial", "passed": True}]
    rows += [{"id": f"SEC-2{n}", "category": name, "passed": n > 7} for n in range(9)]
    result = gate_of(rows, policy)
    assert result.verdict == "incomplete"
    assert "9 records of the category" in result.incomplete[0]
    assert f"U+{ord(min(name, key=str.isascii)):04X}" in result.incomplete[0]


def test_categories_without_a_rule_are_listed() -> None:
    rows = [{"id": "SEC-1", "category": "adversarial", "passed": True}]
    rows += [{"id": f"SEC-2{n}", "category": "adversarials", "passed": False} for n in range(9)]
    notices = gate_of(rows, blocking(safety_rate="= 100%")).notices
    assert "9 records of the category 'adversarials' are not 'adversarial'" in notices
    assert "records of categories that no rule covers: 'adversarials' (9)" in notices


HALF: list[Row] = [
    {"id": f"gsm8k-{n}", "answer": "4" if n < 10 else "5", "target": "4"} for n in range(20)
]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"run": 1},
        {"latency_ms": 812.5},
        {"timestamp": "2026-05-01T10:11:12Z"},
        {"metadata": {"request_id": "req_8f2c"}},
    ],
)
def test_one_record_four_hundred_times_lifts_no_rate(told: Row) -> None:
    rows = HALF + [{**HALF[0], **told} for _ in range(400)]
    result = gate_of(rows, blocking(accuracy=90))
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert ("one run recorded twice" in result.incomplete[0]) == bool(told)


@pytest.mark.parametrize("copy", ["runs.jsonl", "./runs.jsonl", "link.jsonl", "again.jsonl"])
def test_a_file_given_twice_is_no_further_evidence(
    copy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{json.dumps(row)}\n" for row in RIGHT)
    for name in ("runs.jsonl", "again.jsonl"):
        Path(name).write_text(text, encoding="utf-8")
    Path("link.jsonl").symlink_to("runs.jsonl")
    assert cal.gate(["runs.jsonl"], policy=blocking(accuracy=90)).verdict == "pass"
    result = cal.gate(["runs.jsonl", copy], policy=blocking(accuracy=90))
    assert result.verdict == "incomplete"
    assert "runs.jsonl" in result.incomplete[0]


def test_a_copy_in_another_format_is_none_either(tmp_path: Path) -> None:
    rows = [{**row, "run": 1, "latency_ms": 100.5 + n} for n, row in enumerate(RIGHT)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    (tmp_path / "runs.jsonl").write_bytes(lines)
    (tmp_path / "runs.jsonl.gz").write_bytes(gzip.compress(lines))
    pl.DataFrame(rows).write_parquet(tmp_path / "runs.parquet")
    pl.DataFrame(rows).write_csv(tmp_path / "runs.csv")
    for name in ("runs.jsonl.gz", "runs.parquet", "runs.csv"):
        files = [tmp_path / "runs.jsonl", tmp_path / name]
        result = cal.gate(files, policy=blocking(accuracy=90))
        assert result.verdict == "incomplete"
        assert "50 records equal another in every field, run, latency_ms" in result.incomplete[0]
        assert name in result.incomplete[0]


def test_a_copy_without_anything_that_tells_runs_apart_is_named_in_a_notice(tmp_path: Path) -> None:
    lines = "".join(f"{json.dumps(row)}\n" for row in RIGHT).encode()
    (tmp_path / "runs.jsonl").write_bytes(lines)
    (tmp_path / "runs.jsonl.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "crlf.jsonl").write_bytes(lines.replace(b"\n", b"\r\n"))
    for name in ("runs.jsonl.gz", "crlf.jsonl"):
        files = [tmp_path / "runs.jsonl", tmp_path / name]
        result = cal.gate(files, policy=blocking(accuracy=90))
        [said] = [each for each in result.notices if "count as further runs" in each]
        assert said.startswith("50 records repeat")
        assert all(str(file) in said for file in files)
    [alone] = [
        each
        for each in cal.gate([*RIGHT, *RIGHT], policy=blocking(accuracy=90)).notices
        if "further" in each
    ]
    assert alone.endswith("further runs")


def test_a_copy_whose_objects_are_written_otherwise_is_none_either(tmp_path: Path) -> None:
    rows: list[Row] = [
        {**row, "meta": {"request_id": f"req_{n}", "seed": n}} for n, row in enumerate(RIGHT)
    ]
    again = [{**row, "meta": {"note": None} | dict([*row["meta"].items()][::-1])} for row in rows]
    for name, written in (("runs.jsonl", rows), ("again.jsonl", again)):
        lines = "".join(f"{json.dumps(row)}\n" for row in written)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    files = [tmp_path / "runs.jsonl", tmp_path / "again.jsonl"]
    result = cal.gate(files, policy=blocking(accuracy=90))
    assert result.verdict == "incomplete"
    assert "50 records equal another in every field" in result.incomplete[0]


def test_one_task_with_most_rows_decides_no_rate() -> None:
    """Four hundred runs of one task that always passes, beside nineteen tasks that never do."""
    rows = [{"id": "easy", "run": n, "passed": True} for n in range(400)]
    rows += [{"id": f"hard-{n}", "run": 0, "passed": False} for n in range(19)]
    for policy in (blocking(pass_rate=90), {"pass_criteria": {"overall": 90}}):
        result = gate_of(rows, policy)
        assert result.verdict == "incomplete"
        assert "the task easy has 400 rows, the median task 1" in result.incomplete[0]
        assert gate_of(rows, {**policy, "weight": "task"}).verdict == "fail"


NOT_BY_TASK: list[Row] = [
    blocking(weighted_pass_rate=90),
    blocking(token_efficiency="> 0.001"),
    blocking(precision=90),
    blocking(recall=90),
    blocking(latency_p95="< 50ms"),
    {"composite": {"threshold": 0.5}},
    {"composite": {"formula": "accuracy - latency_p95_ms / 100", "threshold": 0.5}},
]


@pytest.mark.parametrize("rules", NOT_BY_TASK)
def test_weighing_tasks_does_not_lift_what_it_does_not_reach(rules: Row) -> None:
    """Rates of pooled rows, ranks and ratios of sums count rows, whatever the policy says."""
    good = {"passed": True, "correct": True, "actual": True, "predicted": True, "latency_ms": 5}
    bad = {"passed": False, "correct": False, "actual": True, "predicted": False, "latency_ms": 900}
    more = {"prompt_tokens": 5, "completion_tokens": 5, "category": "adversarial"}
    rows = [{"id": "easy", "run": n, **good, **more} for n in range(400)]
    rows += [{"id": f"hard-{n}", "run": 0, **bad, **more} for n in range(19)]
    if "composite" in rules:
        rules = {**rules, "composite": {**rules["composite"], "requires": {}}}
    for weight in ("row", "task"):
        result = gate_of(rows, {**rules, "weight": weight})
        assert result.verdict in ("incomplete", "fail")
        assert "the task easy has 400 rows" in result.incomplete[0]
        assert "weight: task does not reach" in result.incomplete[0]
    mean = gate_of(rows, {**blocking(accuracy=90), "weight": "task"})
    assert not mean.incomplete
