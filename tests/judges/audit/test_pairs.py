"""Judges of pairs audited: place, length, own model; and judges that changed between two runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.commands import run
from tests.files import write_lines
from tests.shared_data import FOLDER, expected, needs_shared_data

LABELS = {"1": "a", "2": "b", "0": "tie", "Tie": "tie"}


def pair(n: int, first: str | None, swapped: str | None = "", **more: Any) -> dict[str, Any]:
    """A comparison: who won with a in the first place and, unless it is empty, with b there."""
    orders = [{"first": "a", "winner": first}]
    orders += [] if swapped == "" else [{"first": "b", "winner": swapped}]
    said = {order["winner"] for order in orders}
    winner = None if None in said else said.pop() if len(said) == 1 else "tie"
    return {
        "id": f"t{n}",
        "a": "x",
        "b": "y",
        "judge": "j",
        "winner": winner,
        "orders": orders,
        **more,
    }


def measures(rows: list[dict[str, Any]], judge: str = "j") -> Any:
    [group] = cal.audit_judges(rows).preferences
    return next(each for each in group.judges if each.judge == judge)


def test_a_judge_that_prefers_the_first_place() -> None:
    fair = [pair(n, "ab"[n % 2], "ab"[n % 2]) for n in range(40)]
    placed = [pair(n, "a", "b") for n in range(40, 60)]
    found = measures([*fair, *placed]).measures
    assert found["consistency"].value == pytest.approx(40 / 60)
    assert found["position_bias"].value == pytest.approx(20 / 60)
    assert found["position_bias"].low > 0
    assert found["win_rate_a"].value == pytest.approx(0.5)  # the bias is gone from the wins
    assert found["tie_rate"].value == pytest.approx(20 / 60)
    assert measures(fair).measures["position_bias"].value == 0


def test_a_failed_comparison_is_no_win() -> None:
    found = measures([pair(0, "a", None), pair(1, "a", "a"), pair(2, "b", "b")])
    assert (found.pairs, found.failed) == (3, 1)
    assert found.measures["win_rate_a"].value == 0.5
    assert found.measures["win_rate_a"].n == 2


def test_pairs_as_an_arena_writes_them() -> None:
    winners = ("model_a", "model_b", "tie", "tie (bothbad)")
    rows = [
        {"id": n, "model_a": "x", "model_b": "y", "judge": "j", "winner": winners[n % 4]}
        for n in range(40)
    ]
    found = measures(rows).measures
    assert (found["win_rate_a"].value, found["tie_rate"].value) == (0.5, 0.5)


def test_wins_against_length() -> None:
    sizes = [{"length_a": 100 * (1 + n % 4), "length_b": 100} for n in range(80)]
    rows = [pair(n, "a", "a", **sizes[n]) for n in range(60)]
    rows += [pair(n, "b", "b", **sizes[n]) for n in range(60, 80)]
    found = measures(rows)
    # One pair in four has answers of one length, and does not count.
    assert found.measures["longer_win_rate"].value == pytest.approx(45 / 60)
    assert found.measures["longer_win_rate"].n == 60
    assert {name: each.n for name, each in found.by_length.items()} == {
        "up to 1.5 times": 0,
        "up to 3 times": 40,
        "more": 20,
    }


def test_a_judge_that_prefers_its_own_model() -> None:
    own = [pair(n, "a", "a", judge="x", judge_model="openai:x") for n in range(30)]
    other = [pair(n, "ab"[n % 2], "ab"[n % 2], judge="z", judge_model="z") for n in range(30)]
    found = measures([*own, *other], "x").measures
    assert found["own_win_rate"].value == 1.0
    assert found["self_preference"].value == pytest.approx(0.5)
    assert found["self_preference"].low > 0
    alone = measures(own, "x").measures["self_preference"]
    assert (alone.value, "nobody else" in str(alone.reason)) == (None, True)
    stranger = measures([*own, *other], "z").measures["own_win_rate"]
    assert (stranger.value, "own model" in str(stranger.reason)) == (None, True)


def test_formats_and_exit_codes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "pairs.jsonl", [pair(n, "a", "ab"[n % 2]) for n in range(20)])
    asked = ["judge", "audit", str(path)]
    shown = run(*asked)
    assert shown.exit_code == 0, shown.stderr
    assert "judges of pairs" in shown.stdout
    assert "0 without a position bias" in " ".join(shown.stdout.split())
    told = json.loads(run(*asked, "--format", "json").stdout)
    [judge] = told["preferences"][0]["judges"]
    assert judge["position_bias"]["value"] == 0.5
    lines = run(*asked, "--format", "csv").stdout.splitlines()
    assert any("j,,preference,position_bias,0.5" in line for line in lines)
    frame = cal.audit_judges(path).to_polars()
    assert frame.filter(metric="consistency")["value"].to_list() == [0.5]
    bad = write_lines(tmp_path / "bad.jsonl", [{"a": "x", "b": "y", "winner": "x"}])
    refused = run("judge", "audit", bad)
    assert (refused.exit_code, "winner is a, b, tie or null" in refused.stderr) == (2, True)


def scored(n: int, score: float, answer: str = "", **judge: Any) -> dict[str, Any]:
    judgment = {"judge": "j", "model": "m-1", "weighted_score": score, "rubric_hash": "r", **judge}
    return {"id": f"t{n}", "answer": answer or f"answer {n}", "judgments": [judgment]}


def drift(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Any:
    [found] = cal.audit_judges(new, before=old).drift
    return found


def test_a_judge_whose_scores_shift_has_changed() -> None:
    old = [scored(n, 0.3 + n % 5 / 10) for n in range(40)]
    shifted = drift(old, [scored(n, 0.4 + n % 5 / 10 + n % 3 / 50) for n in range(40)])
    assert (shifted.changed, shifted.n, shifted.differing) == ("yes", 40, 40)
    assert shifted.difference == pytest.approx(0.1195)
    assert shifted.p_adjusted < 0.001
    noisy = drift(old, [scored(n, 0.3 + n % 5 / 10 + (-1) ** n / 100) for n in range(40)])
    assert (noisy.changed, noisy.differing) == ("not shown", 40)
    same = drift(old, old)
    assert (same.changed, same.differing, same.difference) == ("not shown", 0, 0)


def test_another_model_or_rubric_is_another_judge() -> None:
    old = [scored(n, 0.5 + n % 2 / 10) for n in range(20)]
    model = drift(old, [scored(n, 0.5 + n % 2 / 10, model="m-2") for n in range(20)])
    assert (model.changed, model.why) == ("yes", "the model was m-1, and is m-2")
    rubric = drift(old, [scored(n, 0.5 + n % 2 / 10, rubric_hash="q") for n in range(20)])
    assert (rubric.changed, rubric.why) == ("yes", "the rubric is another one")


def test_only_the_same_answers_are_compared(tmp_path: Path) -> None:
    old = [scored(n, 0.2 + n % 2 / 10) for n in range(20)]
    new = [
        scored(n, 0.9, answer="a better one") if n < 10 else scored(n, 0.2 + n % 2 / 10)
        for n in range(20)
    ]
    found = cal.audit_judges(new, before=old)
    assert (found.drift[0].n, found.drift[0].changed) == (10, "not shown")
    assert "10 judgments are of answers that --before does not hold" in found.notices
    other = [scored(n, 0.2, answer="another") for n in range(20)]
    paths = [
        write_lines(tmp_path / name, rows) for name, rows in (("a.jsonl", old), ("b.jsonl", other))
    ]
    told = run("judge", "audit", paths[1], "--before", paths[0])
    assert (told.exit_code, "the same judge in both runs" in told.stderr) == (2, True)


def test_a_judge_of_pairs_that_changed() -> None:
    old = [pair(n, "ab"[n % 2], "ab"[n % 2], answers=f"h{n}") for n in range(40)]
    new = [pair(n, "a", "a", answers=f"h{n}") for n in range(40)]
    found = drift(old, new)
    assert (found.on, found.changed, found.differing) == ("preference", "yes", 20)
    assert "the same answers, judged before and now" in str(cal.audit_judges(new, before=old))


def llmbar() -> list[dict[str, Any]]:
    rows = map(json.loads, (FOLDER / "judge/llmbar_judgements.jsonl").read_text().splitlines())
    return [
        {
            **pair(
                0, LABELS.get(str(row["judge_label"])), LABELS.get(str(row["judge_label_swapped"]))
            ),
            **{name: row[name] for name in ("id", "judge", "subset", "prompt")},
        }
        for row in rows
    ]


@needs_shared_data
def test_llmbar_consistency_is_as_published() -> None:
    rows = llmbar()
    groups = cal.audit_judges(rows, by=["subset", "prompt"]).preferences
    found = {
        (group.by["subset"], group.by["prompt"], judge.judge): judge
        for group in groups
        for judge in group.judges
    }
    published = expected()["judge"]["llmbar_judgements.jsonl"]
    checked = 0
    for each in published:
        judge = found[each["subset"], each["prompt"], each["judge"]]
        if not judge.failed:
            assert judge.measures["consistency"].value == pytest.approx(each["agreement"])
            checked += 1
    assert checked > 20


@needs_shared_data
def test_llmbar_judges_by_place() -> None:
    rows = [row for row in llmbar() if row["prompt"] == "Vanilla"]
    for judge in ("GPT-4", "Falcon", "ChatGPT"):
        own = [row for row in rows if row["judge"] == judge and row["winner"] is not None]
        firsts = Counter(
            order["winner"] == order["first"] for row in own for order in row["orders"]
        )
        plain = (firsts[True] - firsts[False]) / (2 * len(own))
        found = measures(rows, judge).measures["position_bias"]
        assert found.value == pytest.approx(plain)
    assert measures(rows, "GPT-4").measures["consistency"].value > 0.8


@needs_shared_data
def test_pandalm_in_one_order_tells_nothing_of_the_place() -> None:
    lines = (FOLDER / "judge/pandalm_3humans_2judges.jsonl").read_text().splitlines()
    judges = ("annotator1", "pandalm_7b", "gpt_35_turbo")
    rows = [
        {**pair(0, LABELS.get(str(row[judge]))), "id": row["id"], "judge": judge}
        | dict(zip("ab", row["cmp_key"].split("_"), strict=True))
        for row in map(json.loads, lines)
        for judge in judges
    ]
    audit = cal.audit_judges(rows)
    assert audit.notices == (
        "1,500 pairs were judged in one order: the place may have decided them",
    )
    found = measures(rows, "gpt_35_turbo")
    assert (found.pairs, found.failed) == (500, 11)  # garbage is no win
    assert found.measures["tie_rate"].value == pytest.approx(17 / 489)
    assert found.measures["position_bias"].reason == "no pair was judged in both orders"
    assert "calipers rank" in str(found.measures["win_rate_a"].reason)
