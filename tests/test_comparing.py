"""Comparisons: against plain Python and scipy, from the command line and in a notebook."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

import calipers as cal
from calipers.cli import app
from calipers.comparisons import Compared, MetricComparison
from calipers.metrics import catalogue
from calipers.reporting.comparison import comparison_csv, comparison_markdown, comparison_text
from tests.conformance.reference import REFERENCES, Options
from tests.conformance.strategies import data_sets
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

Record = dict[str, Any]

WITHOUT_A_VALUE_PER_TASK = tuple(name for name in REFERENCES if catalogue()[name].averaged is None)
SHARES = {
    *("accuracy", "usr", "error_rate", "self_correction_rate"),
    *("mode_accuracy", "stability"),
}


def run(*args: object) -> Result:
    result = CliRunner().invoke(app, ["compare", *(str(arg) for arg in args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def refused(*args: object, code: int = 2) -> str:
    """What is said of a mistake; nothing may be on stdout."""
    result = run(*args)
    assert result.exit_code == code
    assert result.stdout == ""
    return result.stderr


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""

    def no_constants(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=no_constants)


def right(pattern: str, **more: Any) -> list[Record]:
    """A task per character: + was right, - was wrong."""
    return [
        {"id": f"t{place:02}", "correct": sign == "+", **more} for place, sign in enumerate(pattern)
    ]


def logs(tasks: int, seed: int, *, skill: float = 0.6, runs: int = 1) -> list[Record]:
    """Runs that look like those of a model."""
    chance = random.Random(seed)
    return [
        {
            "id": f"t{task:03}",
            "run": number + 1,
            "site": f"s{task % 7}",
            "target": "7",
            "answer": "7" if chance.random() < skill else chance.choice("12345"),
            "prob_correct": round(chance.random(), 3),
            "latency_ms": round(chance.expovariate(1 / 100), 3),
            "completion_tokens": chance.randrange(50, 100),
        }
        for task in range(tasks)
        for number in range(runs)
    ]


def the_only(found: Compared, name: str = "accuracy") -> MetricComparison:
    (pair,) = found.pairs
    return pair.metrics[name]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write_lines(tmp_path / "base.jsonl", logs(40, 1)),
        write_lines(tmp_path / "candidate.jsonl", logs(42, 2, skill=0.8)[2:]),
    )


# --- the contract ---

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
        assert (metric["p_value"] is None) == (metric["reason"] is not None), name
    assert found["metrics"]["accuracy"]["n_pairs"] == 38


def test_the_same_bytes_for_the_same_seed(files: tuple[Path, Path]) -> None:
    texts = [run(*files, "--format", "json", "--seed", seed).stdout for seed in (3, 3, 4)]
    assert texts[0] == texts[1]
    assert cal.compare(*files, seed=3).to_json() + "\n" == texts[0]
    first, other = (strict(text)["metrics"] for text in texts[1:])
    for name in first:
        same = "p_value" if name in WITHOUT_A_VALUE_PER_TASK else "permutation_p"
        drawn = {"seed", "low", "high", "stderr", "p_value", "permutation_p", "p_holm"}
        for key in set(first[name]) - drawn:
            assert first[name][key] == other[name][key]
        assert first[name][same] != other[name][same] or first[name][same] in (None, 1.0), name


def test_python_gives_what_the_command_gives(files: tuple[Path, Path]) -> None:
    by_hand = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    ours = cal.compare(*by_hand).to_dict()
    theirs = cal.compare(*(pl.DataFrame(rows) for rows in by_hand)).to_dict()
    of_files = strict(run(*files, "--format", "json").stdout)
    for found in (ours, theirs, of_files):
        del found["base"], found["candidate"]
    assert ours == theirs == of_files


# --- numbers against plain Python ---


@st.composite
def two_runs(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    """Two lists of records; few ids, some repeated, some on one side only, one on both."""
    sides = []
    for ids in ("abcd", "bcde"):
        [rows] = draw(data_sets(groups=1, rows=10))
        known = [{"id": "c", "answer": "7", "target": "7"}]
        sides.append(known + [{**row, "id": draw(st.sampled_from(ids))} for row in rows])
    return sides[0], sides[1]


slowly = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def by_id(rows: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row)
    return found


def paired_values(name: str, base: list[Record], candidate: list[Record]) -> list[tuple[Any, Any]]:
    """The metric over each task's rows by itself, of the tasks that have it on both sides."""
    ours, theirs = by_id(base), by_id(candidate)
    both = [
        tuple(REFERENCES[name](rows[task], Options()).value for rows in (ours, theirs))
        for task in sorted(ours.keys() & theirs.keys())
    ]
    return [(before, after) for before, after in both if None not in (before, after)]


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
        assert (found.test, found.interval) == ("exact McNemar", "Tango score")
        changed = higher + lower
        exact = stats.binomtest(higher, changed, 0.5).pvalue if changed else 1.0
        assert found.p_value == pytest.approx(exact)
        return
    assert (found.test, found.interval) == ("paired t", "t")
    spread = stdev(moves) if len(moves) > 1 else 0.0
    if spread > 1e-6 * scale:
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
    assert found.test == "paired t", "an average of runs is neither right nor wrong"


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
    """Entropies of 0 throughout are no shares: there is nothing to put Tango's interval around."""
    rows = [{"id": task, "answer": "7"} for task in "aabbcc"]
    found = cal.compare(rows, rows).pairs[0].metrics
    for name in ("answer_entropy", "determinism_index"):
        assert found[name].test == "paired t"
        assert (found[name].low, found[name].p_value) == (None, None)
        assert found[name].reason == "nothing varies, so the role of chance is unknown"


def test_the_smallest_difference_that_could_be_seen() -> None:
    found = the_only(cal.compare(logs(60, 5), logs(60, 6)), "brier")
    assert found.stderr is not None
    sure = stats.norm.ppf(0.975)
    wanted = (sure + stats.norm.ppf(0.8)) * found.stderr * math.sqrt(60 / (60 - sure**2 / 2))
    assert found.detectable == pytest.approx(wanted)


def test_confidence_is_that_of_the_interval() -> None:
    wide, narrow = (
        the_only(cal.compare(logs(50, 1), logs(50, 2), confidence=level)) for level in (0.99, 0.5)
    )
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low
    assert wide.p_value == narrow.p_value


