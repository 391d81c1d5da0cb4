"""`calipers judge --pairwise A B` over real HTTP: both orders, ties, failures, budget, resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import calipers
from benchmarks.model_server import ModelServer
from tests.commands import run
from tests.files import write_lines
from tests.judges.test_rubrics import rubric_file

pytestmark = pytest.mark.usefixtures("quick")


def side(name: str, qualities: list[int], pad: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"t{n}",
            "model": name,
            "input": f"Task {n}",
            "answer": f"QUALITY={q}{'!' * pad}",
            **more,
        }
        for n, q in enumerate(qualities)
    ]


def files(folder: Path, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[str]:
    return [str(write_lines(folder / f"{n}.jsonl", rows)) for n, rows in (("A", a), ("B", b))]


def compare(folder: Path, url: str, kind: str = "good", *more: str) -> Result:
    named = [
        "--model",
        f"openai:judge-{kind}",
        "--base-url",
        url,
        "-o",
        str(folder / "pairs.jsonl"),
    ]
    asked = ["judge", "--pairwise", str(folder / "A.jsonl"), str(folder / "B.jsonl"), *named, *more]
    return run(*asked)


def pairs(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_both_orders_are_asked_and_both_have_to_agree(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5, 1, 3]), side("y", [2, 4, 3], pad=9))
    server = ModelServer()
    with server.in_thread() as url:
        result = compare(tmp_path, url)
    assert result.exit_code == 0, result.stderr
    assert sum(server.asked.values()) == 6
    assert "6 of 6 comparisons judged" in result.stderr
    assert "x wins 1, y 1, 1 ties" in result.stderr
    first = pairs(tmp_path)[0]
    assert [each["winner"] for each in pairs(tmp_path)] == ["a", "b", "tie"]
    assert (first["id"], first["a"], first["b"], first["preference"]) == ("t0", "x", "y", 1.0)
    assert [(each["first"], each["winner"]) for each in first["orders"]] == [("a", "a"), ("b", "a")]
    assert (first["length_a"], first["length_b"]) == (9, 18)
    assert (first["judge"], first["judge_model"]) == ("judge-good", "openai:judge-good")
    assert first["judging"]["prompt_tokens"] > 0
    system = server.requests[0]["messages"][0]["content"]
    assert "Give 1 where answer 1 is better, 3 where answer 2 is better" in system
    assert "excellent" not in system


def test_an_input_under_another_name_may_be_in_the_second_file_alone(tmp_path: Path) -> None:
    a, b = side("x", [5]), side("y", [2], question="Task 0")
    files(
        tmp_path, *([{k: v for k, v in row.items() if k != "input"} for row in s] for s in (a, b))
    )
    server = ModelServer()
    with server.in_thread() as url:
        result = compare(tmp_path, url, "good", "--map", "input=question")
    assert result.exit_code == 0, result.stderr
    assert [each["winner"] for each in pairs(tmp_path)] == ["a"]
    assert "Task 0" in server.requests[0]["messages"][-1]["content"]


def test_a_judge_that_goes_by_the_order_decides_nothing(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5, 1]), side("y", [2, 4]))
    with ModelServer().in_thread() as url:
        result = compare(tmp_path, url, "first")
    assert [each["winner"] for each in pairs(tmp_path)] == ["tie", "tie"]
    assert [each["preference"] for each in pairs(tmp_path)] == [0.0, 0.0]
    assert "2 ties (2 differ with the order)" in result.stderr


def test_won_in_one_order_and_tied_in_the_other_is_a_tie_that_leans(tmp_path: Path) -> None:
    files(tmp_path, side("x", [1], pad=9), side("y", [1]))
    with ModelServer().in_thread() as url:
        compare(tmp_path, url, "mixed")
    [found] = pairs(tmp_path)
    assert (found["winner"], found["preference"]) == ("tie", 0.5)


def test_a_failed_judgment_is_no_win_and_is_asked_for_again(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5, 1]), side("y", [2, 4]))
    server = ModelServer()
    with server.in_thread() as url:
        broken = compare(tmp_path, url, "broken", "--name", "j")
        assert broken.exit_code == 3
        found = pairs(tmp_path)
        assert [each["winner"] for each in found] == [None, None]
        assert all("outside" in order["reason"] for each in found for order in each["orders"])
        assert "2 undecided" in broken.stderr
        refused = compare(tmp_path, url, "good", "--name", "j")
    assert refused.exit_code == 2
    assert "begun with another model" in refused.stderr


def test_failed_calls_and_missing_answers_are_not_judged(tmp_path: Path) -> None:
    a, b = side("x", [5, 1, 3]), side("y", [2, 4, 1])
    a[0] |= {"error": "timeout: no reply", "answer": None}
    b[1] |= {"answer": None}
    files(tmp_path, a, b)
    server = ModelServer()
    with server.in_thread() as url:
        result = compare(tmp_path, url)
    assert sum(server.asked.values()) == 2
    assert result.exit_code == 0, result.stderr
    assert [each["winner"] for each in pairs(tmp_path)] == [None, None, "a"]
    assert pairs(tmp_path)[0]["reason"] == "the call of x failed"


def test_a_budget_stops_and_the_same_command_goes_on(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5, 1, 3]), side("y", [2, 4, 1]))
    server = ModelServer()
    with server.in_thread() as url:
        short = compare(tmp_path, url, "good", "--budget-calls", "3", "--concurrency", "1")
        assert short.exit_code == 3
        assert "the budget is spent" in short.stderr
        assert sum(each["winner"] is None for each in pairs(tmp_path)) == 2
        done = compare(tmp_path, url, "good", "--budget-calls", "9")
        assert done.exit_code == 0
        assert sum(server.asked.values()) == 6
        again = compare(tmp_path, url)
    assert sum(server.asked.values()) == 6
    assert again.exit_code == 0
    assert [each["winner"] for each in pairs(tmp_path)] == ["a", "b", "a"]


def test_a_rubric_says_what_to_compare_by_and_a_panel_has_a_line_each(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5]), side("y", [2]))
    rubric = rubric_file(
        tmp_path,
        "name: q\nquestion: How kind is it?\ncriteria: [{name: warmth, says: It is warm.}]\n",
    )
    server = ModelServer()
    with server.in_thread() as url:
        result = compare(
            tmp_path, url, "good", "--rubric", str(rubric), "--model", "openai:judge-first"
        )
    assert result.exit_code == 0, result.stderr
    assert [(each["judge"], each["winner"]) for each in pairs(tmp_path)] == [
        ("judge-good", "a"),
        ("judge-first", "tie"),
    ]
    assert (
        "How kind is it? Consider warmth: It is warm."
        in server.requests[0]["messages"][0]["content"]
    )


def test_systems_are_named_by_their_files_where_records_do_not(tmp_path: Path) -> None:
    nameless = [{k: v for k, v in row.items() if k != "model"} for row in side("", [1])]
    paths = files(tmp_path, nameless, nameless)
    with ModelServer().in_thread() as url:
        found = calipers.judge_records(
            paths, tmp_path / "pairs.jsonl", pairwise=True, model="openai:judge-good", base_url=url
        )
    assert found.pairs is not None
    assert (found.pairs.a, found.pairs.b, found.pairs.ties) == ("A", "B", 1)


@pytest.mark.parametrize(
    ("a", "b", "more", "says"),
    [
        (side("x", [1]), [{"id": "other", "answer": "1"}], (), "no id is in both"),
        ([{"answer": "1"}], side("y", [1]), (), "no id to pair by"),
        ([*side("x", [1]), *side("z", [1, 2])[1:]], side("y", [1]), (), "several systems: x, z"),
        (side("x", [1]), side("y", [1]), ("C.jsonl",), "two files, not 3"),
        (side("x", [1]), side("y", [1]), ("--rubric", "planning_rationality"), "one answer"),
    ],
)
def test_refusals(a: Any, b: Any, more: tuple[str, ...], says: str, tmp_path: Path) -> None:
    files(tmp_path, a, b)
    write_lines(tmp_path / "C.jsonl", side("z", [1]))
    more = tuple(str(tmp_path / each) if each == "C.jsonl" else each for each in more)
    result = compare(tmp_path, "http://127.0.0.1:9/v1", "good", *more)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "pairs.jsonl").exists()


def test_without_pairwise_a_rubric_is_needed(tmp_path: Path) -> None:
    write_lines(tmp_path / "A.jsonl", side("x", [1]))
    asked = ["judge", str(tmp_path / "A.jsonl"), "--model", "openai:judge-good"]
    result = run(*asked)
    assert (result.exit_code, "--rubric is missing" in result.stderr) == (2, True)


def test_a_dry_run_counts_both_orders(tmp_path: Path) -> None:
    files(tmp_path, side("x", [5, 1, 3]), side("y", [2, 4, 1]))
    result = compare(tmp_path, "http://127.0.0.1:9/v1", "good", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert " 6 " in result.stdout
