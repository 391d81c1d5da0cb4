"""What `import calipers` offers: the names, how results read, and what wrong arguments say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.judges.judge_files import sum_judgments
from tests.files import write_lines

ROWS = [
    {"id": f"q{n}", "model": f"m{n % 2}", "answer": "4", "target": "4" if n % 3 else "5"}
    for n in range(12)
]
POLICY = {"thresholds": {"blocking": {"accuracy": 50}}}
EXPORTED = """
    Agreement Audit Calibrations CalipersError CaseWeights Chart CheckKind Compared Converted DataError
    Diagnosis EmptyError Explanation Finding FunctionSystem GateResult Group Measured MissingExtraError
    PowerAnalysis Ranking Report Rubric RunResult Score Timed UsageError __version__ agree audit_judges
    calibrate_judges compare convert doctor explain gate judge_records limit_reading load_plugin
    log_reader metrics power publish rank read register report run score timed trace_svg
"""


def test_the_exported_names() -> None:
    public: list[str] = vars(cal)["__all__"]
    assert sorted(public) == sorted(EXPORTED.split())


def answer(record: dict[str, Any]) -> str:
    return "4" if record["input"] == "2 + 2" else "?"


def results(folder: Path) -> dict[str, Any]:
    judgments = [{"judge": name, "passed": True, "weighted_score": 0.9} for name in "ab"]
    judged = [{"id": row["id"], "judgments": judgments} for row in ROWS]
    judged_file = write_lines(folder / "judged.jsonl", judged)
    people = [{"id": row["id"], "passed": n > 3} for n, row in enumerate(ROWS)]
    human_file = write_lines(folder / "human.jsonl", people)
    return {
        "Calibrations": cal.calibrate_judges(judged_file, human_file),
        "JudgedFiles": sum_judgments(str(judged_file), [], bad_rows=0, interrupted=False),
        "Group": cal.score(ROWS).groups[0],
        "Score": cal.score(ROWS),
        "Compared": cal.compare(ROWS, ROWS),
        "GateResult": cal.gate(ROWS, policy=POLICY),
        "Agreement": cal.agree([{"x": n % 2, "y": n % 3 % 2} for n in range(9)], raters=["x", "y"]),
        "PowerAnalysis": cal.power(ROWS),
        "Ranking": cal.rank(ROWS, ROWS, by="file"),
        "Audit": cal.audit_judges(judged),
        "Diagnosis": cal.doctor([*ROWS, ROWS[0]]),
        "Explanation": cal.explain("accuracy", ROWS),
        "Converted": cal.convert(ROWS, folder / "records.parquet"),
        "RunResult": cal.run(answer, tasks=["2 + 2", "2 + 3"]),
        "Report": cal.report(ROWS),
    }


def test_every_result_is_a_frame_and_a_dict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = results(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # pandas alone has to do
    for name, result in found.items():
        frame = result.to_polars()
        assert isinstance(frame, pl.DataFrame), name
        assert frame.height, name
        assert list(result.to_pandas().columns) == frame.columns, name
        assert isinstance(result.to_dict(), dict), name
    assert found["Score"].to_polars()["metric"][0] == "accuracy"
    assert found["GateResult"].to_polars()["verdict"].to_list() == ["pass"]
    assert "difference" in found["Compared"].to_polars().columns


def test_to_pandas_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    score = cal.score(ROWS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(cal.UsageError, match="pip install pandas"):
        score.to_pandas()


def test_pandas_frames_are_read_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")
    rows = [*ROWS, {"id": "q12", "model": "m0", "answer": None, "target": "4"}]
    whole = cal.score(rows, by="model").to_polars()
    with pd.option_context("mode.string_storage", "python"):  # as where pyarrow never was
        frame = pd.DataFrame(rows)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cal.score(frame, by="model").to_polars().equals(whole)


def test_a_score_is_indexed_by_metric_and_group() -> None:
    assert cal.score(ROWS)["accuracy"].value == pytest.approx(8 / 12)
    grouped = cal.score(ROWS, by="model")
    assert grouped.group(model="m0")["accuracy"].n == 6
    with pytest.raises(KeyError, match="2 groups: model='m0'; model='m1'"):
        grouped["accuracy"]
    with pytest.raises(KeyError, match="no group has these values"):
        grouped.group(model="m9")
    with pytest.raises(KeyError, match="did you mean accuracy"):
        cal.score(ROWS)["acuracy"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: cal.score(5),
        lambda: cal.gate(ROWS, policy=7),  # type: ignore[arg-type]
        lambda: cal.run(5),
        lambda: cal.run(answer),
        lambda: cal.run(answer, tasks=["x"], policy=3),  # type: ignore[arg-type]
        lambda: cal.run("suite.yaml", tasks=[]),
        lambda: cal.agree(ROWS, raters=3),  # type: ignore[arg-type]
        lambda: cal.explain(5, ROWS),  # type: ignore[arg-type]
        lambda: cal.doctor(5),
        lambda: cal.convert(ROWS, 5),  # type: ignore[arg-type]
        lambda: cal.load_plugin(5),  # type: ignore[arg-type]
        lambda: cal.register(5),  # type: ignore[type-var]
        lambda: cal.metrics.mean(5),  # type: ignore[arg-type]
        lambda: cal.metrics.mean("x", name=5),  # type: ignore[arg-type]
        lambda: cal.metrics.mean("x", range=5),  # type: ignore[arg-type]
        lambda: cal.metrics.mean("x", range=("a", "b")),  # type: ignore[arg-type]
        lambda: cal.CheckKind("loud", 5),  # type: ignore[arg-type]
        lambda: cal.FunctionSystem("desk", 5),  # type: ignore[arg-type]
        lambda: cal.log_reader("desk", read=5),  # type: ignore[arg-type]
        lambda: cal.calibrate_judges(5, 5),  # type: ignore[arg-type]
        lambda: cal.judge_records("a.jsonl", "b.jsonl"),  # type: ignore[call-arg]
        lambda: cal.judge_records("a.jsonl", "b.jsonl", modle="x"),  # type: ignore[call-arg]
        lambda: cal.publish(5, "otel"),  # type: ignore[arg-type]
        lambda: cal.timed(5),  # type: ignore[call-overload]
        lambda: cal.trace_svg(5),
    ],
)
def test_wrong_types_are_type_errors_with_words(call: Any) -> None:
    with pytest.raises(TypeError) as error:
        call()
    assert isinstance(error.value, cal.CalipersError)


def test_a_rubric_with_a_mistake_says_what_is_wrong() -> None:
    with pytest.raises(cal.UsageError, match="Rubric: question is missing"):
        cal.Rubric(name="brevity")
    with pytest.raises(cal.UsageError, match="quesion is not a known key\n  did you mean question"):
        cal.Rubric(name="brevity", quesion="Is it short?")


def test_a_run_prints_and_shows_in_a_notebook() -> None:
    result = cal.run(answer, tasks=[{"id": "a", "input": "2 + 2", "target": "4"}], policy=POLICY)
    for shown in (str(result), result.to_markdown(), result._repr_html_()):
        assert "accuracy" in shown
        assert "blocking" in shown  # the verdict
        assert "1 of 1 calls" in shown


def test_a_function_runs_on_tasks(tmp_path: Path) -> None:
    tasks = [{"id": "a", "input": "2 + 2", "target": "4"}, {"id": "b", "input": "?", "target": "4"}]
    result = cal.run(answer, tasks=tasks, runs=3, policy=POLICY, output=tmp_path / "out")
    assert (result.calls, result.new) == (6, 6)
    assert result.records.filter(pl.col("id") == "a")["answer"].to_list() == ["4"] * 3
    assert result.score is not None
    assert result.score["accuracy"].value == 0.5
    assert result.gate is not None
    assert result.gate.verdict == "pass"
    again = cal.run(answer, tasks=tasks, runs=3, policy=POLICY, output=tmp_path / "out")
    assert (again.new, again.reused) == (0, 6)


def test_a_function_runs_on_a_file_and_knows_the_keys_of_a_suite(tmp_path: Path) -> None:
    write_lines(tmp_path / "tasks.jsonl", [{"id": "a", "input": "2 + 2", "target": "4"}])
    result = cal.run(
        lambda record: f"{record['input']} ANSWER: 4",
        tasks=tmp_path / "tasks.jsonl",
        answer={"after": "ANSWER:"},
    )
    assert result.score is not None
    assert result.score["accuracy"].value == 1
    with pytest.raises(cal.UsageError, match="did you mean runs"):
        cal.run(answer, tasks=["x"], rnus=3)  # type: ignore[call-arg]


def test_several_tables_in_a_dict_are_told_from_a_record() -> None:
    """As Hugging Face's `DatasetDict` has them."""
    splits = {"train": pl.DataFrame(ROWS), "test": pl.DataFrame(ROWS)}
    with pytest.raises(cal.UsageError, match=r"several tables: train, test\n  name one of them"):
        cal.score(splits)