# --- metrics without a value per task ---


@slowly
@given(sides=two_runs())
def test_values_of_metrics_without_a_value_per_task(
    sides: tuple[list[Record], list[Record]],
) -> None:
    """The reference over all rows of the tasks that have the value on both sides."""
    (found,) = cal.compare(*sides, metrics=WITHOUT_A_VALUE_PER_TASK, resamples=1).pairs
    ours, theirs = by_id(sides[0]), by_id(sides[1])
    for name in WITHOUT_A_VALUE_PER_TASK:
        counts = REFERENCES["ece" if name == "auroc" else name]  # auroc needs two rows to be
        used = [
            task
            for task in ours.keys() & theirs.keys()
            if all(counts(side[task], Options()).n for side in (ours, theirs))
        ]
        metric = found.metrics[name]
        assert metric.n_pairs == len(used)
        before, after = (
            REFERENCES[name]([row for task in used for row in side[task]], Options()).value
            for side in (ours, theirs)
        )
        if before is None or after is None:
            assert metric.difference is None
            assert metric.reason
            continue
        assert (metric.base, metric.candidate) == pytest.approx((before, after), abs=1e-12)
        assert metric.difference == pytest.approx(after - before, rel=1e-6, abs=1e-9 * abs(after))
        assert (metric.low is None) == (metric.p_value is None) == (metric.reason is not None)


def test_the_value_is_that_of_score_on_the_common_tasks() -> None:
    base, candidate = logs(50, 1, runs=2), logs(60, 2)[10:]
    (found,) = cal.compare(base, candidate).pairs
    for name in WITHOUT_A_VALUE_PER_TASK:
        metric = found.metrics[name]
        assert metric.interval == "paired bootstrap"
        assert metric.test == "permutation of sides per task"
        for rows, value in ((base[20:], metric.base), (candidate[:-10], metric.candidate)):
            scored = cal.score(rows, metrics=[name]).groups[0].metrics[name].value
            assert value == pytest.approx(scored)


@pytest.mark.parametrize("name", WITHOUT_A_VALUE_PER_TASK)
def test_chance_is_not_a_difference_and_a_difference_not_chance(name: str) -> None:
    base, same = logs(150, 1), logs(150, 2)
    other = [
        {
            **row,
            "answer": "7" if row["answer"] in "71234" else "5",
            "prob_correct": 0.9 if row["answer"] == "5" else 0.1,
            "latency_ms": 3 * row["latency_ms"],
        }
        for row in same
    ]
    null = the_only(cal.compare(base, same, metrics=[name]), name)
    assert null.p_value is not None
    assert null.p_value > 0.05
    assert null.low is not None
    assert null.high is not None
    assert null.low < 0 < null.high
    found = the_only(cal.compare(base, other, metrics=[name]), name)
    assert found.p_value is not None
    assert found.p_value < 0.02
    assert found.low is not None
    assert found.high is not None
    assert found.low > 0 or found.high < 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["ece", "sce", "auroc", "latency_p95_ms"])
def test_without_a_difference_the_test_errs_as_often_as_it_says(name: str) -> None:
    """And the interval around no difference holds it about as often as it says."""
    pairs = 400
    found = [
        the_only(
            cal.compare(logs(60, 2 * seed), logs(60, 2 * seed + 1), metrics=[name], resamples=1),
            name,
        )
        for seed in range(pairs)
    ]
    for level in (0.05, 0.2, 0.5):
        share = fmean(each.p_value is not None and each.p_value <= level for each in found)
        assert share <= level + 4 * math.sqrt(level * (1 - level) / pairs)
    bounds = [(each.low, each.high) for each in found]
    covered = fmean(
        low is not None and high is not None and low <= 0 <= high for low, high in bounds
    )
    assert 0.93 <= covered <= 0.99


def test_runs_that_are_the_same_differ_in_nothing() -> None:
    rows = logs(30, 3)
    for name, metric in cal.compare(rows, rows).pairs[0].metrics.items():
        if metric.difference is not None:
            assert metric.difference == 0.0, name
            assert metric.p_value in (None, 1.0), name
    ece = the_only(cal.compare(rows, rows, metrics=["ece"]), "ece")
    assert (ece.p_value, ece.low, ece.reason) == (None, None, "no resample differs")


def test_latencies_of_one_side_only_are_in_no_pair() -> None:
    base, candidate = logs(40, 1), logs(40, 2)
    for row in candidate[:10]:
        del row["latency_ms"]
    base[0]["latency_ms"] = 1e6  # would be the p95's neighbour, were it counted
    found = the_only(cal.compare(base, candidate, metrics=["latency_p95_ms"]), "latency_p95_ms")
    assert found.n_pairs == 30
    scored = cal.score(base[10:], metrics=["latency_p95_ms"]).groups[0].metrics["latency_p95_ms"]
    assert found.base == scored.value


# --- groups and clusters ---


def test_groups_are_compared_each_by_itself(tmp_path: Path) -> None:
    base = [*right("++--", level="1"), *right("+-", level="2"), *right("+++", level="old")]
    candidate = [*right("++++", level="1"), *right("--", level="2"), *right("-", level=None)]
    paths = [
        write_lines(tmp_path / f"{number}.jsonl", rows)
        for number, rows in enumerate((base, candidate))
    ]
    found = strict(run(*paths, "--by", "level", "--format", "json").stdout)
    assert (found["n_pairs"], found["only_base"], found["only_candidate"]) == (6, 3, 1)
    assert [group["by"] for group in found["groups"]] == [{"level": "1"}, {"level": "2"}]
    one, two = found["groups"]
    assert (one["n_pairs"], one["only_base"], one["only_candidate"]) == (4, 0, 0)
    assert one["metrics"]["accuracy"]["difference"] == 0.5
    assert two["metrics"]["accuracy"]["difference"] == -0.5
    assert found["metrics"]["accuracy"]["difference"] == pytest.approx(1 / 6)


