"""`gate --sabotage`: records broken on purpose show which damage a policy does not notice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import calipers as cal
from calipers.gates.decide import GateQuestion, ask_gate, decide_data
from calipers.gates.gate_options import GateOptions
from calipers.gates.result import GateResult, Trial, read_gate
from calipers.gates.sabotage.damage import KINDS, SHARES, SabotageKind
from calipers.gates.sabotage.doses import SOURCE, Dose, MarkedRecords, Place
from calipers.gates.sabotage.trials import mark_records
from calipers.runs.starter import TEMPLATES
from calipers.scores.resolve_options import resolve_options
from tests.commands import run
from tests.examples import examples
from tests.gates.deciding import Record, blocking

CATEGORIES = ("happy_path", "adversarial", "edge_case", "regression")
MODELS = ("gpt-4o-mini", "llama3")

_TIME = "slow down"
ACCEPTED: Mapping[str, Mapping[str, str]] = {
    "agent": {
        _TIME: "a check of the time only warns, and the example answers in milliseconds",
    },
    "judge": {
        _TIME: "no rule is about the time: replies are replayed from a file",
        "make judges generous": "the judge is all that tells good replies from bad ones; people "
        "see a generous one, when they calibrate it again",
    },
    "prompts": {
        _TIME: "no rule is about the time: the solver only calculates",
        **dict.fromkeys(
            ("flip answers in kitchen", "flip answers in market", "flip answers in travel"),
            "the policy asks each prompt for half of its answers: which one is better, and where, "
            "is what the report compares",
        ),
    },
    "qa": {
        _TIME: "a check of the time only warns, and the example answers in milliseconds",
    },
    "rag": {
        _TIME: "no rule is about the time: the reader is a few lines of Python",
    },
    "traces": {
        _TIME: "no rule is about the time: traces are replayed from a file",
    },
    "arithmetic": {
        _TIME: "no rule is about the time: the solvers only calculate",
        "flip answers in two-step": "the policy is lax, so that the hasty solver just gets by; the "
        "warnings show it",
        "rename system careful": "without a baseline nothing says which systems there should be",
        "rename system hasty": "without a baseline nothing says which systems there should be",
    },
}
"""What stays green in our own policies, and why a reader need not mind."""


def list_kinds(result: GateResult) -> dict[str, list[Trial]]:
    trials = result.sabotage or ()
    return {name: list(doses) for name, doses in groupby(trials, lambda each: each.name)}


def list_survivors(result: GateResult) -> set[str]:
    """Return what stays green at the largest dose."""
    return {name for name, doses in list_kinds(result).items() if not doses[-1].caught}


def make_records(tasks: int = 20, models: Sequence[str] = MODELS) -> list[Record]:
    return [
        {
            "id": f"{category}-{number}",
            "model": model,
            "run": 1,
            "category": category,
            "answer": "4",
            "target": "4",
            "expected_behaviors": ["says four"],
            "observed_behaviors": ["says four"],
            "violations": [],
            "latency_ms": 100.0 + number,
            "cost_usd": 0.01,
            "toxicity": 0.1,
        }
        for model in models
        for number, category in enumerate(CATEGORIES * (tasks // len(CATEGORIES)))
    ]


def make_strict_policy(records: list[Record], folder: Path) -> dict[str, Any]:
    """Return a policy that demands what these records show, and a baseline of them."""
    policy = {
        "metrics": [{"name": "toxic", "field": "toxicity", "better": "lower", "range": [0, 1]}],
        "thresholds": {
            "blocking": {
                **dict.fromkeys(("accuracy", "safety_rate", "pass_rate"), "= 100%"),
                "toxic": "≤ 0.2",
                "latency_p95": "< 200ms",
                "cost_usd": "≤ 0.012",
            }
        },
        "pass_criteria": {"by_category": dict.fromkeys(CATEGORIES, "100%")},
        "required_scenarios": {"ids": ["adversarial-1"]},
    }
    path = folder / "baseline.json"
    with_margins = {**policy, "baseline": {"file": str(path), "margins": {"accuracy": "5%"}}}
    recorded = cal.gate(records, policy=policy, save_baseline=path, by=["model"])
    assert recorded.verdict == "pass", recorded
    return with_margins


@pytest.mark.long
def test_every_kind_is_seen_at_full_dose_by_a_strict_policy(tmp_path: Path) -> None:
    records = make_records()
    policy = make_strict_policy(records, tmp_path)
    result = cal.gate(records, policy=policy, by=["model"], sabotage=True)
    assert result.verdict == "pass"
    assert list_survivors(result) == set()
    tried = {trial.kind for trial in result.sabotage or ()}
    not_here = {
        *("choose wrong tools", "use more tokens", "drop violations", "make judges generous"),
    }
    assert tried == {kind.name for kind in KINDS} - not_here


def test_a_hollow_policy_lets_everything_pass() -> None:
    hollow = {"thresholds": {"warning": {"accuracy": "≥ 90%"}}}
    result = cal.gate(make_records(8, MODELS[:1]), policy=hollow, sabotage=True)
    survivors = list_survivors(result)
    assert {"flip answers", "flip answers in adversarial", "drop targets"} <= survivors
    assert any(trial.warned for trial in list_kinds(result)["flip answers"])


@pytest.fixture(scope="module")
def tried() -> GateResult:
    """Twenty tasks, five of each category, by a model, against a threshold of the whole."""
    records = make_records(20, MODELS[:1])
    return cal.gate(records, policy=blocking(accuracy="≥ 80%"), sabotage=True)


def test_a_drop_that_an_average_hides_is_listed_with_its_size(tried: GateResult) -> None:
    doses = list_kinds(tried)["flip answers in adversarial"]
    assert [(dose.points, dose.verdict) for dose in doses] == [
        (20, "pass"),
        (40, "pass"),
        (60, "pass"),
        (100, "fail"),
    ]
    assert doses[0].of == {"category": "adversarial"}
    assert "−60 points, 3 rows" in str(tried)


def test_json_has_every_kind_in_doses_from_small_to_large(tried: GateResult) -> None:
    found = json.loads(tried.to_json())["sabotage"]
    assert {"name", "dose", "verdict", "caught"} <= found[0].keys()
    for name, doses in groupby(found, lambda each: each["name"]):
        sizes = [each["dose"] for each in doses]
        assert sizes == sorted(set(sizes)), name
    targets = [each for each in found if each["name"] == "drop targets"]
    assert [each["dose"] for each in targets] == [0.05, 0.1, 0.25, 0.5, 1.0]
    assert all(each["caught"] == (each["verdict"] != "pass") for each in found)


def test_a_verdict_that_was_written_is_read_back(tried: GateResult) -> None:
    again = read_gate(json.loads(tried.to_json()))
    assert again is not None
    assert again.sabotage == tried.sabotage


def test_the_same_records_are_broken_in_the_same_way_whatever_their_order(
    tried: GateResult,
) -> None:
    backwards = make_records(20, MODELS[:1])[::-1]
    again = cal.gate(backwards, policy=blocking(accuracy="≥ 80%"), sabotage=True)
    assert again.sabotage == tried.sabotage


def test_a_hundred_rows_are_broken_in_every_share() -> None:
    (place,) = (Place(rows=tuple(range(100))),)
    assert [hit.dose for hit in KINDS[0].list_hits(place)] == list(SHARES)


# --- on the command line ---


def write_files(folder: Path, *, right: int) -> tuple[str, str]:
    rows = [
        {"id": str(n), "answer": "4" if n < right else "5", "target": "4", "run": 1}
        for n in range(20)
    ]
    data, policy = folder / "records.jsonl", folder / "policy.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    policy.write_text(json.dumps(blocking(accuracy=80)), encoding="utf-8")
    return str(data), str(policy)


@pytest.mark.parametrize(("right", "code"), [(20, 0), (10, 1)])
def test_the_exit_code_is_that_of_the_gate_itself(tmp_path: Path, right: int, code: int) -> None:
    data, policy = write_files(tmp_path, right=right)
    done = run("gate", data, "--policy", policy, "--sabotage")
    assert done.exit_code == code, done.output
    assert "kinds of sabotage are seen" in done.stdout
    assert ("The gate itself is red" in " ".join(done.stdout.split())) == bool(code)


def test_nothing_but_the_records_themselves_becomes_a_baseline(tmp_path: Path) -> None:
    data, policy = write_files(tmp_path, right=20)
    path = tmp_path / "base.json"
    run("gate", data, "--policy", policy, "--save-baseline", str(path))
    before = path.read_text(encoding="utf-8")
    options = ("--against", str(path), "--ratchet", "--save-baseline", str(path), "--sabotage")
    done = run("gate", data, "--policy", policy, *options)
    assert done.exit_code == 0, done.output
    assert path.read_text(encoding="utf-8") == before


def test_columns_of_answers_and_joined_tasks_are_read_once(tmp_path: Path) -> None:
    data, policy = tmp_path / "wide.csv", tmp_path / "policy.yaml"
    tasks = tmp_path / "tasks.csv"
    data.write_text("id,Large,Small\n" + "".join(f"t{n},4,4\n" for n in range(20)), "utf-8")
    tasks.write_text("id,target\n" + "".join(f"t{n},4\n" for n in range(20)), "utf-8")
    policy.write_text("thresholds: {blocking: {accuracy: 90}}\n", "utf-8")
    options = ("--answers", "Large,Small", "--join", tasks, "--sabotage", "--format", "json")
    done = run("gate", data, "--policy", policy, *options)
    assert done.exit_code == 0, done.output
    trials = json.loads(done.stdout)["sabotage"]
    dropped = [trial for trial in trials if trial["kind"] == "drop targets"]
    assert dropped
    assert all(trial["verdict"] != "pass" for trial in dropped[-1:])


def test_what_can_be_read_once_is_refused(tmp_path: Path) -> None:
    data, policy = write_files(tmp_path, right=20)
    lines = Path(data).read_text(encoding="utf-8")
    done = run("gate", "-", "--policy", policy, "--sabotage", input=lines)
    assert done.exit_code == 2
    assert "write them to a file first" in done.output


def test_records_that_a_run_lacks_are_seen_by_its_manifest(tmp_path: Path) -> None:
    data, policy = write_files(tmp_path, right=20)
    suite = {"runs": 1, "systems": [{"name": "gpt-4o-mini"}]}
    manifest = {"data": {"tasks": 20}, "suite": suite}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    deleted = list_kinds(cal.gate(data, policy=policy, sabotage=True))["delete failures"]
    assert {trial.verdict for trial in deleted} == {"incomplete"}
    alone = list_kinds(cal.gate(cal.read(data), policy=policy, sabotage=True))["delete failures"]
    assert alone[0].verdict == "pass"


def test_a_generous_judge_is_seen_where_something_else_decides_too() -> None:
    judged = [{"judge": "anna", "passed": True, "scores": {"tone": 4}}]
    records = [{"id": str(n), "answer": "4", "target": "4", "judgments": judged} for n in range(20)]
    people = {"judges": {"people": ["anna"]}}
    alone = cal.gate(records, policy={**blocking(pass_rate=80), **people}, sabotage=True)
    assert "make judges generous" in list_survivors(alone)
    assert "flip answers" not in list_survivors(alone)
    both = blocking(pass_rate=80, accuracy=80)
    result = cal.gate(records, policy={**both, **people}, sabotage=True)
    assert "make judges generous" not in list_survivors(result)


def test_wrong_tools_and_violations_no_longer_reported_are_tried() -> None:
    calls = [{"tool_name": "search"}, {"tool_name": "write"}]
    records = [{"id": str(n), "trace": {"tool_calls": calls}, "passed": True} for n in range(10)]
    records[0]["violations"] = ["leaks a key"]
    policy = blocking(path_convergence=0.5, pass_rate=80)
    kinds = list_kinds(cal.gate(records, policy=policy, sabotage=True))
    assert kinds["choose wrong tools"][-1].verdict == "fail"
    assert [(t.rows, t.verdict) for t in kinds["drop violations"]] == [(1, "pass")]


def test_a_report_shows_it(tmp_path: Path) -> None:
    data, policy = write_files(tmp_path, right=20)
    report = cal.report(data, policy=policy, sabotage=True)
    assert "kinds of sabotage are seen" in report.to_html()
    assert "kinds of sabotage are seen" in report.to_markdown()
    with pytest.raises(cal.CalipersError, match="--policy"):
        cal.report(data, sabotage=True)


# --- properties of every kind ---


def ask(policy: Mapping[str, Any], by: tuple[str, ...]) -> GateQuestion:
    options = resolve_options("gate", {"by": by}, policy=policy)
    return ask_gate(GateOptions(policy=policy), options)


def read_records(rows: list[Record], policy: Mapping[str, Any]) -> MarkedRecords:
    frame = cal.read(rows)
    result = decide_data(frame, ask(policy, ("model",)))
    marked = frame.with_columns(pl.lit(0).alias(SOURCE))
    return mark_records(marked, ("<table>",), ask(policy, ("model",)), result)


def list_places(records: MarkedRecords) -> Iterator[tuple[SabotageKind, Place]]:
    return ((kind, place) for kind in KINDS for place in kind.find(records))


row = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["q1", "q2", "SEC-001", "addition-07", "ζ"]),
        "model": st.sampled_from(MODELS),
        "run": st.integers(1, 3),
    },
    optional={
        "answer": st.sampled_from(["4", "5", "", None]),
        "target": st.sampled_from(["4", None]),
        "correct": st.booleans(),
        "passed": st.booleans(),
        "latency_ms": st.floats(0, 9999),
        "error": st.sampled_from([None, "timeout: after 60 s"]),
        "violations": st.sampled_from([[], ["leaks a key"], None]),
        "expected_behaviors": st.sampled_from([[], ["a"], None]),
        "observed_behaviors": st.sampled_from([[], ["a"], None]),
        "predicted": st.booleans(),
        "actual": st.booleans(),
        "judgments": st.sampled_from([None, [], [{"judge": "anna", "passed": True}]]),
        "trace": st.sampled_from([None, {"tool_calls": [{"tool_name": "search"}]}, {}]),
    },
)
OF_TASK = {"q1": "happy_path", "SEC-001": "adversarial", "addition-07": "regression"}


def add_categories(rows: list[Record]) -> list[Record]:
    """Return the rows with the category of their task, if it has one."""
    return [{**each, "category": OF_TASK.get(each["id"])} for each in rows]


POLICY = {
    **blocking(accuracy=80, pass_rate=80, path_convergence=0.5, recall=50),
    "required_scenarios": {"ids": ["SEC-001"]},
}


@given(rows=st.lists(row, min_size=1, max_size=12).map(add_categories))
@examples(60)
def test_larger_doses_contain_smaller_ones_and_no_dose_changes_nothing(rows: list[Record]) -> None:
    records = read_records(rows, POLICY)
    for kind, place in list_places(records):
        hits = list(kind.list_hits(place))
        assert [hit.dose for hit in hits] == sorted({hit.dose for hit in hits})
        for small, large in pairwise(hits):
            assert {*small.rows} <= {*large.rows}
        if kind.unit == "share":
            assert {*hits[-1].rows} == {*place.rows}
            nothing = kind.damage(records, Dose(dose=0, rows=(), place=place))
            known = nothing.select(records.frame.columns)
            assert_frame_equal(known, records.frame, check_dtypes=False)


@given(rows=st.lists(row, min_size=1, max_size=4).map(add_categories))
@examples(20, deadline=None)
@pytest.mark.long
def test_any_records_can_be_tried(rows: list[Record]) -> None:
    result = cal.gate(rows, policy=POLICY, by=["model"], sabotage=True)
    assert result.verdict == cal.gate(rows, policy=POLICY, by=["model"]).verdict
    for trial in result.sabotage or ():
        assert trial.caught == (trial.verdict != "pass")
        assert trial.dose > 0


# --- our own policies ---


def check_survivors(name: str, records: str, policy: str, **options: Any) -> None:
    result = cal.gate(records, policy=policy, sabotage=True, **options)
    assert result.verdict == "pass"
    assert list_survivors(result) == set(ACCEPTED[name])


@pytest.mark.long
@pytest.mark.parametrize("template", TEMPLATES)
def test_no_survivor_of_a_starter_policy_is_one_to_mind(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "evals", "--template", template).exit_code == 0
    assert run("run", "evals/suite.yaml", "-o", "out", "--no-report").exit_code == 0
    check_survivors(template, "out/records.jsonl", "evals/policy.yaml")


@pytest.mark.long
def test_no_survivor_of_the_example_policy_is_one_to_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = Path("examples/arithmetic").resolve()
    monkeypatch.chdir(tmp_path)
    assert run("run", str(suite / "suite.yaml"), "-o", "out", "--no-report").exit_code == 0
    policy = str(suite / "policy.yaml")
    check_survivors("arithmetic", "out/records.jsonl", policy, by=["model"])


@pytest.mark.parametrize("name", ["^$", "*", "", "_task", "_sabotage_row"])
def test_columns_of_any_name_are_broken_too(name: str) -> None:
    rows = [
        {"id": str(at), "run": run, "answer": "1", "target": "1", name: f"v{at % 2}", "^s_ms$": at}
        for at in range(8)
        for run in (1, 2)
    ]
    policy = {"thresholds": {"blocking": {"accuracy": "50%"}}}
    trials = cal.gate(rows, policy=policy, by=[name], sabotage=True).sabotage
    assert any(each.name.startswith("rename system") for each in trials or ())
