"""Runs and judges that have not ended; what the checks of a policy forbid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calipers as cal
from benchmarks.model_server import ModelServer
from tests.commands import run
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines
from tests.judges.test_judging import judge as judge_files
from tests.red_stays_red.cases import Row, adversarial, blocking, gate_of, vote
from tests.runs.suites_at_hand import SuiteFolder, suite_folder


def run_of_a_part(tmp_path: Path) -> SuiteFolder:
    """Three of six calls were made, all answered rightly: `run` says incomplete."""
    (tmp_path / "system.py").write_text("def answer(record):\n    return {'answer': '4'}\n")
    (tmp_path / "policy.json").write_text(json.dumps(blocking(accuracy=90)), encoding="utf-8")
    tasks = [{"id": f"t{n}", "input": "2 + 2", "target": "4"} for n in range(6)]
    system = {"name": "s", "python": "system.py:answer"}
    more = {"policy": "policy.json", "budget_calls": 3, "concurrency": 1}
    folder = suite_folder(tmp_path, tasks, [system], **more)
    assert folder.run().exit_code == 3
    assert len(folder.records()) == 3
    return folder


def test_the_journal_of_a_part_of_a_run_is_no_pass(tmp_path: Path) -> None:
    folder = run_of_a_part(tmp_path)
    journal = folder.results / "records.jsonl"
    told = run("gate", journal, "--policy", tmp_path / "policy.json", "--format", "json")
    assert told.exit_code == 3
    assert json.loads(told.stdout)["incomplete"] == ["3 calls were not made"]
    (tmp_path / "link.jsonl").symlink_to(journal)
    assert cal.gate(tmp_path / "link.jsonl", policy=blocking(accuracy=90)).exit_code == 3
    whole_one = write_lines(tmp_path / "other.jsonl", folder.records())
    both = cal.gate([str(whole_one), str(journal)], policy=blocking(accuracy=90))
    assert f"{journal}: 3 calls were not made" in both.incomplete
    lacking = f"{journal}: 3 calls were not made"
    assert lacking in cal.score(journal).notices
    assert lacking in cal.compare(whole_one, journal).notices
    made = cal.report(folder.results, policy=blocking(accuracy=90)).gate
    assert made is not None
    assert made.verdict == "incomplete"
    folder.write(budget_calls=6).run()
    assert cal.gate(journal, policy=blocking(accuracy=90)).exit_code == 0


def test_a_call_with_two_lines_does_not_stand_in_for_one_that_was_not_made(tmp_path: Path) -> None:
    folder = run_of_a_part(tmp_path)
    journal = write_lines(folder.results / "records.jsonl", folder.records() * 2)
    found = cal.gate(journal, policy=blocking(accuracy=90)).incomplete
    assert found[0] == "3 calls were not made"
    assert "one run recorded twice" in found[1]


def test_a_record_that_no_judge_was_asked_about_is_no_pass(tmp_path: Path) -> None:
    """The agent says that it passed; judges were to read its answers, and the budget is spent."""
    rows = [{"id": f"r{n}", "answer": "Yes. QUALITY=5", "passed": True} for n in range(3)]
    write_lines(tmp_path / "records.jsonl", rows)
    out = tmp_path / "judged.jsonl"
    with ModelServer().in_thread() as url:
        few = ("--budget-calls", "1", "--concurrency", "1")
        assert judge_files(tmp_path, url, "good", "constructiveness", *few).exit_code == 3
        found = cal.gate(out, policy=blocking(pass_rate=90))
        assert (found.exit_code, found.incomplete) == (3, ("2 judgments were not made",))
        assert judge_files(tmp_path, url).exit_code == 0
    assert cal.gate(out, policy=blocking(pass_rate=90)).exit_code == 0


@pytest.mark.parametrize("times", [1, 2])
def test_judges_do_not_complete_a_run_of_which_calls_are_missing(
    tmp_path: Path, times: int
) -> None:
    folder = run_of_a_part(tmp_path)
    files = [folder.results / "records.jsonl", tmp_path / "judged.jsonl", tmp_path / "twice.jsonl"]
    with ModelServer().in_thread() as url:
        for place in range(times):
            judge = (
                "--rubric",
                "constructiveness",
                "--model",
                "openai:judge-good",
                "--base-url",
                url,
            )
            done = run("judge", files[place], *judge, "-o", files[place + 1])
            assert done.exit_code == 0, done.output
    found = cal.gate(files[times], policy=blocking(accuracy=90))
    assert (found.exit_code, found.incomplete) == (3, ("3 calls were not made",))


def test_convert_tells_what_a_run_lacks(tmp_path: Path) -> None:
    journal = run_of_a_part(tmp_path).results / "records.jsonl"
    done = run("convert", journal, "-o", tmp_path / "records.parquet")
    assert "3 calls were not made" in done.stderr


def test_an_output_from_before_its_judges_were_interrupted_is_no_pass(tmp_path: Path) -> None:
    out = write_lines(tmp_path / "judged.jsonl", [{"id": "a", "passed": True}])
    journal: list[Row] = [{"schema": "calipers.judges/1", "judges": []}, {"written": 0}]
    write_lines(tmp_path / "judged.jsonl.journal", journal)
    assert cal.gate(out, policy=blocking(pass_rate=90)).exit_code == 0
    write_lines(tmp_path / "judged.jsonl.journal", [*journal, {"written": None}])
    assert cal.gate(out, policy=blocking(pass_rate=90)).exit_code == 3


def test_a_log_of_a_run_that_did_not_finish_is_no_pass(tmp_path: Path) -> None:
    sample = {"id": "a", "epoch": 1, "input": "?", "target": "4", "scores": {"s": {"value": "C"}}}
    log = {"version": 2, "status": "cancelled", "eval": {"task": "t", "model": "m"}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**log, "samples": [sample]}))
    found = cal.gate(path, policy=blocking(accuracy=90))
    assert found.incomplete == ("the run did not finish, samples may be missing",)
    path.write_text(json.dumps({**log, "status": "success", "samples": [sample]}))
    assert cal.gate(path, policy=blocking(accuracy=90)).exit_code == 0


def test_an_empty_file_among_others_is_no_pass(tmp_path: Path) -> None:
    good = write_lines(tmp_path / "good.jsonl", [{"id": "a", "passed": True}])
    empty = write_lines(tmp_path / "empty.jsonl", [])
    found = cal.gate([good, empty], policy=blocking(pass_rate=90))
    assert (found.exit_code, found.incomplete) == (3, (f"{empty}: there are no records",))


def test_a_check_that_rests_on_a_part_of_the_records_says_so() -> None:
    rows = [{"id": str(n), "passed": True, "cost_usd": 1 if n == 0 else None} for n in range(10)]
    said = "cost_usd: 9 of 10 records have no value and are left out"
    assert said in gate_of(rows, blocking(cost_usd=2)).notices
    assert said not in gate_of(rows[:1], blocking(cost_usd=2)).notices


def test_a_map_that_hides_a_field_says_so() -> None:
    rows = [{"id": "a", "passed": True, "violations": ["leak"], "mine": []}]
    found = gate_of(rows, blocking(pass_rate=90), map={"violations": "mine"})
    assert "--map violations=mine: the records' own field violations is not read" in found.notices


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_a_recorded_pass_that_judges_deny_is_told(engine: str) -> None:
    rows = [adversarial(n, passed=True, judgments=[vote(passed=n > 1)]) for n in range(5)]
    found = gate_of(rows, blocking(safety_rate=100), engine=engine)
    assert any("2 records have `passed: true` where the judges say no" in n for n in found.notices)


def test_a_baseline_that_nothing_is_compared_with_is_no_pass(tmp_path: Path) -> None:
    """Recorded by model and gated without `--by`, other checks are green and nothing is compared."""
    rows = [{"id": str(n), "model": "m", "correct": True} for n in range(20)]
    rules = blocking(accuracy=50) | {"baseline": {"margins": {"accuracy": "5%"}}}
    cal.gate(rows, policy=rules, by="model", save_baseline=tmp_path / "base.json")
    against: Row = {"policy": rules, "against": tmp_path / "base.json"}
    assert cal.gate(rows, by="model", **against).exit_code == 0
    found = cal.gate([row | {"correct": False} for row in rows[:5]] + rows[5:], **against)
    assert found.exit_code == 3
    assert any("nothing was compared with the baseline" in why for why in found.incomplete)


def test_tasks_that_are_gone_since_the_baseline_are_told(tmp_path: Path) -> None:
    """A run that leaves out the tasks it fails does not pass against its baseline."""
    rows = [{"id": str(n), "passed": n < 90} for n in range(100)]
    policy = {"baseline": {"margins": {"pass_rate": "10%"}}}
    base = tmp_path / "base.json"
    cal.gate(rows, policy=policy, save_baseline=base)
    many = cal.gate(rows[:90], policy=policy, against=base)
    assert (many.verdict, many.exit_code) == ("incomplete", 3)
    assert many.incomplete[0].startswith("10 of 100 tasks of the baseline are not in this run")
    few = cal.gate(rows[:91], policy=policy, against=base)
    assert (few.verdict, few.incomplete) == ("pass", ())
    assert any("9 of 100 tasks of the baseline are not in" in each for each in few.notices)
    whole_run = cal.gate(rows, policy=policy, against=base)
    assert not any("not in this run" in each for each in whole_run.notices)
    worse = cal.gate([row | {"passed": False} for row in rows[:80]], policy=policy, against=base)
    assert worse.exit_code == 1
    again = cal.gate(rows[:50], policy=policy, against=base, save_baseline=base)
    assert again.exit_code == 0
    assert cal.gate(rows[:50], policy=policy, against=base).exit_code == 0


def test_a_group_whose_tasks_are_gone_is_named(tmp_path: Path) -> None:
    rows = [{"id": str(n), "model": m, "passed": True} for n in range(20) for m in "ab"]
    base = tmp_path / "base.json"
    cal.gate(rows, policy={}, by="model", save_baseline=base)
    found = cal.gate(rows[:-3], policy={"baseline": {}}, by="model", against=base)
    assert found.exit_code == 3
    assert found.incomplete[0].startswith("2 of 20 tasks of the baseline are not in this run (b)")


@pytest.mark.parametrize(
    ("row", "check"),
    [
        ({"answer": None}, {"pii": ["email"]}),
        ({"answer": "fine"}, {"max_latency_ms": 100}),
        ({"answer": "fine"}, {"judge": "politeness"}),
    ],
)
def test_a_forbidden_thing_that_cannot_be_checked_is_no_pass(row: Row, check: Row) -> None:
    policy = {**blocking(pass_rate=50), "checks": [{"forbid": "harm", **check}]}
    rows = [{"id": "a", "answer": "fine", "passed": True}, {"id": "b", **row, "passed": True}]
    found = gate_of(rows, policy)
    assert found.exit_code != 0
    assert "undecided" in str(found.checks[0].reason)


def test_what_a_check_of_the_policy_forbids_fails_whatever_is_recorded() -> None:
    policy = {**blocking(pass_rate=100), "checks": [{"forbid": "leaks", "pii": ["email"]}]}
    found = gate_of([{"id": "a", "answer": "joe@example.com", "passed": True}], policy)
    assert (found.verdict, found.checks[0].value) == ("fail", 0)
