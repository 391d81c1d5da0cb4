"""Everything a suite can get wrong, and how a run ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from benchmarks.model_server import ModelServer
from tests.commands import run
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, chat, suite_folder, sums
from tests.runs.systems_at_hand import only, python

pytestmark = pytest.mark.usefixtures("quick")


class TestMistakes:
    """Everything is found before the first call, and told kindly."""

    def told(self, suite: SuiteFolder, code: int = 2) -> str:
        result = suite.run()
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.stderr
        journal = suite.results / "records.jsonl"
        assert not journal.exists() or not journal.stat().st_size
        return str(result.stderr)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"promt": "x"}, "did you mean prompt?"),
            ({"prompt": "{question}"}, "the prompt names {question}, and the task t0 has none"),
            ({"data": "none.jsonl"}, "none.jsonl: no such file"),
            ({"policy": "none.yaml"}, "none.yaml"),
            ({"systems": [{"name": "a", "python": "none.py:f"}]}, "no such file"),
            ({"systems": [{"name": "a", "command": ["no-such-program"]}]}, "no such command"),
            ({"systems": [{"name": "a", "http": "nowhere"}]}, "nowhere is no URL"),
            ({"systems": [{"name": "a", "model": "nobody:x"}]}, "nobody:x"),
            ({"judges": [{"name": "j", "model": "a:b", "rubric": "r"}]}, "r: no such file"),
            ({"confidence": {}}, "either ask or logprobs"),
            ({"answer": {"regex": "no group"}}, "no group holds the answer"),
            ({"answer": {"regex": "(?<=A: )(.*)"}}, "look-around"),
        ],
    )
    def test_in_the_suite(self, tmp_path: Path, change: dict[str, Any], told: str) -> None:
        suite = suite_folder(tmp_path, sums(2), [chat("http://127.0.0.1:9/v1")])
        assert told in self.told(suite.write(**change))

    def test_a_key_in_the_settings_is_refused_and_not_repeated(self, tmp_path: Path) -> None:
        settings = {"extra_headers": {"Authorization": "planted-key-4711"}}
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1", settings=settings)])
        told = self.told(suite)
        assert "api_key_env" in told
        assert "planted-key-4711" not in told

    @pytest.mark.parametrize("at", ["?api_key=", "?v=1&key=", "?access_token="])
    def test_a_key_in_a_url_is_refused_and_not_repeated(self, tmp_path: Path, at: str) -> None:
        url = f"http://127.0.0.1:9/v1{at}planted-key-4711"
        told = self.told(suite_folder(tmp_path, sums(1), [{"name": "a", "http": url}]))
        assert "api_key_env" in told
        assert "planted-key-4711" not in told

    def test_an_unset_key(self, tmp_path: Path) -> None:
        suite = suite_folder(
            tmp_path, sums(1), [chat("http://127.0.0.1:9/v1", api_key_env="UNSET_KEY")]
        )
        result = suite.run()
        assert result.exit_code == 2
        assert "UNSET_KEY is not set" in result.stderr

    @pytest.mark.parametrize(
        ("key", "code"), [("abc", 2), ("7654321", 2), (" \t", 2), ("EMPTY", 0)]
    )
    def test_a_key_too_short_to_mask(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, code: int
    ) -> None:
        monkeypatch.setenv("SHORT_KEY", key)
        with ModelServer().in_thread() as url:
            suite = suite_folder(tmp_path, sums(1), [chat(url, api_key_env="SHORT_KEY")])
            result = suite.run()
        assert result.exit_code == code
        assert key not in result.stderr.replace("EMPTY where", "")

    @pytest.mark.parametrize(
        ("lines", "told"),
        [
            ('{"id": "a", "input": "x"}\n{"id": "a", "input": "y"}', "have the same id: a"),
            ('{"id": "a", "input": "x"}\n{"input": "y"}', "1 of 2 tasks have no id"),
            ('{"id": "a", "input": "x"}\nrubbish', "tasks.jsonl:2: not JSON"),
            ('{"id": "a", "input": "x", "prob_correct": 7}', "tasks.jsonl:1: prob_correct"),
        ],
    )
    def test_in_the_data(self, tmp_path: Path, lines: str, told: str) -> None:
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1")])
        (tmp_path / "tasks.jsonl").write_text(lines)
        assert told in self.told(suite)

    def test_no_tasks(self, tmp_path: Path) -> None:
        suite = suite_folder(tmp_path, [], [chat("http://127.0.0.1:9/v1")])
        assert "no tasks" in self.told(suite, code=3)

    def test_code_that_does_not_load(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("1 / 0\ndef f(record): ...\n")
        suite = suite_folder(tmp_path, sums(1), [{"name": "a", "python": "broken.py:f"}])
        result = suite.run()
        assert result.exit_code == 2
        assert "ZeroDivisionError" in result.stderr
        (tmp_path / "broken.py").write_text("def found(record): ...\n")
        assert "did you mean found?" in self.told(
            suite.write(systems=[{"name": "a", "python": "broken.py:fuond"}])
        )


POLICY = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}


class TestEnding:
    """Scores, gates and exit codes."""

    @pytest.mark.parametrize(
        ("target", "faulty", "code", "verdict"),
        [
            ("1", "", 0, "pass"),
            ("2", "", 1, "fail"),
            ("1", "bad", 3, "incomplete"),
            ("2", "bad", 1, "fail"),
        ],
    )
    def test_a_gate_decides(
        self, tmp_path: Path, target: str, faulty: str, code: int, verdict: str
    ) -> None:
        server = ModelServer()
        (tmp_path / "policy.json").write_text(json.dumps(POLICY))
        tasks = [{"id": "a", "input": "0 + 1", "target": target}]
        if faulty:
            tasks.append({"id": "b", "input": "3 [[400]]", "target": "3"})
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, tasks, [chat(url)], answer=ANSWER, policy="policy.json")
            result = suite.run()
        assert result.exit_code == code, result.output
        assert suite.json("gate.json")["verdict"] == verdict
        assert verdict.upper() in result.stdout

    def test_a_run_that_was_cut_short_never_passes(self, tmp_path: Path) -> None:
        server = ModelServer()
        (tmp_path / "policy.json").write_text(json.dumps(POLICY))
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(5), [chat(url)], answer=ANSWER, policy="policy.json", budget_calls=3
            )
            assert suite.run().exit_code == 3
        assert suite.json("gate.json")["incomplete"] == ["2 calls were not made"]

    def test_it_says_what_next(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", tasks=sums(3))
        result = suite.run(report=True)
        assert f"calipers explain accuracy {suite.results / 'records.jsonl'}" in result.stderr
        assert f"Report: {suite.results / 'report.html'}" in result.stderr
        told = [line.partition(": calipers ")[2] for line in result.stderr.splitlines()]
        for line in filter(None, told):
            assert run(line.split()[0], "--help").exit_code == 0

    def test_python_runs_it_too(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", tasks=sums(3))
        result = cal.run(tmp_path / "suite.yaml", suite.results)
        assert (result.done, result.errors, result.missing, result.exit_code) == (3, 0, 0, 0)
        assert result.score is not None
        assert result.score.groups[0].by == {"model": "s"}

    def test_tables_are_data_too(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", data="tasks.csv")
        (tmp_path / "tasks.csv").write_text("id,input,target,mine\n007,1 + 1,2,x\n8,2 + 1,3,y\n")
        assert suite.run().exit_code == 0
        answers = {record["id"]: record["answer"] for record in suite.records()}
        assert answers == {"007": "2", "8": "3"}

    def test_results_of_another_run_in_the_data_are_left_out(self, tmp_path: Path) -> None:
        tasks = [{"id": 7, "input": "1 + 1", "target": 2.0, "prob_correct": 0.3, "answer": "x"}]
        suite = python(tmp_path, "waits", tasks=tasks)
        result = suite.run()
        assert result.exit_code == 0
        assert "yours is kept as task.answer, task.prob_correct" in result.stderr
        record = only(suite)
        assert (record["id"], record["target"], record["answer"]) == ("7", "2.0", "2")
        assert "prob_correct" not in record
