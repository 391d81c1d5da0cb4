"""Slices read together: shrunken values, intervals for all of them, and which one got worse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.statistics.slices import shrink

CATEGORIES = ("algèbre", "géométrie", "Zahlentheorie", "логика", "statistics", "Größen & Maße")


def test_alike_slices_meet_in_the_middle_and_unlike_ones_stay() -> None:
    sizes, variances = np.full(5, 20.0), np.full(5, 0.2)
    alike = np.array([0.5, 0.52, 0.55, 0.48, 0.45])  # they lie closer than chance would have it
    assert shrink(alike, sizes, variances) == pytest.approx(np.full(5, alike.mean()))
    apart = np.array([0.05, 0.9, 0.5, 0.2, 0.99])
    found = shrink(apart, sizes, variances)
    assert np.all(np.abs(found - apart.mean()) < np.abs(apart - apart.mean()))
    assert found == pytest.approx(apart, abs=0.06)
    assert shrink(apart[:2], sizes[:2], variances[:2]) == pytest.approx(apart[:2])


def test_shrunken_values_are_nearer_the_truth() -> None:
    rng = np.random.default_rng(37)
    truths = rng.normal(0.7, 0.05, (400, 8))
    values = rng.binomial(12, truths.clip(0, 1)) / 12
    found = np.stack([shrink(row, np.full(8, 12.0), row * (1 - row)) for row in values])
    assert np.square(found - truths).mean() < 0.5 * np.square(values - truths).mean()
    stacked = shrink(values, np.full((400, 8), 12.0), values * (1 - values))
    assert stacked == pytest.approx(found, abs=1e-6)


def _records(rng: np.random.Generator, chance: float | dict[str, float], tasks: int) -> Any:
    return [
        {
            "id": f"{category}/{n}",
            "category": category,
            "correct": bool(
                rng.random() < (chance if isinstance(chance, float) else chance[category])
            ),
        }
        for category in CATEGORIES
        for n in range(tasks)
    ]


def test_score_by_category_shows_slices_together() -> None:
    rng = np.random.default_rng(5)
    score = cal.score(_records(rng, 0.7, 10), by="category", metrics=["accuracy"])
    slices = score.to_dict()["slices"]
    assert [each["by"]["category"] for each in slices] == [g.by["category"] for g in score.groups]
    for each, group in zip(slices, score.groups, strict=True):
        alone = group.metrics["accuracy"]
        assert each["value"] == alone.value
        assert each["low"] < (alone.low or 0)
        assert each["high"] > (alone.high or 1) or each["high"] == 1
    spread = np.ptp([each["shrunken"] for each in slices])
    assert spread < np.ptp([each["value"] for each in slices])
    assert "accuracy by slice, read together" in str(score)
    systems = [{**row, "model": row["category"]} for row in _records(rng, 0.7, 10)]
    assert "slices" not in cal.score(systems, by="model").to_dict()


def test_intervals_of_all_slices_hold_at_once() -> None:
    rng = np.random.default_rng(8)
    rows = [
        {
            "id": str(n),
            "release": release,
            "category": category,
            "correct": bool(rng.random() < 0.7),
        }
        for release in range(200)
        for category in CATEGORIES
        for n in range(12)
    ]
    slices = cal.score(rows, by=["release", "category"], metrics=["accuracy"]).slices
    missed = {
        each.by["release"]
        for each in slices
        if not (each.low or 0.0) <= 0.7 <= (1.0 if each.high is None else each.high)
    }
    assert len({each.by["release"] for each in slices}) == 200
    assert len(missed) <= 0.085 * 200


def test_which_slice_got_worse_has_an_error_rate() -> None:
    rng = np.random.default_rng(9)
    before = dict.fromkeys(CATEGORIES, 0.9)
    after = {**before, "логика": 0.2}
    base, other = _records(rng, before, 25), _records(rng, after, 25)
    found = cal.compare(base, other, by="category", metrics=["accuracy"])
    [verdict] = found.pairs[0].slices
    assert [each["category"] for each in verdict.worse] == ["логика"]
    assert verdict.better == ()
    assert verdict.slices == len(CATEGORIES)
    assert found.to_dict()["slices"][0]["worse"] == [{"category": "логика"}]
    assert "worse: логика" in str(found)
    named = sum(
        bool(v.worse or v.better)
        for _ in range(60)
        for v in cal.compare(
            _records(rng, before, 12),
            _records(rng, before, 12),
            by="category",
            metrics=["accuracy"],
        )
        .pairs[0]
        .slices
    )
    assert named <= 6


def test_categories_of_a_gate_are_read_together_as_a_note() -> None:
    rng = np.random.default_rng(2)
    rows = [{**row, "passed": row.pop("correct")} for row in _records(rng, 0.75, 8)]
    policy = {"pass_criteria": {"by_category": dict.fromkeys(CATEGORIES, 0.5)}}
    result = cal.gate(
        rows, policy={**policy, "pass_criteria": {"by_category": dict.fromkeys(CATEGORIES, "50%")}}
    )
    assert any("shrunken, for information only" in line for line in result.notices)
    rates = {check.name: check.value for check in result.checks if check.level == "category"}
    for check in result.checks:
        if check.level == "category":
            assert check.verdict == ("pass" if (rates[check.name] or 0.0) >= 0.5 else "fail")
