"""Numbers of a comparison: against plain Python and scipy, and on real data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import given
from scipy import stats

import calipers as cal
from calipers.comparisons.compare_result import MetricComparison
from calipers.metrics import catalogue
from tests.commands import strict
from tests.comparisons.runs_at_hand import (
    SHARES,
    WITHOUT_A_VALUE_PER_TASK,
    Record,
    by_id,
    logs,
    right,
    run,
    slowly,
    the_only,
    two_runs,
)
from tests.conformance.reference import REFERENCES, Options
from tests.shared_data import FOLDER, needs_shared_data

CONTRACT = "base candidate difference low high p_value test wins losses ties n_pairs".split()


def test_the_json(files: tuple[Path, Path]) -> None:
    result = run(*files, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = strict(result.stdout)
    assert found["schema"] == "calipers.compare/1"
    assert found["version"] == cal.__version__
    assert (found["seed"], found["confidence"], found["paired"]) == (0, 0.95, True)
    assert (found["base"], found["candidate"]) == tuple(map(str, files))
    assert (found["n_pairs"], found["only_base"], found["only_candidate"]) == (38, 2, 2)
    assert found["only_base_ids"] == ["t000", "t001"]
    assert found["only_candidate_ids"] == ["t040", "t041"]
    assert {"accuracy", "brier", "ece", "sce", "latency_p95_ms"} <= set(found["metrics"])
    for name, metric in found["metrics"].items():
        assert set(CONTRACT) <= set(metric), name
        assert (metric["low"] is None) == (metric["reason"] is not None), name
        assert metric["p_value"] is not None or metric["reason"], name  # a test may say more
    assert found["metrics"]["accuracy"]["n_pairs"] == 38


@pytest.mark.long
def test_the_same_bytes_for_the_same_seed(files: tuple[Path, Path]) -> None:
    few = ("--format", "json", "--resamples", 500)
    texts = [run(*files, *few, "--seed", seed).stdout for seed in (3, 3, 5)]
    assert texts[0] == texts[1]
    assert cal.compare(*files, seed=3, resamples=500).to_json() + "\n" == texts[0]
    first, other = (strict(text)["metrics"] for text in texts[1:])
    for name in first:
        same = "p_value" if name in WITHOUT_A_VALUE_PER_TASK else "permutation_p"
        drawn = {"seed", "low", "high", "stderr", "p_value", "permutation_p", "p_holm"}
        for key in set(first[name]) - drawn:
            assert first[name][key] == other[name][key]
        assert first[name][same] != other[name][same] or first[name][same] in (None, 1.0), name


def test_python_gives_what_the_command_gives(files: tuple[Path, Path]) -> None:
    by_hand = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    ours = cal.compare(*by_hand, resamples=500).to_dict()
    theirs = cal.compare(*(pl.DataFrame(rows) for rows in by_hand), resamples=500).to_dict()
    of_files = strict(run(*files, "--format", "json", "--resamples", 500).stdout)
    for found in (ours, theirs, of_files):
        del found["base"], found["candidate"]
    assert ours == theirs == of_files


def paired_values(name: str, base: list[Record], candidate: list[Record]) -> list[tuple[Any, Any]]:
    """The metric over each task's rows by itself, of the tasks that have it on both sides."""
    ours, theirs = by_id(base), by_id(candidate)
    both = [
        tuple(REFERENCES[name](rows[task], Options()).value for rows in (ours, theirs))
        for task in sorted(ours.keys() & theirs.keys())
    ]
    return [(before, after) for before, after in both if None not in (before, after)]


TWO_WEIGHTS: tuple[Literal["task"], Literal["row"]] = ("task", "row")


@slowly
@given(sides=two_runs())
def test_metrics_with_a_value_per_task(sides: tuple[list[Record], list[Record]]) -> None:
    wanted = [name for name in REFERENCES if name not in WITHOUT_A_VALUE_PER_TASK]
    (found,) = cal.compare(*sides, metrics=wanted).pairs
    for name in wanted:
        _is_as_expected(name, found.metrics[name], paired_values(name, *sides))