def test_groups_are_in_the_order_of_their_numbers() -> None:
    rows = [row for level in (10, 9, 100) for row in right("+-", level=level)]
    (pair,) = cal.compare(rows, rows, by="level").pairs
    assert [group.by for group in pair.groups] == [{"level": 9}, {"level": 10}, {"level": 100}]


def test_a_group_on_both_sides_without_a_common_task() -> None:
    base = [*right("++-", level="a"), {"id": "x", "correct": True, "answer": "1", "level": "b"}]
    other = [*right("+--", level="a"), {"id": "y", "correct": True, "answer": "1", "level": "b"}]
    (pair,) = cal.compare(base, other, by="level").pairs
    alone = pair.groups[1]
    assert (alone.n_pairs, alone.only_base, alone.only_candidate) == (0, ("x",), ("y",))
    assert {metric.reason for metric in alone.metrics.values()} == {"no pair has the value"}


def test_clusters_are_the_units() -> None:
    base, candidate = logs(70, 1), logs(70, 2, skill=0.8)
    found = the_only(cal.compare(base, candidate, cluster="site"))
    assert (found.test, found.interval) == ("clustered paired t", "t")
    moves = [
        (b["answer"] == "7") - (a["answer"] == "7") for a, b in zip(base, candidate, strict=True)
    ]
    mean = fmean(moves)
    totals = [sum(move - mean for move in moves[site::7]) for site in range(7)]
    stderr = math.sqrt(7 / 6 * sum(total**2 for total in totals)) / 70
    assert found.stderr == pytest.approx(stderr)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(mean) / stderr, 6))
    flips = [
        abs(sum(s * sum(moves[site::7]) for site, s in enumerate(signs)))
        for signs in product((1, -1), repeat=7)
    ]
    assert found.permutation_p == pytest.approx(fmean(each >= abs(sum(moves)) for each in flips))


def test_clusters_of_a_metric_without_a_value_per_task() -> None:
    base, candidate = logs(70, 1), logs(70, 2)
    alone = the_only(cal.compare(base, candidate, metrics=["sce"]), "sce")
    found = the_only(cal.compare(base, candidate, metrics=["sce"], cluster="site"), "sce")
    assert (found.base, found.difference, found.n_pairs) == (alone.base, alone.difference, 70)
    assert found.low != alone.low
    # 7 sites can be swapped in 128 ways, each as likely as its mirror image.
    assert found.p_value is not None
    assert found.p_value > 1 / 128


def test_a_cluster_that_only_the_candidate_knows() -> None:
    base, candidate = logs(28, 1), logs(28, 2)
    known = the_only(cal.compare(base, candidate, cluster="site"))
    for row in base:
        del row["site"]
    found = the_only(cal.compare(base, candidate, cluster="site"))
    assert found.test == "clustered paired t"
    assert (found.stderr, found.p_value) == (known.stderr, known.p_value)


# --- many tests at once ---


def test_holm_counts_distinct_tests() -> None:
    base = [{**row, "latency_ms": 100.0 + n} for n, row in enumerate(right("-" * 12 + "+" * 8))]
    other = [{**row, "latency_ms": 99.0 + 2 * n} for n, row in enumerate(right("+" * 12 + "-" * 8))]
    found = cal.compare(base, other).pairs[0].metrics
    tests = {
        "accuracy": found["accuracy"],
        "mean": found["latency_mean_ms"],
        "p95": found["latency_p95_ms"],
    }
    ordered = sorted(each.p_value or 0 for each in tests.values())
    running, expected = 0.0, {}
    for rank, p in enumerate(ordered):
        running = max(running, min(1.0, (3 - rank) * p))
        expected[p] = running
    for each in tests.values():
        assert each.p_holm == expected[each.p_value or 0]
    for name in ("usr", "error_rate"):
        assert found[name].p_holm == found["accuracy"].p_holm


def test_holm_counts_all_pairs() -> None:
    sides = [right("+" * n + "-" * (20 - n)) for n in (4, 9, 16)]
    found = cal.compare(*sides, metrics=["accuracy", "error_rate"]).pairs
    ps = [pair.metrics["accuracy"].p_value or 0 for pair in found]
    assert min(pair.metrics["accuracy"].p_holm or 0 for pair in found) == 3 * min(ps)
    assert [(pair.base, pair.candidate) for pair in found] == [("<records>", "<records>")] * 3


def test_a_metric_without_a_test_is_none_of_the_tests() -> None:
    base = [{**row, "latency_ms": 5.0} for row in right("++--")]
    other = [{**row, "latency_ms": 5.0} for row in right("+-++")]
    found = cal.compare(base, other, metrics=["accuracy", "latency_mean_ms"]).pairs[0].metrics
    assert found["latency_mean_ms"].p_holm is None
    assert found["accuracy"].p_holm == found["accuracy"].p_value


def test_three_files_are_all_pairs(tmp_path: Path) -> None:
    paths = [
        write_lines(tmp_path / f"{name}.jsonl", right(name)) for name in ("++--", "+++-", "++++")
    ]
    found = strict(run(*paths, "--format", "json").stdout)
    assert "metrics" not in found
    assert [(pair["base"], pair["candidate"]) for pair in found["pairs"]] == [
        (str(paths[0]), str(paths[1])),
        (str(paths[0]), str(paths[2])),
        (str(paths[1]), str(paths[2])),
    ]
    assert [pair["metrics"]["accuracy"]["difference"] for pair in found["pairs"]] == [
        0.25,
        0.5,
        0.25,
    ]
    assert "flips" not in found
    table = run(*paths).stdout
    assert table.count("4 tasks in both") == 3


# --- parts of one file ---


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (("b", "a", "c"), ["a", "b", "c"]),
        ((10, 9, 100), ["9", "10", "100"]),
        ((1.5, 0.25, 1e6), ["0.25", "1.5", "1000000"]),
        ((True, False), ["false", "true"]),
        ((10, "a", True), ["10", "a", "true"]),
        (([1], ["x"]), ['["x"]', "[1]"]),
    ],
    ids=str,
)
def test_between_the_values_of_a_field(values: Sequence[Any], names: list[str]) -> None:
    rows = [row for value in values for row in right("+-+", part=value)]
    rows += right("+--", part=None)
    found = cal.compare(rows, between="part")
    sides = dict.fromkeys(name for pair in found.pairs for name in (pair.base, pair.candidate))
    assert list(sides) == names
    assert all(pair.metrics["accuracy"].difference == 0 for pair in found.pairs)
    assert found.notices == ("3 records without part are left out",)


