"""Traces through the public functions and the command line: values, bad input, notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.commands import run
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines

Record = dict[str, Any]


def calls(*tools: str) -> list[dict[str, str]]:
    return [{"tool_name": tool} for tool in tools]


def messages(*pairs: str, kind: str = "handoff") -> list[dict[str, str]]:
    return [{"from": pair[0], "to": pair[1], "type": kind} for pair in pairs]


def value(name: str, trace: Any, **options: Any) -> float | None:
    return cal.score([{"trace": trace}], metrics=[name], **options).groups[0].metrics[name].value


@pytest.mark.parametrize(
    ("tools", "start", "goal", "expected"),
    [
        pytest.param("abcd", None, None, 1.0, id="straight"),
        pytest.param("abad", None, None, 1 / 3, id="a detour"),
        pytest.param("aab", None, None, 0.5, id="self loop"),
        pytest.param("abca", None, None, 0.0, id="back where it began"),
        pytest.param("a", None, None, 0.0, id="one call, no step"),
        pytest.param("", None, None, 0.0, id="no call"),
        pytest.param("xabcbd", "a", "d", 2 / 4, id="ends named"),
        pytest.param("abab", "a", "b", 1 / 3, id="first of the start to last of the goal"),
        pytest.param("abc", "c", "a", 0.0, id="no way back"),
        pytest.param("abc", "a", "z", 0.0, id="goal not there"),
        pytest.param("abc", "z", None, 0.0, id="start not there"),
        pytest.param("bab", "a", "a", 0.0, id="start is goal"),
    ],
)
def test_path_convergence(tools: str, start: str | None, goal: str | None, expected: float) -> None:
    trace = {"tool_calls": calls(*tools)}
    assert value("path_convergence", trace, start=start, goal=goal) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        pytest.param(["ab", "ac"], 1 / 3, id="a star: only its degree"),
        pytest.param(["ab", "bc"], (0.5 + 0.5 + 1) / 3, id="a chain: all goes through b"),
        pytest.param(["aa"], 1 / 3, id="a monologue"),
        pytest.param(["ab", "ba"], (0 + 1 + 2) / 3, id="degree passes 1"),
        pytest.param(["ab", "ab", "ab"], (0 + 1 + 1) / 3, id="a message again is one edge"),
    ],
)
def test_centrality(talk: list[str], expected: float) -> None:
    trace = {"agent_interactions": messages(*talk)}
    assert value("coordination_centrality", trace) == pytest.approx(expected)


def test_agents_that_never_speak_are_no_nodes() -> None:
    trace = {"agent_interactions": messages("ab"), "agent_tasks": {"a": 1, "b": 1, "silent": 4}}
    assert value("coordination_centrality", trace) == pytest.approx((0 + 1 + 1) / 3)
    assert value("task_distribution_balance", trace) == pytest.approx(1 - 3**0.5 / 2)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [({}, 1), ({"a": 9}, 1), ({"a": 0, "b": 0}, 1), ({"a": 2, "b": 2}, 1), ({"a": 9, "b": 0}, 0)],
)
def test_balance(tasks: dict[str, int], expected: float) -> None:
    assert value("task_distribution_balance", {"agent_tasks": tasks}) == expected


def test_balance_of_huge_counts() -> None:
    assert value("task_distribution_balance", {"agent_tasks": {"a": 1e308, "b": 1e308}}) == 1


def test_what_a_trace_lacks_is_null_and_what_is_empty_is_not() -> None:
    rows = [
        {"trace": {"tool_calls": [], "agent_interactions": [], "agent_tasks": {}}},
        {"trace": {}},
    ]
    metrics = cal.score(rows, profile="agents").groups[0].metrics
    counted = {
        "path_convergence": 0.0,
        "communication_overhead": 0.0,
        "task_distribution_balance": 1.0,
    }
    for name, expected in counted.items():
        assert (metrics[name].value, metrics[name].n, metrics[name].missing) == (expected, 1, 1)
    assert metrics["coordination_centrality"].reason == (
        "no record has a trace with messages between agents"
    )


def test_messages_that_name_no_agent_count_as_messages() -> None:
    trace = {"agent_interactions": [{"type": "handoff"}, {"type": "data_transfer"}, {"from": "a"}]}
    metrics = cal.score([{"trace": trace}], profile="agents").groups[0].metrics
    overhead = metrics["communication_overhead"]
    assert overhead.value == pytest.approx(1 / 3)
    assert overhead.extras == {"messages": 3, "unknown_type_share": pytest.approx(1 / 3)}
    assert metrics["coordination_centrality"].value == pytest.approx(1 / 3)


def test_no_mapping_no_accuracy_and_how_to_give_one() -> None:
    measured = cal.score(
        [{"trace": {"tool_calls": calls("a")}}], metrics=["tool_selection_accuracy"]
    )
    reason = measured.groups[0].metrics["tool_selection_accuracy"].reason
    assert reason == (
        "which tool each context calls for is not known: give a file with --set optimal_tools, "
        "or optimal_tools in the records"
    )
    without = cal.score([{"trace": {}}], metrics=["tool_selection_accuracy"])
    assert without.groups[0].metrics["tool_selection_accuracy"].reason == (
        "no record has a trace with tool_calls"
    )


def test_unmapped_calls_and_unknown_types_are_told(tmp_path: Path) -> None:
    mapping = tmp_path / "tools.yaml"
    mapping.write_text("find: search\n", encoding="utf-8")
    trace = {
        "tool_calls": [
            {"tool_name": "search", "context": "find it"},
            {"tool_name": "cook", "context": "dinner"},
        ],
        "agent_interactions": messages("ab", kind="delegation"),
    }
    score = cal.score([{"trace": trace, "id": "1"}], profile="agents", optimal_tools=mapping)
    accuracy = score.groups[0].metrics["tool_selection_accuracy"]
    assert (accuracy.value, accuracy.extras) == (0.5, {"calls": 2, "unmapped_calls": 1})
    unmapped, unknown = score.notices[:2]
    assert unmapped.startswith("1 of 2 calls count as a wrong choice of tool: ")
    assert unmapped.endswith("tools.yaml names none for their context, and has no '*'")
    assert unknown.startswith("1 of 1 messages are of no known type and count as no overhead; ")
    assert score.settings["optimal_tools"] == str(mapping)


def bad_rows() -> list[Record]:
    rows: list[Record] = [
        {"id": str(n), "trace": {"tool_calls": calls("a", "b")}} for n in range(3)
    ]
    rows.insert(2, {"id": "bad", "trace": {"tool_calls": [{"tool_name": "a"}, {"context": "b"}]}})
    return rows


@pytest.fixture(params=["jsonl", "jsonl of texts", "csv", "parquet", "parquet of objects"])
def bad_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rows, kind = bad_rows(), request.param
    texts = [row | {"trace": json.dumps(row["trace"])} for row in rows]
    if kind.startswith("jsonl"):
        return write_lines(tmp_path / "bad.jsonl", rows if kind == "jsonl" else texts)
    if kind == "csv":
        pl.DataFrame(texts).write_csv(tmp_path / "bad.csv")
        return tmp_path / "bad.csv"
    pl.DataFrame(rows if "objects" in kind else texts).write_parquet(tmp_path / "bad.parquet")
    return tmp_path / "bad.parquet"


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_a_bad_trace_is_named_by_file_row_field_and_place(bad_file: Path, engine: str) -> None:
    with pytest.raises(cal.DataError) as caught:
        cal.score(bad_file, profile="agents", engine=engine)
    where, problem = caught.value.message.rsplit(": trace: ", maxsplit=1)
    assert where == f"{bad_file}:3"
    assert problem in ("tool_calls[1].tool_name is missing", "tool_calls[1].tool_name is null")
    skipped = cal.score(bad_file, profile="agents", engine=engine, on_bad="skip")
    assert (skipped.records, skipped.inputs[0].skipped) == (3, 1)
    assert skipped.groups[0].metrics["path_convergence"].value == 1.0


def test_a_bad_trace_in_a_folder_and_in_a_list(tmp_path: Path) -> None:
    rows = bad_rows()
    for start in (0, 2):
        pl.DataFrame(rows[start : start + 2]).write_parquet(tmp_path / f"part-{start}.parquet")
    with pytest.raises(
        cal.DataError, match=r"part-2.parquet:1: trace: tool_calls\[1\].tool_name is"
    ):
        cal.score(tmp_path, profile="agents")
    with pytest.raises(cal.DataError, match=r"<records>:3: trace: tool_calls\[1\].tool_name is"):
        cal.score(rows, profile="agents")


def test_a_trace_that_no_metric_reads_is_not_looked_at(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [{"id": "1", "correct": True, "trace": "[oops"}])
    assert cal.score(path, metrics=["accuracy"]).groups[0].metrics["accuracy"].value == 1.0


def test_nan_as_a_count_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "1", "trace": {"agent_tasks": {"a": NaN, "b": 1}}}\n', encoding="utf-8")
    with pytest.raises(cal.DataError, match=r'1: trace: agent_tasks\["a"\] is NaN'):
        cal.score(path, profile="agents")


def test_grouping_by_the_trace_itself(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [{"id": "1", "trace": {"tool_calls": calls("a")}}])
    group = cal.score(path, by="trace", metrics=["path_convergence"]).groups[0]
    assert group.by == {"trace": '{"tool_calls": [{"tool_name": "a"}]}'}


def test_failed_calls_count_in_nothing() -> None:
    rows = [{"trace": {"tool_calls": calls("a", "b")}, "error": "timeout: 9 s"}, {"trace": None}]
    group = cal.score(rows, profile="agents").groups[0]
    assert (group.errors, group.metrics["path_convergence"].n) == (1, 0)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text('"*": b\n', encoding="utf-8")
    path = write_lines(
        tmp_path / "runs.jsonl",
        [
            {"id": str(n), "trace": {"tool_calls": calls(*tools)}}
            for n, tools in enumerate(["ab", "ba"])
        ],
    )
    command = ["score", str(path), "--profile", "agents", "--format", "json"]
    options = [
        "--set",
        f"optimal_tools={tmp_path / 'tools.yaml'}",
        "--set",
        "start=a",
        "--set",
        "goal=b",
    ]
    samples = ["--per-sample", str(tmp_path / "samples.jsonl")]
    result = run(*command, *options, *samples)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["groups"][0]["metrics"]["path_convergence"]["value"] == 0.5
    assert found["groups"][0]["metrics"]["tool_selection_accuracy"]["value"] == 0.5
    assert [found["settings"][name] for name in ("start", "goal")] == ["a", "b"]
    rows = pl.read_ndjson(tmp_path / "samples.jsonl")
    assert rows["path_convergence"].to_list() == [1.0, 0.0]
    assert rows["tool_selection_accuracy"].to_list() == [0.5, 0.5]


def test_judgments_with_line_breaks_and_backslashes_in_their_reasons(tmp_path: Path) -> None:
    reasons = ["line\nbreak", "back\\slash", 'quo"te', "tab\t", "\x01"]
    rows = [
        {"id": str(n), "judgments": [{"judge": "x", "passed": True, "reason": reason, reason: 1}]}
        for n, reason in enumerate(reasons)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    assert cal.score(path, metrics=["pass_rate"]).groups[0].metrics["pass_rate"].n == len(reasons)


def test_judgments_that_are_no_json(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1", "2"], "judgments": ["[]", "[oops"]}).write_csv(tmp_path / "rows.csv")
    with pytest.raises(cal.DataError, match=r"csv:2: judgments: .* is not JSON"):
        cal.score(tmp_path / "rows.csv", metrics=["pass_rate"])
