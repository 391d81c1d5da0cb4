"""Names are free: any two texts are kept apart and sorted, in every command that groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.scores.groups import sort_keys
from calipers.support.names import split_natural
from tests.commands import run
from tests.shared_data import FOLDER

PAIRS = [("llama", "llama3"), ("v", "v1"), ("model", "model2"), ("a b", "a b2"), ("", "1")]
NAMES = st.text(alphabet=st.sampled_from("ab01９. -é🤖"), max_size=6) | st.text(max_size=12)


def rows_of(*names: str) -> list[dict[str, str]]:
    return [
        {"id": str(n), "answer": "1", "target": "1", "model": name}
        for name in names
        for n in range(5)
    ]


@given(st.lists(NAMES, unique=True))
def test_any_texts_can_be_sorted_and_the_order_does_not_depend_on_the_start(
    names: list[str],
) -> None:
    ordered = sorted(names, key=split_natural)
    turned = names[::-1]
    assert sorted(turned, key=split_natural) == ordered
    assert sorted(ordered) == sorted(names)


@given(st.lists(st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | NAMES))
def test_groups_of_any_values_can_be_sorted(values: list[object]) -> None:
    groups = {json.dumps({"model": value}) for value in values}
    assert set(sort_keys(groups, ["model"])) == groups


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_name_and_the_same_with_a_number_are_two_systems(pair: tuple[str, str]) -> None:
    first, second = pair
    assert sorted([second, first], key=split_natural) == [first, second]
    rows = rows_of(second, first)
    score = cal.score(rows, by="model")
    assert [group.by["model"] for group in score.groups] == list(pair)
    assert len(cal.rank(rows, metrics=["accuracy"]).metrics[0].systems) == 2
    assert cal.compare(rows, between="model").pairs
    policy = {"thresholds": {"blocking": {"accuracy": "50%"}}}
    assert cal.gate(rows, policy=policy, by="model").verdict == "pass"


def test_the_names_of_the_world_are_scored_apart() -> None:
    """Real model names beside the checkout, or those above where there are none."""
    path = FOLDER / "names.txt"
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    names = list(dict.fromkeys(json.loads(line) for line in lines if line.startswith('"')))
    names = names or [name for pair in PAIRS for name in pair]
    score = cal.score(rows_of(*names), by="model")
    assert sorted(group.by["model"] for group in score.groups) == sorted(names)


@pytest.mark.parametrize("command", ["score", "rank", "report"])
def test_commands_take_them(command: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of("llama", "llama3")))
    more = ["-o", str(tmp_path / "r.html")] if command == "report" else ["--by", "model"]
    assert run(command, str(path), *more).exit_code == 0


def categorise(*names: str) -> list[dict[str, str | bool]]:
    return [
        {**row, "id": row["id"] + row["model"], "category": row["model"], "passed": True}
        for row in rows_of(*names)
    ]


LOOK_ALIKE = ["", " ", " a", "a ", "a", "a\tb", "a\nb"]


def test_names_that_cannot_be_seen_are_shown_in_quotes() -> None:
    shown = str(cal.score(rows_of(*LOOK_ALIKE), by="model", metrics=["accuracy"]))
    for name in ('""', '" "', '" a"', '"a "'):
        assert name in shown
    ranking = str(cal.rank(rows_of(*LOOK_ALIKE), metrics=["accuracy"]))
    assert '"a "' in ranking
    rows = categorise("", "a ")
    policy = {"pass_criteria": {"by_category": {"": "50%", "a ": "50%"}}}
    gated = str(cal.gate(rows, policy=policy))
    assert '""' in gated
    assert '"a "' in gated
    pair = cal.compare(rows_of("", "a "), between="model", metrics=["accuracy"])
    assert '"" → "a "' in str(pair)


def test_names_that_look_alike_lose_no_value_and_no_warning() -> None:
    rows = [
        {**row, "category": category} if row["id"] != "0" else {**row, "error": "timeout: late"}
        for category in ("a\tb", "a\nb")
        for row in rows_of("a\tb", "a\nb")
    ]
    shown = str(cal.score(rows_of("a\tb", "a\nb"), by="model", metrics=["accuracy"]))
    assert shown.count("a\ufffdb") == 2
    failed = cal.score([row for row in rows if "error" in row], by="model")
    assert str(failed).count("! a\ufffdb") == 2
    page = cal.report(rows, by=["model", "category"]).to_html()
    assert page.count("a\ufffdb") >= 4


def test_an_empty_text_and_no_value_are_two_in_csv() -> None:
    rows = [*rows_of(""), {"id": "0", "answer": "1", "target": "1"}]
    lines = cal.score(rows, by="model", metrics=["accuracy"]).to_csv().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ['""', ""]


def test_an_empty_text_can_be_the_base_the_baseline_and_a_required_task() -> None:
    rows = [{**row, "tier": row["model"], "passed": True} for row in rows_of("", "a", "b")]
    compared = cal.compare(rows, between="model", base="", metrics=["accuracy"])
    assert [(pair.base, pair.candidate) for pair in compared.pairs] == [("", "a"), ("", "b")]
    scored = cal.score(rows, by="tier", profile="tiers", baseline="")
    assert scored.to_dict()["tiers"]["baseline"] == ""
    assert set(scored.to_dict()["tiers"]["uplift"]) == {"a", "b"}
    named = [{**row, "id": ""} for row in rows if row["id"] == "0"]
    policy = {"required_scenarios": {"ids": [""]}}
    assert cal.gate(named, policy=policy).verdict == "pass"
    assert cal.gate(rows, policy=policy).verdict == "fail"


def test_categories_that_a_policy_names_apart_are_apart() -> None:
    names = ("é", "e\u0301", "", " ")
    rows = categorise(*names)
    policy = {"pass_criteria": {"by_category": dict.fromkeys(names, "50%")}}
    assert cal.gate(rows, policy=policy).verdict == "pass"


# Patterns of names to Polars, columns of our own, and the names of features.
COLUMNS = [
    "*",
    "^.*$",
    "^model$",
    "_group",
    "_task",
    "_by_model",
    "_has_id",
    "squared_error",
    "file",
]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_may_have_any_name(name: str, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "model": model, "answer": "1", "target": str(n % 2), "prob_correct": 0.5}
        | {name: n * n}
        for model in ("llama", "llama3")
        for n in range(6)
    ]
    mean = f"mean({name})"
    scored = cal.score(rows, by="model", metrics=[mean, "brier"])
    assert [group.metrics[mean].value for group in scored.groups] == [55 / 6] * 2
    compared = cal.compare(rows, between="model", metrics=[mean]).to_dict()
    assert compared["metrics"][mean]["base"] == pytest.approx(55 / 6)
    texts = [{**row, name: "ab"[row["target"] == "1"]} for row in rows]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in texts))
    grouped = cal.score(path, by=name, metrics=["accuracy", "brier"]).groups
    assert [(group.by, group.metrics["accuracy"].value) for group in grouped] == [
        ({name: "a"}, 0.0),
        ({name: "b"}, 1.0),
    ]
    again = [{**row, name: row["model"]} for row in rows]
    [ranked] = cal.rank(again, by=name, metrics=["brier"]).metrics
    assert [system.by for system in ranked.systems] == [{name: "llama"}, {name: "llama3"}]
    sides = cal.compare(again, between=name, metrics=["brier"]).to_dict()
    assert (sides["base"], sides["candidate"]) == ("llama", "llama3")


@pytest.mark.parametrize(
    "name", ["", " a", "a\nb", "\u202ea", "🧑\u200d🔬", "x" * 3000, "f(x)", "a[0]"]
)
def test_a_mean_may_be_of_any_column(name: str) -> None:
    rows = [{"id": str(n), name: n} for n in range(4)]
    [group] = cal.score(rows, metrics=[f"mean({name})"]).groups
    assert group.metrics[f"mean({name})"].value == 1.5


def test_errors_quote_names_whose_ends_cannot_be_seen_and_cut_long_ones() -> None:
    rows = [{"id": "1", " a": 1, "x" * 3000: 1}]
    with pytest.raises(cal.UsageError, match=r'in a\n  did you mean " a"\?'):
        cal.score(rows, metrics=["mean(a)"])
    with pytest.raises(cal.UsageError) as caught:
        cal.score(rows, by="y" * 3000)
    assert "(3,000 characters)" in str(caught.value)
    assert len(str(caught.value)) < 400
