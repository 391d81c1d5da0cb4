"""`calipers judge --setting`, `--budget-calls` and `--budget-usd`, over real HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers
from benchmarks.model_server import ModelServer
from calipers.judges.judge_spec import JudgeSpec
from calipers.records.nested_fields import identify_judge
from tests.files import write_lines
from tests.judges.test_judging import judge, judgments, reviews

pytestmark = pytest.mark.usefixtures("quick")

RUBRIC = "constructiveness"


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> None:
    write_lines(tmp_path / "records.jsonl", reviews(6))


def prices(folder: Path) -> str:
    path = folder / "prices.yaml"
    path.write_text("judge-good: {input: 1000, output: 1000}\n", encoding="utf-8")
    return str(path)


def test_the_temperature_is_0_unless_something_else_is_said(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        assert judge(tmp_path, url).exit_code == 0
    assert {request["temperature"] for request in server.requests} == {0}
    assert all("settings" not in each for each in judgments(tmp_path))


def test_settings_reach_the_model_and_make_another_judge(tmp_path: Path) -> None:
    server = ModelServer()
    more = ("--setting", "temperature=0.7", "--setting", "max_tokens=300", "--setting", "stop=END")
    with server.in_thread() as url:
        assert judge(tmp_path, url, "good", RUBRIC, *more).exit_code == 0
        again = judge(tmp_path, url)
    body = server.requests[0]
    assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.7, 300, "END")
    found = judgments(tmp_path)[0]
    assert found["settings"] == {"temperature": 0.7, "max_tokens": 300, "stop": "END"}
    assert (
        identify_judge(found)[0] == "openai:judge-good, max_tokens 300, stop END, temperature 0.7"
    )
    assert again.exit_code == 2
    assert "it was begun with another model" in again.stderr


def test_samples_are_not_all_alike(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        assert judge(tmp_path, url, "good", RUBRIC, "--samples", "2").exit_code == 0
    assert all("temperature" not in request for request in server.requests)


def test_a_model_that_takes_no_temperature_is_asked_without(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        result = judge(tmp_path, url, "reasoning", RUBRIC, "--concurrency", "1")
    assert result.exit_code == 0, result.stderr
    assert [("temperature" in request) for request in server.requests] == [True, *[False] * 6]
    assert all("response_format" in request for request in server.requests)


def test_a_temperature_that_was_asked_for_is_not_left_out(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        result = judge(tmp_path, url, "reasoning", RUBRIC, "--setting", "temperature=0.5")
    assert result.exit_code == 3
    assert "'temperature' is not supported" in result.stderr


@pytest.mark.parametrize("given", ["temperature", "=1", "api_key=x"])
def test_a_setting_that_is_none_is_a_mistake(tmp_path: Path, given: str) -> None:
    result = judge(tmp_path, "http://127.0.0.1:9/v1", "good", RUBRIC, "--setting", given)
    assert result.exit_code == 2


def test_settings_are_part_of_what_is_cached(tmp_path: Path) -> None:
    cache = ("--cache", str(tmp_path / "cache"))
    server = ModelServer()
    with server.in_thread() as url:
        for name, more in (("a", ()), ("b", ()), ("c", ("--setting", "temperature=1"))):
            (tmp_path / name).mkdir()
            write_lines(tmp_path / name / "records.jsonl", reviews(2))
            assert judge(tmp_path / name, url, "good", RUBRIC, *cache, *more).exit_code == 0
    assert sum(server.asked.values()) == 4
    assert judgments(tmp_path / "b")[0]["cached"] is True


def test_who_answers_for_a_cascade_says_its_settings() -> None:
    given = {"name": "j", "model": "openai:a", "rubric": "r", "settings": {"temperature": 1}}
    judge = JudgeSpec.model_validate({**given, "escalate": {"model": "openai:b"}})
    assert judge.answerable == "openai:a, temperature 1 → openai:b (near 0.1)"
    assert (
        JudgeSpec.model_validate({**given, "settings": {"temperature": 0}}).answerable == "openai:a"
    )


def test_calls_stop_at_their_budget_and_go_on_with_a_larger_one(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        first = judge(tmp_path, url, "good", RUBRIC, "--budget-calls", "4")
        assert sum(server.asked.values()) == 4
        again = judge(tmp_path, url, "good", RUBRIC, "--budget-calls", "4")
        assert sum(server.asked.values()) == 4
        last = judge(tmp_path, url, "good", RUBRIC, "--budget-calls", "6")
    assert (first.exit_code, again.exit_code, last.exit_code) == (3, 3, 0)
    assert "4 of 6 records judged" in first.stderr
    assert "incomplete (the budget is spent)" in first.stderr
    assert "a larger budget" in first.stderr
    assert sum(server.asked.values()) == 6
    assert len(judgments(tmp_path)) == 6


def test_answers_that_are_refused_count_as_calls(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        more = ("--budget-calls", "4", "--concurrency", "1")
        result = judge(tmp_path, url, "broken", RUBRIC, *more)
    assert result.exit_code == 3
    assert sum(server.asked.values()) == 4
    reasons = [each["reason"] for each in judgments(tmp_path)]
    assert reasons[0].startswith("3 answers were refused")
    assert reasons[1] == "the budget is spent"


def test_dollars_stop_before_the_budget_is_passed(tmp_path: Path) -> None:
    server = ModelServer()
    given = ("--prices", prices(tmp_path))
    with server.in_thread() as url:
        whole = judge(tmp_path, url, "good", RUBRIC, *given)
        assert whole.exit_code == 0, whole.stderr
        costs = [each["cost_usd"] for each in judgments(tmp_path)]
        (tmp_path / "judged.jsonl").unlink()
        (tmp_path / "judged.jsonl.journal").unlink()
        budget = sum(costs) / 2
        half = judge(tmp_path, url, "good", RUBRIC, *given, "--budget-usd", str(budget))
    assert half.exit_code == 3
    spent = [each["cost_usd"] for each in judgments(tmp_path)]
    assert 0 < sum(spent) <= budget
    assert 1 <= len(spent) < 6


def test_dollars_need_prices(tmp_path: Path) -> None:
    result = judge(tmp_path, "http://127.0.0.1:9/v1", "good", RUBRIC, "--budget-usd", "1")
    assert result.exit_code == 2
    assert "no price is known for the judge" in result.stderr


def test_the_same_from_python(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        result = calipers.judge_records(
            tmp_path / "records.jsonl",
            tmp_path / "judged.jsonl",
            rubric=RUBRIC,
            model="openai:judge-good",
            base_url=url,
            settings={"temperature": 0.2},
            budget_calls=2,
        )
    assert (result.judged, result.spent, result.exit_code) == (2, True, 3)
    assert {request["temperature"] for request in server.requests} == {0.2}
    with pytest.raises(calipers.UsageError, match="--budget-calls 0: must be at least 1"):
        calipers.judge_records("a", "b", rubric=RUBRIC, model="openai:m", budget_calls=0)
