"""Configurations: intervals over cells where tasks are few, the best of many, what varies."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.cli import app
from calipers.statistics.crossed import split_crossed
from tests.examples import examples
from tests.files import write_lines

Rows = list[dict[str, Any]]


def _make_rows(tasks: int, variants: int, runs: int, seed: int = 1, tier: str = "T0") -> Rows:
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"test-{task:03}",
            "tier": tier,
            "variant": f"{variant:02}",
            "run": run,
            "passed": bool(rng.random() < 0.5 + 0.4 * (variant % 2)),
            "impl_rate": float(rng.random() / 2 + 0.5 * (variant % 2)),
        }
        for task in range(tasks)
        for variant in range(variants)
        for run in range(1, runs + 1)
    ]


def test_few_tasks_have_intervals_over_cells() -> None:
    """As if each task × variant were a task, and labelled as holding for these tasks only."""
    rows = _make_rows(3, 8, 3)
    names = ["pass_rate", "impl_rate", "composite_score"]
    by_cell = cal.score(
        [{**row, "id": f"{row['id']}/{row['variant']}"} for row in rows], metrics=names
    )
    score = cal.score(rows, metrics=names)
    for name in names:
        found, expected = score[name], by_cell[name]
        assert (found.value, found.low, found.high) == (
            *(expected.value, expected.low, expected.high),
        )
        assert (found.scope, expected.scope) == ("tasks at hand", None)
    assert "holds only for the tasks at hand" in str(score)


@pytest.mark.parametrize(
    "rows",
    [
        _make_rows(5, 4, 2),  # tasks enough
        _make_rows(3, 1, 4),  # one variant
        [{**row, "variant": None} for row in _make_rows(3, 4, 2)],
    ],
)
def test_other_groups_have_intervals_over_tasks(rows: Rows) -> None:
    without = [{name: row[name] for name in row if name != "variant"} for row in rows]
    for name in ("pass_rate", "impl_rate"):
        found, expected = cal.score(rows)[name], cal.score(without)[name]
        assert (found.low, found.high, found.scope) == (
            *(expected.low, expected.high, expected.scope),
        )


def test_tasks_of_groups_by_variant_are_not_cells() -> None:
    score = cal.score(_make_rows(3, 4, 3), by="variant", metrics=["pass_rate"])
    assert all(group.metrics["pass_rate"].scope is None for group in score.groups)


def test_the_best_configuration_is_chosen_among_all(tmp_path: Path) -> None:
    rows = [
        *_make_rows(3, 4, 6, tier="T0"),
        *({**row, "impl_rate": row["impl_rate"] / 4} for row in _make_rows(3, 4, 6, tier="T1")),
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    score = cal.score(path, profile="tiers", by=["tier", "variant"])
    assert score.variants is not None
    best = score.variants.best
    assert best is not None
    values = {
        (group.by["tier"], group.by["variant"]): group.metrics["composite_score"].value or 0.0
        for group in score.groups
    }
    assert (best.by["tier"], best.by["variant"]) == max(values, key=lambda key: values[key])
    assert (best.value, best.among, best.tasks) == (max(values.values()), 8, 3)
    assert best.scope == "tasks at hand"
    alone = cal.score(rows, by=["tier", "variant"], tasks="fixed", metrics=["composite_score"])
    own = alone.group(**best.by).metrics["composite_score"]
    assert best.low is not None
    assert own.low is not None
    assert best.low < own.low  # it allows for having been chosen
    assert {(each["tier"], each["variant"]) for each in best.alike} < {*values}
    document = json.loads(CliRunner().invoke(app, _score(path, "--format", "json")).output)
    assert document["variants"]["best"]["by"] == dict(best.by)
    assert "best of 8 configurations by composite_score" in str(score)


def _score(path: Path, *more: str) -> list[str]:
    return ["score", str(path), "--profile", "tiers", "--by", "tier", "--by", "variant", *more]


@pytest.mark.long
def test_the_chance_that_the_interval_of_the_best_misses_is_kept() -> None:
    """12 configurations, all alike, on 3 tasks of 4 runs: of 60 experiments, 5 % may miss."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(60):
        rows = [
            {"id": f"t{task}", "variant": str(variant), "run": run, "passed": bool(luck < 0.7)}
            for variant in range(12)
            for task in range(3)
            for run, luck in enumerate(rng.random(4), start=1)
        ]
        variants = cal.score(rows, by="variant", metrics=["pass_rate"]).variants
        assert variants is not None
        assert variants.best is not None
        assert variants.best.low is not None
        missed += not variants.best.low <= 0.7
    assert missed <= 7  # of 60: 5 % would be 3; more than 7 happens in 1 % of the cases
    assert sum(comb(60, k) * 0.05**k * 0.95 ** (60 - k) for k in range(8)) > 0.98


