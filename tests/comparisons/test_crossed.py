"""Nested and crossed factors: --cluster repo,file, --random task,variant, power --cluster."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.statistics.crossed import cross_error
from calipers.support.errors import UsageError
from tests.engines_at_hand import needs_spark
from tests.files import write_lines

PROMPTS = ("schlicht", "Schritt für Schritt", "mit Beispiel 🧮", "kurz")


def _answers(seed: int, shift: float = 0.0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    easy, wording = rng.normal(0, 0.2, 40), rng.normal(0, 0.15, 4)
    return [
        {
            "id": f"django__{task}",
            "variant": PROMPTS[prompt],
            "repo": f"repo {task % 7}" if task % 10 else None,
            "file": f"f{task % 3}",
            "impl_rate": float(np.clip(0.6 + shift + easy[task] + wording[prompt], 0, 1)),
            "correct": bool(rng.random() < 0.6 + shift + easy[task] + wording[prompt]),
        }
        for task in range(40)
        for prompt in range(4)
    ]


def _cluster_variance(values: np.ndarray, labels: list[Any]) -> float:
    off, found = values - values.mean(), 0.0
    for each in set(labels):
        own = np.array([label == each for label in labels])
        found += off[own].sum() ** 2 / (1 - own.mean())
    return found / values.size**2


def test_the_variance_of_crossed_factors_is_that_of_both_less_that_of_the_cells() -> None:
    rows = _answers(1)
    values = np.array([row["impl_rate"] for row in rows])
    tasks, prompts = [row["id"] for row in rows], [row["variant"] for row in rows]
    expected = (
        _cluster_variance(values, tasks)
        + _cluster_variance(values, prompts)
        - _cluster_variance(values, list(zip(tasks, prompts, strict=True)))
    )
    found = cross_error(values, [np.array(tasks), np.array(prompts)])
    assert found is not None
    assert found.stderr == pytest.approx(expected**0.5)
    assert found.degrees == 3  # four prompts
    score = cal.score(rows, metrics=["impl_rate", "accuracy"], random=["task", "variant"])
    assert score["impl_rate"].stderr == pytest.approx(expected**0.5)
    assert score.to_dict()["settings"]["random"] == ["task", "variant"]
    alone = cal.score(rows, metrics=["impl_rate", "accuracy"])
    for name in ("impl_rate", "accuracy"):
        crossed, plain = score[name], alone[name]
        assert crossed.value == plain.value
        assert None not in (crossed.low, crossed.high, plain.low, plain.high)
        assert crossed.high - crossed.low > 1.5 * (plain.high - plain.low)  # type: ignore[operator]


def test_differences_over_crossed_factors() -> None:
    base, other = _answers(2), _answers(3, 0.1)
    compared = cal.compare(base, other, metrics=["impl_rate"], random="task,variant")
    found = compared.pairs[0].metrics["impl_rate"]
    key = {(row["id"], row["variant"]): row["impl_rate"] for row in other}
    apart = np.array([key[row["id"], row["variant"]] - row["impl_rate"] for row in base])
    error = cross_error(apart, [np.array([r[n] for r in base]) for n in ("id", "variant")])
    assert error is not None
    assert found.n_pairs == 160
    assert found.difference == pytest.approx(apart.mean())
    assert found.stderr == pytest.approx(error.stderr)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(apart.mean()) / error.stderr, 3))


def test_a_factor_with_one_value_tells_of_no_other() -> None:
    rows = [row for row in _answers(1) if row["variant"] == "kurz"]
    with pytest.raises(UsageError, match="one value of variant"):
        cal.score(rows, metrics=["impl_rate"], random=["task", "variant"])
    found = cal.compare(rows, rows, metrics=["impl_rate"], random=["task", "variant"])
    assert "one value only" in (found.pairs[0].metrics["impl_rate"].reason or "")
    bare = [{key: row[key] for key in row if key != "id"} for row in rows]
    with pytest.raises(UsageError, match=r"^--random id: no record has a value in id"):
        cal.score(bare, metrics=["impl_rate"], random=["task", "variant"])
    with pytest.raises(UsageError, match="two or three"):
        cal.score(rows, random=["task"])


@pytest.mark.parametrize("command", ["score", "compare"])
def test_nested_clusters_are_the_outermost_that_a_row_has(command: str) -> None:
    base, other = _answers(1), _answers(4)
    for row in (*base, *other):
        row["both"] = row["repo"] or f"file {row['file']}"

    def measure(cluster: str) -> Any:
        if command == "score":
            return cal.score(base, metrics=["accuracy", "impl_rate"], cluster=cluster)["impl_rate"]
        found = cal.compare(base, other, metrics=["impl_rate"], cluster=cluster)
        return found.pairs[0].metrics["impl_rate"]

    assert measure("repo,file") == measure("both")
    assert measure("repo,file") != measure("repo")


@needs_spark
def test_spark_crosses_and_nests_alike(tmp_path: Any) -> None:
    path = write_lines(tmp_path / "a.jsonl", _answers(5))
    asks: list[dict[str, Any]] = [{"random": "task,variant"}, {"cluster": "repo,file"}]
    for ask in asks:
        here = cal.score(path, metrics=["accuracy", "impl_rate"], **ask)
        there = cal.score(path, metrics=["accuracy", "impl_rate"], engine="spark", **ask)
        for name, field in product(("accuracy", "impl_rate"), ("low", "high", "stderr")):
            assert getattr(there[name], field) == pytest.approx(getattr(here[name], field))


def test_power_plans_with_the_design_effect_of_a_pilot() -> None:
    rng = np.random.default_rng(4)
    level = rng.normal(0, 0.3, 20)
    rows = [
        {
            "id": str(n),
            "doc": f"doc {n // 10}",
            "impl_rate": float(np.clip(0.5 + level[n // 10], 0, 1)),
        }
        for n in range(200)
    ]
    alone = cal.power(rows, metrics=["impl_rate"]).groups[0].metrics["impl_rate"]
    found = cal.power(rows, metrics=["impl_rate"], cluster="doc").groups[0].metrics["impl_rate"]
    assert found.design_effect is not None
    assert alone.detectable is not None
    assert alone.design_effect is None
    assert found.design_effect == pytest.approx(
        10 * 19 / 20 / (19 / 20) * 199 / 200 * 20 / 19, rel=1e-9
    )
    assert found.plans[0].tasks == pytest.approx(
        found.design_effect * alone.plans[0].tasks, rel=0.02
    )
    assert found.detectable == pytest.approx(alone.detectable * found.design_effect**0.5)
