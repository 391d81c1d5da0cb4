"""Groups, clusters, many tests at once, and the parts of one file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.commands import strict
from tests.comparisons.runs_at_hand import logs, right, run, the_only
from tests.files import write_lines


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
    assert (found.test, found.interval) == ("sign flips per cluster", "t (CR2)")
    moves = [
        (b["answer"] == "7") - (a["answer"] == "7") for a, b in zip(base, candidate, strict=True)
    ]
    mean = fmean(moves)
    totals = [sum(move - mean for move in moves[site::7]) for site in range(7)]
    stderr = math.sqrt(7 / 6 * sum(total**2 for total in totals)) / 70
    assert found.stderr == pytest.approx(stderr)
    flips = [
        abs(sum(s * sum(moves[site::7]) for site, s in enumerate(signs)))
        for signs in product((1, -1), repeat=7)
    ]
    assert found.p_value == found.permutation_p
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
    known = the_only(cal.compare(base, candidate, cluster="site", metrics=["accuracy"]))
    for row in base:
        del row["site"]
    found = the_only(cal.compare(base, candidate, cluster="site", metrics=["accuracy"]))
    assert found.test == "sign flips per cluster"
    assert (found.stderr, found.p_value) == (known.stderr, known.p_value)


def test_holm_counts_distinct_tests() -> None:
    base = [{**row, "latency_ms": 100.0 + n} for n, row in enumerate(right("-" * 12 + "+" * 8))]
    other = [{**row, "latency_ms": 99.0 + 2 * n} for n, row in enumerate(right("+" * 12 + "-" * 8))]
    found = cal.compare(base, other).pairs[0].metrics
    tests = {
        "accuracy": found["accuracy"],
        "mean": found["latency_mean_ms"],
        **{name: found[f"latency_{name}_ms"] for name in ("p50", "p95", "p99")},
        "time": found["time_score"],
    }
    ordered = sorted(each.p_value or 0 for each in tests.values())
    running, expected = 0.0, {}
    for rank, p in enumerate(ordered):
        running = max(running, min(1.0, (len(tests) - rank) * p))
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


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (("b", "a", "c"), ["a", "b", "c"]),
        ((10, 9, 100), ["9", "10", "100"]),
        ((1.5, 0.25, 1e6), ["0.25", "1.5", "1000000"]),
        ((True, False), ["false", "true"]),
        ((10, "a", True), ["10", "a", "true"]),
        (([1], ["x"]), ["[1]", '["x"]']),
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


MODELS = ("claude-3-haiku", "gpt-4o-mini", "llama3")


def test_between_takes_the_base_that_is_named() -> None:
    rows = [
        {"id": f"q{n}", "model": name, "correct": (n + place) % 3 > 0}
        for n in range(12)
        for place, name in enumerate(MODELS)
    ]
    found = cal.compare(rows, between="model", base="llama3")
    assert [(pair.base, pair.candidate) for pair in found.pairs] == [
        ("llama3", "claude-3-haiku"),
        ("llama3", "gpt-4o-mini"),
    ]
    turned = cal.compare(rows[:24], between="model", base="gpt-4o-mini").pairs[0]
    plain = cal.compare(rows[:24], between="model").pairs[0]
    assert turned.base != plain.base


def test_a_base_that_is_not_there_is_refused() -> None:
    rows = [{"id": "q1", "model": name, "correct": True} for name in MODELS]
    with pytest.raises(UsageError, match="--base gpt-4o-mni") as error:
        cal.compare(rows, between="model", base="gpt-4o-mni")
    assert error.value.fix == "did you mean gpt-4o-mini?"
    with pytest.raises(UsageError, match="--base needs --between"):
        cal.compare(rows, rows, base="llama3")


def test_between_models_reads_what_two_files_would_say() -> None:
    base, other = logs(30, 1), logs(30, 2)
    apart = cal.compare(base, other).to_dict()
    rows = [
        {**row, "model": model} for model, side in (("m1", base), ("m2", other)) for row in side
    ]
    within = cal.compare(rows, between="model").to_dict()
    assert (within["base"], within["candidate"]) == ("m1", "m2")
    assert within["metrics"] == apart["metrics"]