def test_rank_by_variant_rests_on_runs_where_tasks_are_few(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", _make_rows(3, 4, 8))
    ranking = cal.rank(path, by="variant", metrics=["impl_rate"])
    assert "hold for the tasks at hand only" in str(ranking.notices)
    [ranked] = ranking.metrics
    assert ranked.interval == "fixed tasks"
    assert [each.by["variant"] in ("01", "03") for each in ranked.systems[:2]] == [True, True]
    first, last = ranked.systems[0], ranked.systems[-1]
    assert first.low is not None
    assert last.high is not None
    assert first.low > last.high
    assert first.group != last.group
    enough = cal.rank(_make_rows(6, 4, 2), by="variant", metrics=["impl_rate"])
    assert enough.metrics[0].interval != "fixed tasks"


@given(
    task=st.floats(0, 2), variant=st.floats(0, 2), together=st.floats(0, 1), run=st.floats(0.1, 1)
)
@examples(15, deadline=None)
def test_what_varies_is_found(task: float, variant: float, together: float, run: float) -> None:
    """Simulated with known variances, many tasks and variants: each part within a fifth of all."""
    rng = np.random.default_rng(3)
    tasks, variants, runs = 60, 60, 3
    cells = (
        rng.normal(0, task**0.5, (tasks, 1))
        + rng.normal(0, variant**0.5, (1, variants))
        + rng.normal(0, together**0.5, (tasks, variants))
    )
    values = cells[:, :, None] + rng.normal(0, run**0.5, (tasks, variants, runs))
    labels = np.indices(values.shape)
    found = split_crossed(values.ravel(), labels[0].ravel(), labels[1].ravel())
    assert found is not None
    parts = (found.task, found.variant, found.together, found.run)
    total = task + variant + together + run
    for part, expected in zip(parts, (task, variant, together, run), strict=True):
        assert part == pytest.approx(expected, abs=0.3 * total)
    assert found.total == pytest.approx(sum(part or 0.0 for part in parts))


def test_a_single_run_of_each_cell_leaves_the_rest_together() -> None:
    found = split_crossed([1, 0, 0, 1], [1, 1, 2, 2], [1, 2, 1, 2])
    assert found is not None
    assert (found.together, found.run, found.task, found.variant) == (None, None, 0, 0)
    assert found.rest == found.total == 1.0
    assert split_crossed([1, 0], [1, 1], [1, 2]) is None
    assert split_crossed([1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 1, 2]) is None


def test_the_split_is_in_the_score_in_explain_and_in_the_report(tmp_path: Path) -> None:
    rows = _make_rows(3, 4, 6)
    path = write_lines(tmp_path / "rows.jsonl", rows)
    score = cal.score(path, profile="tiers", by="tier")
    assert score.variants is not None
    [split] = score.variants.variance
    assert (split.by, split.tasks, split.variants, split.runs) == ({"tier": "T0"}, 3, 4, 72)
    parts = (split.task, split.variant, split.together, split.run)
    assert sum(part or 0.0 for part in parts) == pytest.approx(1.0)
    assert split.variant > 0.2
    explained = cal.explain("composite_score", path).to_dict()["groups"][0]["variance"]
    assert explained["variant"] == pytest.approx(split.variant)
    assert explained["task_by_variant"] == pytest.approx(split.together)
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(path), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "tasks × 4 variants" in page.read_text(encoding="utf-8")