def _is_as_expected(
    name: str, found: MetricComparison, pairs: Sequence[tuple[float, float]]
) -> None:
    assert (found.n_pairs or 0) == len(pairs), name
    if not pairs:
        assert found.difference is None
        assert found.reason
        return
    before, after = zip(*pairs, strict=True)
    scale = max(map(abs, (*before, *after)))
    near = {"rel": 1e-9, "abs": 1e-9 * scale}
    assert found.base == pytest.approx(fmean(before), **near)
    assert found.candidate == pytest.approx(fmean(after), **near)
    assert found.difference == pytest.approx(fmean(after) - fmean(before), **near)
    moves = [b - a if abs(b - a) > 1e-9 * max(abs(a), abs(b)) else 0.0 for a, b in pairs]
    higher, lower = sum(move > 0 for move in moves), sum(move < 0 for move in moves)
    wins, losses = (lower, higher) if catalogue()[name].better == "lower" else (higher, lower)
    assert (found.wins, found.losses, found.ties) == (wins, losses, len(pairs) - wins - losses)
    if name in SHARES and set(before) | set(after) <= {0.0, 1.0}:
        assert (found.test, found.interval) == ("mid-p McNemar", "Bonett-Price")
        changed = higher + lower
        exact = stats.binomtest(higher, changed, 0.5).pvalue if changed else 1.0
        twice = stats.binom.pmf(higher, changed, 0.5) if higher != lower else 0.0
        assert found.p_value == pytest.approx(exact - twice)
        return
    if found.p_value is not None:
        assert found.low is not None
        assert found.high is not None
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)
    if math.isfinite(catalogue()[name].range[1]):
        assert found.test in ("paired t", "paired t, permuted runs", "sign-flip permutation")
        assert (found.p_value is not None) == (len(pairs) > 1)
        return
    spread = stdev(moves) if len(moves) > 1 else 0.0
    if spread > 1e-6 * scale and found.test == "paired t":
        t = fmean(moves) / (spread / math.sqrt(len(moves)))
        assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), len(moves) - 1), rel=1e-4)
        reach = stats.t.ppf(0.975, len(moves) - 1) * spread / math.sqrt(len(moves))
        assert found.high == pytest.approx(fmean(moves) + reach, rel=1e-4, abs=1e-4 * spread)
    elif spread < 1e-15 * scale:
        assert found.p_value is None
        assert found.reason


def test_several_rows_of_one_id_are_averaged_first() -> None:
    base = [*right("-"), *right("+"), *right("+"), {"id": "t01", "correct": False}]
    candidate = [*right("+-"), {"id": "t01", "correct": False}]
    found = the_only(cal.compare(base, candidate))
    # Task 0: 2/3 → 1, task 1: 0 → 0. Were rows counted, it would be 2/4 → 1/3.
    assert (found.base, found.candidate) == pytest.approx((1 / 3, 1 / 2))
    assert found.difference == pytest.approx(1 / 6)
    assert (found.wins, found.losses, found.ties) == (1, 0, 1)
    assert found.test == "paired t, permuted runs", "an average is neither right nor wrong"


@pytest.mark.parametrize(
    ("name", "wins"), [("accuracy", 3), ("error_rate", 3), ("usr", 3), ("latency_mean_ms", 1)]
)
def test_a_win_is_better_in_the_direction_of_the_metric(name: str, wins: int) -> None:
    base = [{**row, "latency_ms": 10.0} for row in right("----+")]
    candidate = [{**row, "latency_ms": 12.0} for row in right("+++--")]
    candidate[4]["latency_ms"] = 3.0
    found = the_only(cal.compare(base, candidate), name)
    assert found.wins == wins
    assert found.difference == pytest.approx(
        {"accuracy": 0.4, "latency_mean_ms": 0.2}.get(name, -0.4)
    )


def test_yes_or_no_is_what_the_metric_declares_not_what_the_values_happen_to_be() -> None:
    """Entropies of 0 throughout are no shares: there is nothing to put an interval of shares around."""
    rows = [{"id": task, "answer": "7"} for task in "aabbcc"]
    found = cal.compare(rows, rows).pairs[0].metrics
    for name in ("answer_entropy", "determinism_index"):
        assert found[name].test == "paired t"
    unbounded, bounded = found["answer_entropy"], found["determinism_index"]
    assert (unbounded.low, unbounded.p_value) == (None, None)
    assert unbounded.reason == "nothing varies, so the role of chance is unknown"
    assert bounded.p_value == 1
    assert bounded.low == pytest.approx(-(bounded.high or 0))


def test_the_smallest_difference_that_could_be_seen() -> None:
    found = the_only(cal.compare(logs(60, 5), logs(60, 6)), "brier")
    assert found.stderr is not None
    sure = stats.norm.ppf(0.975)
    wanted = (sure + stats.norm.ppf(0.8)) * found.stderr * math.sqrt(60 / (60 - sure**2 / 2))
    assert found.detectable == pytest.approx(wanted)


