"""Judges that give scores, audited for length and own model; simulated, so the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.judges.bias import name_family
from calipers.statistics.agreement import slope_within

SYSTEMS = ("openai:gpt-4o", "claude-sonnet-4", "qwen2.5-7b")


def judged(tasks: int = 40, seed: int = 0, **favours: float) -> list[dict[str, Any]]:
    """Answers of three systems; `biased` adds to longer answers, or to its own, `honest` does not."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        hard = rng.normal(0, 0.1)
        for system in SYSTEMS:
            chars, quality = int(rng.integers(50, 800)), hard + rng.normal(0, 0.05)
            score = 0.5 + quality
            more = favours.get("length", 0.0) * (np.log2(chars) - 8)
            more += favours.get("own", 0.0) * ("gpt" in system)
            said = {
                "honest": ("anthropic:claude-haiku-4-5", score + rng.normal(0, 0.04)),
                "other": ("google:gemini-2.5-pro", score + rng.normal(0, 0.04)),
                "biased": ("openai:gpt-4o-mini", score + more + rng.normal(0, 0.04)),
            }
            rows.append(
                {
                    "id": f"t{task}",
                    "model": system,
                    "answer": "x" * chars,
                    "judgments": [
                        {"judge": name, "model": model, "weighted_score": float(np.clip(s, 0, 1))}
                        for name, (model, s) in said.items()
                    ],
                }
            )
    return rows


def measures(rows: list[dict[str, Any]], judge: str) -> Any:
    [group] = cal.audit_judges(rows).groups
    return next(each for each in group.judges if each.judge == judge).measures


def test_a_judge_that_favours_length_is_found_and_an_honest_one_is_not_called() -> None:
    rows = judged(length=0.05)
    biased, honest = measures(rows, "biased"), measures(rows, "honest")
    for name in ("length_slope", "length_bias"):
        assert biased[name].low < 0.05 < biased[name].high
        assert biased[name].low > 0
    assert honest["length_slope"].low < 0 < honest["length_slope"].high
    assert biased["length_slope"].n == len(rows)
    assert "twice as long" in str(cal.audit_judges(rows))


def test_a_judge_that_favours_its_own_family_is_found() -> None:
    rows = judged(own=0.1)
    found = measures(rows, "biased")
    for name in ("own_margin", "self_preference"):
        assert found[name].low < 0.1 < found[name].high
        assert found[name].low > 0
    assert found["self_preference"].n == len(rows)
    fair = measures(judged(), "biased")
    assert fair["self_preference"].low < 0 < fair["self_preference"].high


def test_what_cannot_be_known_has_a_reason() -> None:
    alone = [{**row, "judgments": row["judgments"][:1]} for row in judged(5)]
    found = measures(alone, "honest")
    assert found["length_slope"].value is not None
    assert "no other judge" in found["length_bias"].reason
    once = [{**row, "id": f"{n}", "model": "m"} for n, row in enumerate(judged(5))]
    found = measures(once, "honest")
    assert "different lengths" in found["length_slope"].reason
    assert "own model" in found["own_margin"].reason
    assert measures([{"id": "1", "judgments": [{"judge": "a", "passed": True}]}], "a")


@pytest.mark.parametrize(
    ("model", "family"),
    [("openai/gpt-4.1", "gpt"), ("Claude-3", "claude"), ("model-1", "model-1"), ("", "")],
)
def test_families(model: str, family: str) -> None:
    assert name_family(model) == family


def test_the_interval_of_a_slope_within_tasks_holds() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(25), 4)
    held = 0
    for _ in range(400):
        x = rng.normal(size=100) + rng.normal(size=25)[groups]
        y = 0.3 * x + 2 * rng.normal(size=25)[groups] + rng.normal(size=100) * (1 + x**2) / 2
        found = slope_within(x, y, groups)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    assert held / 400 > 0.91
    plain = np.polyfit(x - np.bincount(groups, x)[groups] / 4, y, 1)[0]
    assert found.slope == pytest.approx(plain)