@pytest.mark.parametrize("field", ["run", "model", "answer", "id", "latency_ms", "correct", "site"])
def test_between_any_field_there_is(field: str, tmp_path: Path) -> None:
    rows = [
        {**row, "model": model, "correct": True} for model in "ab" for row in logs(3, 1, runs=2)
    ]
    path = write_lines(tmp_path / "a.jsonl", rows)
    result = run(path, "--between", field)
    assert result.exit_code in ((0,) if field in ("run", "model") else (0, 2))
    assert "bug" not in result.stderr


def test_between_models_reads_what_two_files_would_say() -> None:
    base, other = logs(30, 1), logs(30, 2)
    apart = cal.compare(base, other).to_dict()
    rows = [
        {**row, "model": model} for model, side in (("m1", base), ("m2", other)) for row in side
    ]
    within = cal.compare(rows, between="model").to_dict()
    assert (within["base"], within["candidate"]) == ("m1", "m2")
    assert within["metrics"] == apart["metrics"]


# --- independent samples ---


def test_unpaired_shares() -> None:
    base = [{"id": f"a{n}", "correct": n < 12} for n in range(40)]
    other = [{"id": f"b{n}", "correct": n < 30} for n in range(50)]
    found = cal.compare(base, other, unpaired=True)
    accuracy = the_only(found)
    assert not found.paired
    assert (accuracy.test, accuracy.interval) == ("Fisher's exact", "Newcombe")
    assert accuracy.p_value == pytest.approx(
        stats.fisher_exact(np.array([[30, 12], [20, 28]])).pvalue
    )
    before, after = (
        stats.binomtest(hits, n).proportion_ci(method="wilson") for hits, n in ((12, 40), (30, 50))
    )
    assert accuracy.difference == pytest.approx(0.3)
    assert accuracy.low == pytest.approx(0.3 - math.hypot(0.6 - after.low, before.high - 0.3))
    assert accuracy.high == pytest.approx(0.3 + math.hypot(after.high - 0.6, 0.3 - before.low))
    assert (accuracy.n_base, accuracy.n_candidate) == (40, 50)
    assert (accuracy.wins, accuracy.n_pairs) == (None, None)
    assert accuracy.effect == pytest.approx(2 * (math.asin(0.6**0.5) - math.asin(0.3**0.5)))
    assert found.flips == {}


def test_unpaired_numbers() -> None:
    base, other = logs(30, 1), [{**row, "id": f"x{row['id']}"} for row in logs(35, 2)]
    found = the_only(cal.compare(base, other, unpaired=True), "latency_mean_ms")
    ours, theirs = ([row["latency_ms"] for row in rows] for rows in (base, other))
    expected = stats.mannwhitneyu(theirs, ours, method="asymptotic")
    assert found.test == "Mann–Whitney (asymptotic)"
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.effect_name == "Cliff's delta"
    assert found.effect == pytest.approx(2 * expected.statistic / (30 * 35) - 1)
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low < (found.effect or 0) < found.effect_high
    welch = stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))
    without = the_only(cal.compare(base, other, unpaired=True), "ece")
    assert without.reason == "no value per task: its intervals are in calipers score"


def test_unpaired_runs_of_a_task_are_averaged_first() -> None:
    base = [*right("+-+-"), *right("++--")]
    found = the_only(cal.compare(base, right("+++++"), unpaired=True))
    assert (found.n_base, found.n_candidate) == (4, 5)
    assert found.base == 0.5
    assert found.test.startswith("Mann–Whitney") if found.test else False


def test_three_samples_at_once() -> None:
    samples = ([1.0, 2, 3, 9], [2.5, 4, 6], [7.0, 8, 12, 11, 10])
    sides = [
        [{"id": f"{number}-{n}", "latency_ms": value} for n, value in enumerate(values)]
        for number, values in enumerate(samples)
    ]
    found = cal.compare(*sides, unpaired=True)
    across = found.across["latency_mean_ms"]
    expected = stats.kruskal(*samples)
    assert (across.h, across.p_value) == pytest.approx(tuple(expected))
    assert across.epsilon_squared == pytest.approx(expected.statistic / 11)
    assert "latency_p95_ms" not in found.across
    assert strict(found.to_json())["across"]["latency_mean_ms"]["n"] == 12
    assert "Kruskal-Wallis" in str(found)
    assert "Kruskal-Wallis" in comparison_markdown(found)
    assert "Kruskal-Wallis" in found._repr_html_()


def test_unpaired_groups() -> None:
    base = [*right("++--", part="a"), *right("++", part="b")]
    other = [*right("+---", part="a"), *right("--", part="b"), *right("+", part="c")]
    (pair,) = cal.compare(base, other, by="part", unpaired=True).pairs
    assert [group.by for group in pair.groups] == [{"part": "a"}, {"part": "b"}]
    assert [group.metrics["accuracy"].difference for group in pair.groups] == [-0.25, -1.0]
    assert pair.metrics["accuracy"].n_candidate == 7


def test_unpaired_records_need_no_id() -> None:
    base, other = (
        [
            {"correct": row["correct"], "latency_ms": float(n)}
            for n, row in enumerate(right(pattern))
        ]
        for pattern in ("++--", "+++-+")
    )
    found = cal.compare(base, other, unpaired=True).pairs[0].metrics
    assert (found["accuracy"].n_base, found["accuracy"].n_candidate) == (4, 5)
    assert found["accuracy"].test == "Fisher's exact"
    assert found["latency_mean_ms"].base == 1.5
    with pytest.raises(cal.DataError, match="1 of 5 records have no id"):
        cal.compare([*right("++++"), {"correct": True}], other, unpaired=True)


def test_unpaired_clusters() -> None:
    base, other = logs(28, 1), [{**row, "id": f"x{row['id']}"} for row in logs(28, 2)]
    found = the_only(cal.compare(base, other, unpaired=True, cluster="site"))
    assert found.test == "Mann–Whitney (asymptotic) of cluster means"
    assert found.effect_name == "Cliff's delta of cluster means"