def test_confidence_is_that_of_the_interval() -> None:
    wide, narrow = (
        the_only(cal.compare(logs(50, 1), logs(50, 2), metrics=["accuracy"], confidence=level))
        for level in (0.99, 0.5)
    )
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low
    assert wide.p_value == narrow.p_value


GSM8K = FOLDER / "reasoning" / "gsm8k_openai_2models.jsonl"


@needs_shared_data
def test_two_models_on_the_same_questions() -> None:
    asked = ("--between", "model", "--map", "correct=source_correct", "--metric", "accuracy")
    found = strict(run(GSM8K, *asked, "--format", "json").stdout)
    rows = [json.loads(line) for line in GSM8K.read_text(encoding="utf-8").split("\n")[:-1]]
    right_of = {(row["model"], row["id"]): row["source_correct"] for row in rows}
    ids = sorted({row["id"] for row in rows})
    base, other = found["base"], found["candidate"]
    moves = [right_of[other, task] - right_of[base, task] for task in ids]
    accuracy = found["metrics"]["accuracy"]
    assert accuracy["n_pairs"] == found["n_pairs"] == len(ids) == 1319
    assert accuracy["difference"] == pytest.approx(fmean(moves))
    assert (accuracy["wins"], accuracy["losses"]) == (moves.count(1), moves.count(-1))
    exact = stats.binomtest(moves.count(1), moves.count(1) + moves.count(-1)).pvalue
    assert accuracy["p_value"] == pytest.approx(exact)
    assert found["flips"] == {"lost": moves.count(-1), "won": moves.count(1)}


def test_a_candidate_that_never_answers_is_worse() -> None:
    base = [{"id": str(n), "target": "4", "answer": "4"} for n in range(8)]
    silent = [{**record, "answer": None} for record in base]
    found = cal.compare(base, silent).pairs[0].metrics["accuracy"]
    assert (found.base, found.candidate, found.losses) == (1.0, 0.0, 8)


def test_rows_and_tasks_weigh_differently_and_the_output_says_so() -> None:
    base = [*right("+-+-+"), *[{"id": "t01", "correct": False}] * 5]
    candidate = [*right("++++-"), *[{"id": "t01", "correct": True}] * 5]
    by_task, by_row = (the_only(cal.compare(base, candidate, weight=each)) for each in TWO_WEIGHTS)
    scored = [
        cal.score(side).groups[0].metrics["accuracy"].value or 0.0 for side in (base, candidate)
    ]
    assert (by_row.base, by_row.candidate) == pytest.approx(scored)
    assert by_row.difference == pytest.approx(scored[1] - scored[0])
    assert (by_task.base, by_task.candidate) == pytest.approx((0.6, 0.8))
    assert by_task.weights is not None
    assert by_task.weights.by_row == pytest.approx(scored)
    assert (by_task.wins, by_task.losses) == (by_row.wins, by_row.losses)
    shown = str(cal.compare(base, candidate))
    assert "every task counts the same here; every row as in `score`: 30 % and 90 %" in shown
    assert "--weight row" in shown


def test_a_margin_asks_whether_the_candidate_is_not_worse() -> None:
    base, candidate = right("+" * 195 + "-" * 5), right("+" * 193 + "-" * 7)
    strict = the_only(cal.compare(base, candidate, margin=0.001)).to_dict()
    assert (strict["noninferior"], strict["equivalent"]) == ("undecided", "undecided")
    loose = the_only(cal.compare(base, candidate, margin="10%")).to_dict()
    assert (loose["margin"], loose["noninferior"], loose["equivalent"]) == (0.1, "yes", "yes")
    broken = cal.compare(base, right("-" * 200), margin=0.1)
    held = the_only(broken).to_dict()
    assert (held["noninferior"], held["equivalent"]) == ("no", "no")
    better_when_lower = the_only(broken, "error_rate").to_dict()
    assert (better_when_lower["noninferior"], better_when_lower["equivalent"]) == ("no", "no")
    assert "worse by more than 10 points" in str(broken)
    assert "margin" not in the_only(cal.compare(base, candidate)).to_dict()


def test_fixed_tasks_take_only_the_noise_of_runs() -> None:
    base, candidate = logs(40, 1, runs=4), logs(40, 2, runs=4)
    fixed = the_only(cal.compare(base, candidate, tasks="fixed"))
    assert (fixed.test, fixed.interval) == ("t over runs", "t over runs")
    assert fixed.low is not None
    once = the_only(cal.compare(logs(40, 1), logs(40, 2), tasks="fixed"))
    assert (once.low, once.reason) == (
        None,
        "no task has more than one run on a side, so how far runs vary is unknown",
    )
