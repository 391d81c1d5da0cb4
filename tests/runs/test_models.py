"""What a model is asked, and what its reply becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.model_server import ModelServer
from tests.runs.suites_at_hand import ANSWER, chat, suite_folder, sums
from tests.runs.systems_at_hand import only

pytestmark = pytest.mark.usefixtures("quick")


class TestModels:
    """What a model is asked, and what its reply becomes."""

    def test_a_reply_becomes_a_record(self, tmp_path: Path) -> None:
        server = ModelServer(latency=0.02)
        with server.in_thread() as url:
            system = chat(url, settings={"temperature": 0, "max_tokens": 99, "seed": 5})
            suite = suite_folder(
                tmp_path, sums(1), [system], prompt="{input}\nGo.", answer=ANSWER, runs=2
            )
            assert suite.run().exit_code == 0
        one, two = sorted(suite.records(), key=lambda record: record["run"])
        assert (one["id"], one["model"], one["run"], one["category"]) == ("t0", "mini", 1, "sum")
        assert one["answer"] == one["target"] == "1"
        assert one["cot"] == "1. I add the numbers.\n2. That is all."
        assert (one["prompt_tokens"], one["completion_tokens"]) == (4, 11)
        assert 20 <= one["latency_ms"] == pytest.approx(one["duration_seconds"] * 1000)
        assert two["run"] == 2
        bodies = sorted(server.requests, key=lambda body: body["seed"])
        assert [body["seed"] for body in bodies] == [5, 6]
        assert bodies[0]["messages"] == [{"role": "user", "content": "0 + 1\nGo."}]
        assert (bodies[0]["model"], bodies[0]["max_tokens"]) == ("tiny", 99)

    def test_tiers_replace_prompt_and_settings(self, tmp_path: Path) -> None:
        server = ModelServer()
        tiers = [{"name": "T0", "prompt": "{input}"}, {"name": "T1", "settings": {"top_p": 0.5}}]
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(3), [chat(url)], prompt="{input} = ?", answer=ANSWER, tiers=tiers
            )
            assert suite.run().exit_code == 0
        assert {
            (body["messages"][0]["content"][-1], body.get("top_p")) for body in server.requests
        } == {
            ("1", None),
            ("?", 0.5),
        }
        groups = suite.json("score.json")["groups"]
        assert [group["by"] for group in groups] == [
            {"model": "mini", "tier": "T0"},
            {"model": "mini", "tier": "T1"},
        ]

    def test_confidence_is_asked_for_or_weighed(self, tmp_path: Path) -> None:
        server = ModelServer()
        tasks = [{"id": "a", "input": "[[say So ANSWER: 4\nCONFIDENCE: 80%]]"}]
        with server.in_thread() as url:
            asked = suite_folder(
                tmp_path, tasks, [chat(url)], answer=ANSWER, confidence={"ask": True}
            )
            assert asked.run().exit_code == 0
            assert (only(asked)["answer"], only(asked)["prob_correct"]) == ("4", 0.8)
            assert "CONFIDENCE: <0 to 1>" in server.requests[-1]["messages"][0]["content"]
            (tmp_path / "b").mkdir()
            weighed = suite_folder(
                tmp_path / "b", sums(1), [chat(url)], answer=ANSWER, confidence={"logprobs": True}
            )
            assert weighed.run().exit_code == 0
            assert only(weighed)["prob_correct"] == pytest.approx(0.9048, abs=1e-4)
            assert server.requests[-1]["logprobs"] is True

    def test_a_cache_serves_other_folders_and_never_repeats(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(3), [chat(url)], answer=ANSWER, runs=2, cache=".cache"
            )
            assert suite.run().exit_code == 0
            assert sum(server.asked.values()) == 6
            first = {(each["id"], each["run"]): each["answer"] for each in suite.records()}
            for path in suite.results.iterdir():
                path.unlink()
            assert suite.run().exit_code == 0
            assert sum(server.asked.values()) == 6
        assert {(each["id"], each["run"]): each["answer"] for each in suite.records()} == first

    def test_a_reply_from_a_cache_is_not_taken_for_a_quick_one(self, tmp_path: Path) -> None:
        with ModelServer(latency=0.2).in_thread() as url:
            suite = suite_folder(tmp_path, sums(1), [chat(url)], cache=".cache")
            assert suite.run().exit_code == 0
            first = only(suite)
            for path in suite.results.iterdir():
                path.unlink()
            assert suite.run().exit_code == 0
        again = only(suite)
        assert "cached" not in first
        assert again.pop("cached") is True
        assert again["latency_ms"] >= 200
        assert again["duration_seconds"] == pytest.approx(again["latency_ms"] / 1000)

    def test_a_cache_that_cannot_be_written_loses_no_reply(self, tmp_path: Path) -> None:
        server = ModelServer()
        (tmp_path / "cache").write_text("a file, no folder")
        with server.in_thread() as url:
            systems = [chat(url, "one"), chat(url, "two")]
            suite = suite_folder(tmp_path, sums(3), systems, answer=ANSWER, cache="cache")
            result = suite.run()
        assert result.exit_code == 0
        assert [record["answer"] for record in suite.records() if record["model"] == "one"]
        assert set(suite.errors().values()) == {None}
        assert result.stderr.count("replies are not kept in this cache") == 1

    def test_pydantic_ai_speaks_for_other_providers(self, tmp_path: Path) -> None:
        pytest.importorskip("pydantic_ai")
        server = ModelServer()
        with server.in_thread() as url:
            system = {"name": "m", "model": "ollama:tiny", "base_url": url}
            tasks = [*sums(2), {"id": "bad", "input": "9 [[500 x9]]"}]
            tasks += [{"id": "slow", "input": "8 [[429 0.1, drop, half]]"}]
            suite = suite_folder(tmp_path, tasks, [system], answer=ANSWER, retries=3)
            assert suite.run().exit_code == 3
        errors = suite.errors()
        assert str(errors.pop("bad")).startswith("server: 500")
        assert set(errors.values()) == {None}
        assert sorted(server.asked.values()) == [1, 1, 4, 4]  # no attempts of the SDK's own
        record = next(each for each in suite.records() if each["id"] == "t1")
        assert (record["answer"], record["prompt_tokens"]) == ("2", 3)