# --- flips ---


def answered(answers: Mapping[str, str], **more: Any) -> list[Record]:
    return [
        {"id": task, "target": "7", "answer": answer, **more} for task, answer in answers.items()
    ]


def test_flips_are_written(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", answered({"a": "7", "b": "8", "c": "7", "d": "1"}))
    other = write_lines(
        tmp_path / "b.jsonl", answered({"d": "2", "c": "7.0", "b": "7", "a": "\u20ac"})
    )
    out = tmp_path / "flips.jsonl"
    result = run(base, other, "--flips", out, "--format", "json")
    assert strict(result.stdout)["flips"] == {"lost": 1, "won": 1}
    lines = out.read_text(encoding="utf-8").splitlines()
    assert [strict(line) for line in lines] == [
        {
            "id": "a",
            "run": None,
            "flip": "base right, candidate wrong",
            "target": "7",
            "base": "7",
            "candidate": "\u20ac",
        },
        {
            "id": "b",
            "run": None,
            "flip": "base wrong, candidate right",
            "target": "7",
            "base": "8",
            "candidate": "7",
        },
    ]
    assert "flips: 1 became wrong, 1 became right" in run(base, other).stdout


def test_flips_are_paired_by_run_where_both_have_it() -> None:
    first = [*answered({"a": "7", "b": "8"}, run=1), *answered({"a": "8", "b": "8"}, run=2)]
    turned = [*answered({"a": "8", "b": "8"}, run=2), *answered({"a": "7", "b": "8"}, run=1)]
    assert cal.compare(first, turned).flips == {"lost": 0, "won": 0}
    without = [{name: value for name, value in row.items() if name != "run"} for row in turned]
    assert cal.compare(first, without).flips == {"lost": 1, "won": 1}, "in their order"
    fewer = cal.compare(first, turned[:1]).flips
    assert fewer == {"lost": 0, "won": 0}


def test_runs_are_the_same_in_every_file_format(tmp_path: Path) -> None:
    base = [*answered({"a": "7", "b": "7"}, run=1), *answered({"a": "8", "b": "7"}, run=2)]
    other = [*answered({"a": "7", "b": "8"}, run=2), *answered({"a": "7", "b": "7"}, run=1)]
    table = tmp_path / "b.csv"
    pl.DataFrame(other).write_csv(table)
    for candidate in (other, pl.DataFrame(other), table):
        out = tmp_path / "flips.jsonl"
        assert cal.compare(base, candidate, flips=out).flips == {"lost": 1, "won": 1}
        lines = [strict(line) for line in out.read_text().splitlines()]
        assert [(line["id"], line["run"]) for line in lines] == [("a", 2), ("b", 2)]


def test_a_run_that_is_there_twice_is_paired_once() -> None:
    """Two models in a file: n rows of a run on both sides are n pairs, not n²."""
    base = [row for _ in range(3) for row in answered({"a": "7"}, run=1)]
    other = [row for _ in range(3) for row in answered({"a": "8"}, run=1)]
    assert cal.compare(base, other).flips == {"lost": 3, "won": 0}


def test_flips_within_groups_are_written_in_the_same_order(tmp_path: Path) -> None:
    base = [{**row, "part": part} for part in "abcdef" for row in answered({"1": "7", "2": "7"})]
    other = [{**row, "part": part} for part in "fedcba" for row in answered({"2": part, "1": part})]
    texts = []
    for number in range(3):
        out = tmp_path / f"{number}.jsonl"
        found = cal.compare(base, other[number:] + other[:number], by="part", flips=out)
        assert found.flips == {"lost": 12, "won": 0}
        texts.append(out.read_text())
    assert texts[0] == texts[1] == texts[2]


def test_failed_calls_and_undecided_answers_flip_nothing() -> None:
    base = [*answered({"a": "7", "b": "7"}), {"id": "c", "answer": "7"}]
    other = [
        *answered({"a": "8"}),
        *answered({"b": "8"}, error="timeout: 60 s"),
        *answered({"c": "8"}),
    ]
    assert cal.compare(base, other).flips == {"lost": 1, "won": 0}


def test_flips_need_right_and_wrong(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", [{"id": "1", "latency_ms": 5, "cot": "sorry"}])
    told = refused(base, base, "--flips", tmp_path / "flips.jsonl")
    assert told == "error: --flips needs a metric of right or wrong\n  --metric accuracy\n"
    assert not (tmp_path / "flips.jsonl").exists()
    found = cal.compare(base, base, metrics=["self_correction_rate"])
    assert found.flips == {}, "a chain of thought that corrects itself is not wrong"


# --- why the number moved ---


def parts_sum(found: MetricComparison) -> None:
    parts = found.attribution
    assert parts is not None
    assert parts.total == parts.candidate - parts.base
    whole = parts.model + (parts.scorer or 0) + parts.tasks_removed + parts.tasks_added
    assert whole == pytest.approx(parts.total, abs=1e-12)


def test_a_new_scorer_shows_as_the_scorer() -> None:
    answers = {f"t{n}": "7" if n < 4 else "seven" for n in range(10)}
    base = answered(answers)
    candidate = [{**row, "correct": True} for row in answered(answers)]  # "seven" is 7 to it
    found = the_only(cal.compare(base, candidate, attribute=True))
    assert found.difference == pytest.approx(0.6)
    parts = found.attribution
    assert parts is not None
    assert (parts.base, parts.candidate) == (0.4, 1.0)
    assert (parts.model, parts.scorer) == pytest.approx((0.0, 0.6))
    assert (parts.tasks_removed, parts.tasks_added, parts.reason) == (0.0, 0.0, None)
    parts_sum(found)


def test_a_new_model_shows_as_the_model() -> None:
    base = answered({f"t{n}": "7" if n < 4 else "8" for n in range(10)})
    candidate = answered({f"t{n}": "7" if n < 9 else "8" for n in range(10)})
    parts = the_only(cal.compare(base, candidate, attribute=True)).attribution
    assert parts is not None
    assert (parts.model, parts.scorer) == pytest.approx((0.5, 0.0))


def test_tasks_removed_and_added() -> None:
    base = answered({**dict.fromkeys("abcd", "7"), "e": "8", "f": "8"})
    candidate = answered({**dict.fromkeys("abcd", "7"), "g": "8"})
    found = the_only(cal.compare(base, candidate, attribute=True))
    assert found.difference == 0.0, "over the pairs nothing changed"
    parts = found.attribution
    assert parts is not None
    assert parts.total == pytest.approx(4 / 5 - 4 / 6)
    assert (parts.tasks_removed, parts.tasks_added) == pytest.approx((1 - 4 / 6, 4 / 5 - 1))
    assert (parts.model, parts.scorer) == (0.0, 0.0)
    parts_sum(found)


def test_the_base_was_compared_as_text() -> None:
    base = answered({"a": "7", "b": "7.0", "c": "7.00", "d": "8"})
    candidate = answered({"a": "7", "b": "7.0", "c": "7.00", "d": "7"})
    found = the_only(cal.compare(base, candidate, attribute=True, base_normalize="text"))
    assert found.difference == 0.25, "both sides scored alike"
    parts = found.attribution
    assert parts is not None
    assert (parts.base, parts.candidate) == (0.25, 1.0)
    assert (parts.model, parts.scorer) == pytest.approx((0.25, 0.5))
    parts_sum(found)


@pytest.mark.parametrize("field", ["answer", "target"])
def test_what_cannot_be_scored_anew(field: str) -> None:
    base = [{**row, "correct": row["id"] in "abc"} for row in answered(dict.fromkeys("abcd", "7"))]
    candidate = [{**row, "correct": True} for row in answered(dict.fromkeys("abcd", "7"))]
    if field == "target":
        del base[0]["target"]
        parts = the_only(cal.compare(base, candidate, attribute=True)).attribution
        assert parts is not None
        assert (parts.model, parts.scorer) == (0.25, None)
        assert parts.reason is not None
        assert parts.reason.startswith("not every common task can be scored anew")
    else:
        for row in (*base, *candidate):
            del row["answer"], row["target"]
        found = cal.compare(base, candidate, attribute=True)
        parts = the_only(found).attribution
        assert parts is not None
        assert (parts.model, parts.scorer) == (0.25, None)
        assert "not every common task" in str(found)
        assert strict(found.to_json())["metrics"]["accuracy"]["attribution"]["scorer"] is None
    parts_sum(the_only(cal.compare(base, candidate, attribute=True)))


@slowly
@given(sides=two_runs())
def test_the_parts_sum_to_the_whole(sides: tuple[list[Record], list[Record]]) -> None:
    for rows in sides:
        rows[0]["prob_correct"] = 0.5
    found = cal.compare(*sides, attribute=True, metrics=["accuracy", "brier", "usr"]).pairs[0]
    for name, metric in found.metrics.items():
        parts = metric.attribution
        assert parts is not None
        for rows, value in zip(sides, (parts.base, parts.candidate), strict=True):
            values = [REFERENCES[name](task, Options()).value for task in by_id(rows).values()]
            assert value == pytest.approx(fmean(value for value in values if value is not None))
        parts_sum(metric)


def test_attribution_in_every_output(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", answered({"a": "7", "b": "8"}))
    other = write_lines(tmp_path / "b.jsonl", answered({"a": "7", "b": "7", "c": "8"}))
    assert "why it moved" in run(base, other, "--attribute").stdout
    assert "why it moved" in run(base, other, "--attribute", "--format", "markdown").stdout
    assert "why it moved" in cal.compare(base, other, attribute=True)._repr_html_()
    text = run(base, other, "--attribute", "--metric", "accuracy", "--format", "csv").stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert float(row["attribution_model"]) == 0.5
    assert float(row["attribution_tasks_added"]) == pytest.approx(2 / 3 - 1)
    found = strict(run(base, other, "--attribute", "--format", "json").stdout)
    assert found["metrics"]["accuracy"]["attribution"]["total"] == pytest.approx(2 / 3 - 1 / 2)


def test_rows_that_can_be_read_once_are_kept() -> None:
    rows = answered({"a": "7", "b": "8"})
    found = the_only(cal.compare(iter(rows), iter(rows), attribute=True))
    assert found.attribution is not None


# --- what people see ---

TABLE = """
base.jsonl → candidate.jsonl
8 tasks in both, 1 only in base, 0 only in candidate

 metric       base   candidate                  difference        p     Holm   won · lost · tied
 ───────────────────────────────────────────────────────────────────────────────────────────────
 accuracy   0.3750      0.7500   +0.3750 [−0.1807, 0.7352]   0.3750   0.3750           4 · 1 · 3

  accuracy: exact McNemar; interval: Tango score
  accuracy: a difference below 0.8454 would mostly go unseen here (power 0.8)
flips: 1 became wrong, 4 became right
"""


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("base.jsonl"), right("+++-----+"))
    write_lines(Path("candidate.jsonl"), right("-++++++-"))
    result = run("base.jsonl", "candidate.jsonl", "--metric", "accuracy")
    assert (result.exit_code, result.stderr) == (0, "")
    plain = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert plain.strip() == TABLE.strip()


def test_the_table_in_a_narrow_terminal() -> None:
    found = cal.compare(logs(30, 1), logs(30, 2), attribute=True)
    for width in (60, 80):
        out = io.StringIO()
        comparison_text(found, Console(file=out, width=width))
        assert "…" not in out.getvalue(), "a figure cut short is a wrong figure"
        assert max(map(len, out.getvalue().splitlines())) <= width
        for name in ("latency_p95_ms", "sce_normalized"):
            assert name in out.getvalue()


def test_csv(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a,b.jsonl", right("++--", part='x,"y"'))
    text = run(base, base, "--by", "part", "--metric", "accuracy", "--format", "csv").stdout
    whole, group = csv.DictReader(io.StringIO(text))
    assert whole["base_name"] == str(base)
    assert (whole["by_part"], group["by_part"]) == ("", 'x,"y"')
    assert (whole["metric"], whole["p_value"], whole["reason"]) == ("accuracy", "1.0", "")


def test_csv_of_groups_of_several_types() -> None:
    rows = [*right("+-", part="a"), *right("+-", part=1), *right("+-", part=None)]
    lines = list(csv.DictReader(io.StringIO(comparison_csv(cal.compare(rows, rows, by="part")))))
    assert {line["by_part"] for line in lines} == {"", "a", "1"}


def test_output_to_a_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    for output_format in ("table", "json", "csv", "markdown"):
        out = tmp_path / output_format
        result = run(*files, "--format", output_format, "-o", out)
        assert (result.exit_code, result.output) == (0, "")
        assert "accuracy" in out.read_text(encoding="utf-8")


HOSTILE = "\x1b[31mred\x1b[0m\r\n\u202e\x07"


def test_escape_codes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    rows = [
        {
            **row,
            "model": f"{HOSTILE}{number}",
            "part": HOSTILE,
            "error": HOSTILE if row["id"] == "t00" else None,
        }
        for number in range(2)
        for row in [*right("+-"), {"id": HOSTILE, "correct": True, "answer": HOSTILE}]
    ]
    path = write_lines(tmp_path / "a.jsonl", rows)
    for output_format in ("table", "markdown"):
        shown = run(path, "--between", "model", "--by", "part", "--format", output_format)
        assert shown.exit_code == 0
        assert "\ufffd[31mred\ufffd[0m" in shown.stdout.replace("\\", "")
        assert "failed calls" in shown.stderr
        for character in "\x1b\r\x07\u202e":
            assert character not in shown.output
    told = refused(path, path, "--by", "model", "--between", HOSTILE)
    assert not set("\x1b\r\x07\u202e") & set(told)


def test_names_cannot_break_out_of_markdown_and_html() -> None:
    name = "a|`b`<script>alert('x')</script>[l](http://evil.example/)&"
    rows = [
        {**row, "model": f"{name}{number}", "part": name}
        for number in range(2)
        for row in right("+-+")
    ]
    found = cal.compare(rows, between="model", by="part")
    lines = comparison_markdown(found).splitlines()
    assert "<script" not in "\n".join(lines)
    assert lines[0].startswith(r"**a\|\`b\`&lt;script>")
    assert r"\[l\](http" in lines[0]
    widths = {line.count("|") - line.count(r"\|") for line in lines if line.startswith("| ")}
    assert len(widths) == 1
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page


def test_a_notebook_shows_every_metric() -> None:
    page = cal.compare(logs(20, 1), logs(20, 2))._repr_html_()
    for name in ("accuracy", "ece", "latency_p95_ms", "exact McNemar"):
        assert name in page


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    """The page shows what the shipped solvers give, table and all."""
    root = Path(__file__).resolve().parents[1]
    made = tmp_path / "demo.jsonl"
    script = root / "examples" / "arithmetic" / "answer_tasks.py"
    subprocess.run([sys.executable, script, "-o", made], check=True, timeout=120)
    names = ("accuracy", "mode_accuracy", "brier", "ece", "step_count_mean")
    asked = [arg for name in names for arg in ("--metric", name)]
    shown = run(made, "--between", "model", *asked).stdout
    page = (root / "docs" / "compare.md").read_text(encoding="utf-8")
    for line in shown.splitlines():
        assert line.rstrip() in page


def test_failed_calls_are_noticed(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    rows = [*right("+++"), {"id": "t03", "error": "timeout: 60 s"}]
    other = write_lines(tmp_path / "b.jsonl", rows)
    result = run(base, other, "--metric", "accuracy", "--format", "json")
    assert result.stderr == f"note: {other}: 1 failed calls are in no metric\n"
    found = strict(result.stdout)
    assert found["notices"] == [f"{other}: 1 failed calls are in no metric"]
    assert (found["n_pairs"], found["metrics"]["accuracy"]["n_pairs"]) == (4, 3)


def test_bad_rows_that_were_left_out_are_noticed(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    other = write_lines(tmp_path / "b.jsonl", [*right("+++-"), {"id": "t04", "correct": "maybe"}])
    assert "b.jsonl:5: correct: " in refused(base, other)
    result = run(base, other, "--on-bad", "skip")
    assert (result.exit_code, result.stderr) == (0, f"note: {other}: 1 bad rows were left out\n")


def test_models_that_count_as_runs_are_noticed() -> None:
    rows = [row for model in "ab" for row in right("++--", model=model)]
    (notice,) = cal.compare(rows, right("+---")).notices
    assert (
        notice
        == "<records>: up to 2 models of a task count as its runs; --by model keeps them apart"
    )
    assert cal.compare(rows, rows, by="model").notices == ()
    assert cal.compare(rows, between="model").notices == ()


# --- what is refused, and what has no answer ---


def test_no_task_in_common(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    other = write_lines(tmp_path / "b.jsonl", [{"id": "x", "correct": True}])
    assert refused(base, other) == (
        f"error: {base} and {other} have no task in common\n"
        "  tasks are paired by id: name the field with --map id=NAME, group alike, "
        "or compare them as independent samples with --unpaired\n"
    )
    assert run(base, other, "--unpaired").exit_code == 0


def test_groups_without_a_group_in_common(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--", model="a"))
    other = write_lines(tmp_path / "b.jsonl", right("++--", model="b"))
    assert "group alike" in refused(base, other, "--by", "model")


def test_records_without_an_id(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", [{"correct": True}, {"id": "1", "correct": True}])
    assert refused(base, base) == (
        f"error: {base}: 1 of 2 records have no id to pair by\n"
        "  name the field that tells tasks apart: --map id=NAME\n"
    )
    renamed = write_lines(tmp_path / "b.jsonl", [{"task": "1", "correct": True}])
    assert "1 of 1 records" in refused(renamed, renamed)
    assert run(renamed, renamed, "--map", "id=task").exit_code == 0


@pytest.mark.parametrize("options", [(), ("--between", "model"), ("--unpaired",), ("--attribute",)])
def test_an_empty_file_is_exit_code_3(options: tuple[str, ...], tmp_path: Path) -> None:
    full = write_lines(tmp_path / "a.jsonl", right("++--"))
    empty = write_lines(tmp_path / "b.jsonl", [])
    pairs = [(empty,)] if "--between" in options else [(full, empty), (empty, full)]
    for named in pairs:
        assert f"no records in {empty}" in refused(*named, *options, code=3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("A",), "one data set has nothing to be compared with\n  name a second file, or split"),
        (("A", "B", "--between", "model"), "--between splits one data set\n  name one file"),
        (("A", "--between", "site"), "--between site: all records have the same value\n  name a"),
        (
            ("A", "--between", "mdel"),
            "--between mdel: no record has a value in mdel\n  did you mean model?",
        ),
        (
            ("A", "B", "--by", "modle"),
            "--by modle: no record has a value in modle\n  did you mean model?",
        ),
        (
            ("A", "B", "--cluster", "sit"),
            "--cluster sit: no record has a value in sit\n  did you mean site?",
        ),
        (("A", "B", "--map", "answer=x"), "--map answer=x: no record has a value in x\n  known: "),
        (
            ("A", "B", "--metric", "acuracy"),
            "no metric is called acuracy\n  did you mean accuracy?",
        ),
        (
            ("A", "B", "--metric", "brier"),
            "no metric has its fields on every side\n  see: calipers",
        ),
        (("A", "B", "A", "--flips", "f"), "--flips compares two runs\n  name two files"),
        (("A", "B", "A", "--attribute"), "--attribute compares two runs\n  name two files"),
        (
            ("A", "--between", "model", "--attribute"),
            "--attribute compares two runs\n  name two files",
        ),
        (
            ("A", "B", "--unpaired", "--flips", "f"),
            "--unpaired pairs no tasks, which --flips needs\n  leave",
        ),
        (
            ("A", "B", "--unpaired", "--attribute"),
            "--unpaired pairs no tasks, which --attribute needs\n  leave",
        ),
        (
            ("A", "B", "--base-normalize", "text"),
            "--base-normalize needs --attribute\n  add --attribute",
        ),
        (("-", "-"), "standard input can be read once\n  name a file"),
        (("A", "-", "--attribute"), "standard input can be read once\n  --attribute reads each"),
        (
            ("A", "B", "--confidence", "95"),
            "--confidence 95: not between 0 and 1\n  for example 0.95",
        ),
        (("A", "B", "--seed", "-1"), "--resamples and --seed are whole numbers from 0 on"),
        (("A", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("A", "B", "-o", "nowhere/x"), "nowhere/x: No such file or directory\n  check the folder"),
        (
            ("A", "B", "--flips", "nowhere/x"),
            "nowhere/x: No such file or directory\n  check the folder",
        ),
        (("A", "B", "--flips", "."), ".: Is a directory\n  check the folder"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_mistake_in_the_command_is_one_message(
    args: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row for model in "ab" for row in right("++--", model=model, site="x")]
    write_lines(Path("A"), rows).rename("A.jsonl")
    write_lines(Path("B"), rows).rename("B.jsonl")
    named = [f"{arg}.jsonl" if arg in ("A", "B") else arg for arg in args]
    assert f"error: {message}" in refused(*named)


def test_no_file_at_all() -> None:
    assert "Missing argument 'BASE CANDIDATE…'" in refused()


def test_a_metric_named_that_one_side_lacks_says_so() -> None:
    base = [{**row, "prob_correct": 0.5} for row in right("+-+-+-+-+-")]
    other = right("++++++++--")
    found = cal.compare(base, other, metrics=["accuracy", "brier", "ece"]).pairs[0].metrics
    assert found["accuracy"].n_pairs == 10
    for name in ("brier", "ece"):
        assert found[name].difference is None
        assert (
            found[name].reason
            == "candidate: no record has prob_correct and correct, or answer and target"
        )
    assert "brier" not in cal.compare(base, other).pairs[0].metrics


@pytest.mark.parametrize("unpaired", [False, True])
def test_one_pair(unpaired: bool) -> None:  # noqa: FBT001
    (pair,) = cal.compare(logs(1, 1), logs(1, 2), unpaired=unpaired).pairs
    for name, metric in pair.metrics.items():
        if metric.difference is not None and name not in SHARES:
            assert metric.low is None
            assert metric.reason, name
    text = cal.compare(logs(1, 1), logs(1, 2), unpaired=unpaired).to_json()
    assert strict(text)["metrics"]["accuracy"]["difference"] in (-1.0, 0.0, 1.0)


def test_nothing_varies() -> None:
    base = [{**row, "latency_ms": 0.1} for row in right("++++")]
    other = [{**row, "latency_ms": 0.3} for row in right("++++")]
    found = cal.compare(base, other)
    latency, accuracy = the_only(found, "latency_mean_ms"), the_only(found)
    assert latency.difference == pytest.approx(0.2)
    assert (latency.p_value, latency.low) == (None, None)
    assert latency.reason == "nothing varies, so the role of chance is unknown"
    assert latency.permutation_p == 2 / 16
    assert (accuracy.p_value, accuracy.difference) == (1.0, 0.0)
    assert the_only(found, "latency_p95_ms").reason == "no resample differs"
    assert "nothing varies" in str(found)


@pytest.mark.parametrize("unpaired", [False, True])
def test_numbers_too_large_to_be_squared(unpaired: bool) -> None:  # noqa: FBT001
    sides = [
        [{"id": str(n // 2), "latency_ms": factor * 1e308 / (1 + n % 3)} for n in range(10)]
        for factor in (1.0, 1.7)
    ]
    found = cal.compare(*sides, unpaired=unpaired)
    strict(found.to_json())
    mean = the_only(found, "latency_mean_ms")
    assert (mean.difference, mean.reason) == (None, "values too large")
    assert str(found)
    comparison_csv(found)


def test_every_call_failed() -> None:
    rows = [{**row, "error": "timeout: 60 s"} for row in logs(5, 1)]
    (pair,) = cal.compare(rows, logs(5, 2)).pairs
    assert pair.n_pairs == 5
    assert {metric.reason for metric in pair.metrics.values()} == {"no pair has the value"}


def test_standard_input_is_a_file_like_any(files: tuple[Path, Path]) -> None:
    piped = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "calipers",
            "compare",
            "-",
            str(files[1]),
            "--format",
            "json",
        ],
        input=files[0].read_bytes(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (0, b"")
    found = strict(piped.stdout.decode())
    assert found["base"] == "-"
    assert found["metrics"] == cal.compare(*files).to_dict()["metrics"]


# --- real data ---

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
