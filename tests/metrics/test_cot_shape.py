"""Steps and self-corrections as one's own chains write them: two settings beside Z's defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.dashboard.highlight import mark_thought
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.reasoning import find_corrections, mark_steps
from calipers.support.errors import UsageError
from tests.commands import run, strict
from tests.files import write_lines

CHAINS: list[dict[str, Any]] = [
    {"id": "a", "cot": "Step 1: add\r\nStep 2: WAIT, no\rstep 3: done\n1. not one"},
    {"id": "b", "cot": "no step 1: here\n\nStep 9 a"},
    {"id": "c", "cot": ""},
    {"id": "d", "cot": None},
]
STEP = r"Step \d+:"


def values(**settings: Any) -> dict[str, float | None]:
    names = ["step_count_mean", "self_correction_rate"]
    found = cal.score(CHAINS, metrics=names, **settings).groups[0].metrics
    return {name: found[name].value for name in names}


def test_by_default_steps_and_phrases_are_those_of_z() -> None:
    assert values() == {"step_count_mean": 1 / 3, "self_correction_rate": 0}


def test_lines_that_begin_with_the_pattern_are_steps() -> None:
    assert values(step_pattern=STEP)["step_count_mean"] == 2 / 3
    assert values(step_pattern=f"(?i){STEP}")["step_count_mean"] == 1
    assert values(step_pattern=rf"^\s*{STEP}|\d\.")["step_count_mean"] == 1


def test_a_pattern_does_not_reach_over_the_end_of_a_line() -> None:
    rows = [{"id": "a", "cot": "Step\n1:"}]
    score = cal.score(rows, metrics=["step_count_mean"], step_pattern=r"Step\s+1:")
    assert score["step_count_mean"].value == 0


def test_phrases_are_found_in_upper_and_lower_case() -> None:
    assert values(correction_phrases="wait, no")["self_correction_rate"] == 1 / 3
    assert values(correction_phrases=["hold on", "a|b"])["self_correction_rate"] == 0
    assert values(correction_phrases=["(", "done"])["self_correction_rate"] == 1 / 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"step_pattern": "("}, "--set step_pattern (: "),
        ({"step_pattern": "(?=a)"}, "look-around"),
        ({"step_pattern": "(?x)a # all the rest"}, "--set step_pattern"),
        ({"step_pattern": ""}, "an empty text"),
        ({"correction_phrases": ["wait", ""]}, "an empty text"),
    ],
)
def test_what_cannot_be_used_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        values(**settings)
    assert says in str(caught.value)


def test_command_line_and_policy_give_the_same(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", CHAINS)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        f"metric_settings:\n  step_pattern: '{STEP}'\n  correction_phrase: [wait, hold on]\n",
        encoding="utf-8",
    )
    given = (f"step_pattern={STEP}", "correction_phrase=wait", "correction_phrase=hold on")
    options = [word for text in given for word in ("--set", text)]
    by_flags = run("score", data, "--format", "json", *options)
    by_policy = run("score", data, "--format", "json", "--policy", policy)
    found, other = (strict(each.stdout) for each in (by_flags, by_policy))
    assert found["settings"]["correction_phrases"] == ["wait", "hold on"]
    for name, value in (("step_count_mean", 2 / 3), ("self_correction_rate", 1 / 3)):
        assert found["groups"][0]["metrics"][name]["value"] == value
        assert other["groups"][0]["metrics"][name]["value"] == value


@given(cot=st.text(st.sampled_from("Step 12:\n\r wait"), max_size=40))
def test_pages_mark_what_the_metrics_count(cot: str) -> None:
    settings = Settings(step_pattern=STEP, correction_phrases=("wait", "Step 1"))
    names = ["step_count_mean", "self_correction_rate"]
    found = cal.score(
        [{"id": "a", "cot": cot}],
        metrics=names,
        step_pattern=STEP,
        correction_phrases=settings.correction_phrases,
    ).groups[0]
    steps = sum(is_step for is_step, _ in mark_steps(cot, settings))
    assert found.metrics["step_count_mean"].value == steps
    assert found.metrics["self_correction_rate"].value == bool(find_corrections(cot, settings))
    assert sum(line.step is not None for line in mark_thought(cot, settings)) == steps
