"""Dollars and calls: stops before they are passed, over all runs of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.model_server import ModelServer
from tests.runs.suites_at_hand import ANSWER, chat, suite_folder, sums

pytestmark = pytest.mark.usefixtures("quick")

PRICE = {"input": 1000, "output": 1000}
# 3 tokens of prompt and 11 of reply, at 0.001 each.
CALL = 0.014


@pytest.mark.parametrize("settings", [{}, {"max_tokens": 15}])
def test_a_budget_is_never_passed_and_the_next_one_goes_on(
    tmp_path: Path, settings: dict[str, int]
) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        system = chat(url, price=PRICE, settings=settings)
        suite = suite_folder(
            tmp_path, sums(30), [system], answer=ANSWER, budget_usd=10 * CALL + 0.001
        )
        result = suite.run()
        assert result.exit_code == 3
        assert "the budget is spent" in result.stderr
        spent = sum(record["cost_usd"] for record in suite.records())
        assert 7 * CALL <= spent <= 10 * CALL + 0.001
        assert sum(server.asked.values()) == len(suite.records())
        assert suite.run().exit_code == 3  # nothing is left
        assert sum(record["cost_usd"] for record in suite.records()) <= 10 * CALL + 0.001
        done = len(suite.records())
        assert suite.write(budget_usd=50 * CALL).run().exit_code == 0
    records = suite.records()
    assert len(records) == 30 > done
    assert sum(server.asked.values()) == 30
    assert {round(record["cost_usd"], 9) for record in records} == {CALL}


def test_what_is_left_for_less_than_a_call_stays_there_in_later_runs_too(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(
            tmp_path, sums(30), [chat(url, price=PRICE)], budget_usd=5 * CALL + CALL / 2
        )
        for _ in range(3):
            assert suite.run().exit_code == 3
            assert sum(record["cost_usd"] for record in suite.records()) <= 5.5 * CALL
    assert sum(server.asked.values()) == len(suite.records())


def test_many_at_a_time_do_not_pass_it_either(tmp_path: Path) -> None:
    server = ModelServer(latency=0.05)
    with server.in_thread() as url:
        system = chat(url, price=PRICE, settings={"max_tokens": 20})
        suite = suite_folder(tmp_path, sums(64), [system], concurrency=64, budget_usd=0.2)
        assert suite.run().exit_code == 3
    assert sum(record["cost_usd"] for record in suite.records()) <= 0.2
    assert sum(server.asked.values()) == len(suite.records())


def test_a_budget_of_calls(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(30), [chat(url)], budget_calls=7)
        assert suite.run().exit_code == 3
        assert len(suite.records()) == sum(server.asked.values()) == 7
        assert suite.write(budget_calls=12).run().exit_code == 3
        assert len(suite.records()) == sum(server.asked.values()) == 12


def test_calls_that_were_made_anew_count_each_time(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import pathlib\n"
        "def answer(record):\n"
        "    with (pathlib.Path(__file__).parent / 'calls.txt').open('a') as file:\n"
        "        file.write('.')\n"
        "    raise ValueError('broken')\n"
    )
    system = {"name": "broken", "python": "broken.py:answer"}
    suite = suite_folder(tmp_path, sums(5), [system], budget_calls=12)
    for made in (5, 10, 12, 12):
        assert suite.run().exit_code == 3
        assert len((tmp_path / "calls.txt").read_text()) == made
    assert len(suite.records()) == 5


def test_an_unknown_price_is_a_mistake_before_any_call(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(2), [chat(url)], budget_usd=1.0)
        result = suite.run()
    assert result.exit_code == 2
    assert "no price is known for mini (openai:tiny)" in result.stderr
    assert not server.asked
    assert not suite.results.exists()


def test_unknown_costs_are_null_and_never_zero(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(2), [chat(url)])
        result = suite.run()
    assert "no price is known for mini" in result.stderr
    assert all("cost_usd" not in record for record in suite.records())


def test_what_a_program_reports_counts(tmp_path: Path) -> None:
    (tmp_path / "paid.py").write_text("def answer(record):\n    return {'cost_usd': 0.25}\n")
    system = {"name": "paid", "python": "paid.py:answer"}
    suite = suite_folder(tmp_path, sums(9), [system], budget_usd=1.1)
    assert suite.run().exit_code == 3
    assert len(suite.records()) == 4


def test_a_call_that_timed_out_may_have_been_charged_for(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "def answer(record):\n"
        "    is_first = record['id'] == 't0'\n"
        "    return {'cost_usd': 0.25} if is_first else {'error': 'timeout: no reply in 60 s'}\n"
    )
    system = {"name": "slow", "python": "slow.py:answer"}
    more = {"budget_usd": 1.0, "concurrency": 1, "retries": 0}
    suite = suite_folder(tmp_path, sums(9), [system], **more)
    assert suite.run().exit_code == 3
    assert len(suite.records()) == 3  # each later call counts as the $0.3125 that were reserved
    assert suite.json("manifest.json")["spent_usd"] == pytest.approx(0.875)


def test_a_dry_run_calls_nothing_and_says_what_it_may_cost(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        system = chat(url, price=PRICE, settings={"max_tokens": 20}, api_key_env="NOT_SET")
        suite = suite_folder(tmp_path, sums(30), [system], runs=4)
        result = suite.run("--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "120" in result.stdout
    assert "≤ 2,400" in result.stdout
    assert "$2.64" in result.stdout  # 240 tokens in, 2,400 out
    assert not server.asked
    assert not suite.results.exists()
