"""Baselines: how often a system that has not changed passes, and one that got worse."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from calipers.gates.baselines import (
    FeatureByTask,
    Recorded,
    RecordedGroup,
    dump_tasks,
    load_tasks,
    ratchet,
)
from calipers.gates.policy_fields import find_metric
from calipers.gates.regressions import _decide_change, _find_resolvable, has_gained, measure_change
from calipers.metrics.thresholds import read_scale

SCALE = read_scale(find_metric("accuracy"))


def ease(rng: np.random.Generator, n: int, mean: float) -> np.ndarray:
    """How likely each task is right: most are surely so or surely not."""
    return rng.beta(2 * mean, 2 * (1 - mean), n)


def answered(rng: np.random.Generator, right: np.ndarray, runs: int) -> RecordedGroup:
    results = rng.random((right.size, runs)) < right[:, None]
    means = results.mean(axis=1)
    values = FeatureByTask(
        ids=tuple(f"{n:05}" for n in range(right.size)),
        runs=np.full(right.size, float(runs)),
        means=means,
        squares=runs * means * (1 - means),
    )
    return RecordedGroup(metrics={"accuracy": float(means.mean())}, tasks={"correct": values})


def verdict(before: RecordedGroup, now: RecordedGroup, margin: float) -> str:
    change = measure_change("accuracy", before, now, confidence=0.95)
    assert change is not None
    return _decide_change(change, margin, SCALE, 0.95)[0]


def shares_that_pass(n: int, mean: float, runs: int, repeats: int) -> tuple[float, float, float]:
    """Return the margin that such data resolve, and who passes: unchanged, worse by twice as much."""
    rng = np.random.default_rng([n, runs, int(100 * mean)])
    margins = []
    for _ in range(20):
        tasks = ease(rng, n, mean)
        pilot = measure_change(
            "accuracy", answered(rng, tasks, runs), answered(rng, tasks, runs), confidence=0.95
        )
        assert pilot is not None
        margins.append(_find_resolvable(pilot, 0.95))
    margin = float(np.mean(margins))
    passed = [0, 0]
    for _ in range(repeats):
        tasks = ease(rng, n, mean)
        before = answered(rng, tasks, runs)
        worse = tasks * (1 - 2 * margin / mean)
        for at, now in enumerate((tasks, worse)):
            passed[at] += verdict(before, answered(rng, now, runs), margin) == "pass"
    return margin, passed[0] / repeats, passed[1] / repeats


@pytest.mark.long
@pytest.mark.parametrize("runs", [1, 4])
@pytest.mark.parametrize("mean", [0.8, 0.95])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_an_unchanged_system_passes_and_a_worse_one_does_not(
    n: int, mean: float, runs: int
) -> None:
    """The figures stand in docs/gate.md."""
    margin, unchanged, worse = shares_that_pass(n, mean, runs, 500)
    assert margin < 0.3
    assert unchanged >= 0.9
    assert worse <= 0.05


@pytest.mark.long
def test_a_ratchet_does_not_turn_an_unchanged_system_red() -> None:
    """In 0.1, 93 % of such series were red after 15 runs. Here 93 % pass, and none fails."""
    rng = np.random.default_rng(3)
    gained = partial(has_gained, confidence=0.95)
    ended = []
    for _ in range(300):
        tasks = ease(rng, 200, 0.8)
        recorded = Recorded(groups=(answered(rng, tasks, 1),))
        for _ in range(15):
            now = Recorded(groups=(answered(rng, tasks, 1),))
            last = verdict(recorded.groups[0], now.groups[0], 0.12)
            if last == "pass":
                recorded, _ = ratchet(recorded, now, gained)
        ended.append(last)
    assert ended.count("fail") / len(ended) <= 0.01
    assert ended.count("pass") / len(ended) >= 0.9


def right(model: str, *results: float) -> RecordedGroup:
    """A model whose tasks ran once each."""
    means = np.array(results)
    ids = tuple(f"{n:05}" for n in range(means.size))
    once = FeatureByTask(ids=ids, runs=np.ones(means.size), means=means, squares=0 * means)
    metrics = {"accuracy": float(means.mean())}
    return RecordedGroup(by={"model": model}, metrics=metrics, tasks={"correct": once})


def test_a_ratchet_keeps_the_groups_that_the_run_lacks() -> None:
    small, large = right("llama-3.1-8b", 1, 0), right("llama-3.1-70b", 1, 1)
    raised, _ = ratchet(
        Recorded(groups=(small, large)), Recorded(groups=(small,)), lambda *_: False
    )
    assert raised.groups == (small, large)


def test_a_gain_that_is_just_significant_is_not_kept() -> None:
    """A ratchet asks at every run: its error rate is a tenth of that of the interval shown."""
    before = right("llama3", *[0] * 20, *[1] * 80)
    kept = []
    for gained in range(21):
        now = right("llama3", *[1] * gained, *[0] * (20 - gained), *[1] * 80)
        change = measure_change("accuracy", before, now, confidence=0.95)
        assert change is not None
        is_shown = change.low is not None and change.low > 0
        kept.append((is_shown, has_gained("accuracy", before, now, confidence=0.95)))
    assert [*dict.fromkeys(kept)] == [(False, False), (True, False), (True, True)]


def test_values_of_tasks_come_back_from_their_json() -> None:
    values = {
        "correct": FeatureByTask(
            ids=("a", "c"),
            runs=np.array([1.0, 4.0]),
            means=np.array([1.0, 0.25]),
            squares=np.array([0.0, 0.75]),
        ),
        "latency": FeatureByTask(
            ids=("a", "b"), runs=np.ones(2), means=np.array([0.5, 2.5]), squares=np.zeros(2)
        ),
    }
    written = dump_tasks(values)
    assert written["ids"] == ["a", "b", "c"]
    assert written["values"]["correct"] == {
        "runs": [1, 0, 4],
        "means": [1, 0, 0.25],
        "squares": [0, 0, 0.75],
    }
    again = load_tasks(written)
    for name, each in values.items():
        assert again[name].ids == each.ids
        assert again[name].means.tolist() == each.means.tolist()
        assert again[name].squares.tolist() == each.squares.tolist()


@pytest.mark.parametrize(
    "broken",
    [{"runs": [1], "means": [1, 2]}, {"runs": 1, "means": [1]}, {"runs": -1, "means": [1, 2]}],
)
def test_values_of_tasks_that_do_not_fit_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        load_tasks({"ids": ["a", "b"], "values": {"correct": broken}})
