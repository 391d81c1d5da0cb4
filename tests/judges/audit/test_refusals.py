"""What is refused, and which files are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.files import write_lines
from tests.judges.audit.judged_at_hand import (
    items,
    judge_named,
    judgment,
    only,
    record,
    refused,
    run,
)


@pytest.mark.parametrize(
    ("judgments", "problem"),
    [
        (5, "5 is not a list of judgments"),
        ("good", '"good" is not JSON'),
        ({"j1": {"passed": True}}, "is not a list of judgments"),
        ([True], "judgment 1 is not an object"),
        ([judgment(), None], "judgment 2 is not an object"),
        ([judgment(score=1.5)], "judgment by j1: weighted_score: 1.5 is outside [0, 1]"),
        ([judgment(score=-0.1)], "judgment by j1: weighted_score: -0.1 is outside [0, 1]"),
        ([{**judgment(), "weighted_score": "high"}], 'weighted_score: "high" is not a number'),
        ([{**judgment(), "weighted_score": True}], "weighted_score: true is not a number"),
        ([{**judgment(), "passed": "yes"}], 'passed: "yes" is not true or false'),
        ([{**judgment(), "judge": ["j1"]}], 'judgment 1: judge: ["j1"] is a list, not a text'),
    ],
)
def test_bad_judgments_name_file_row_and_field(
    tmp_path: Path, judgments: Any, problem: str
) -> None:
    good = json.dumps(record("q1", judgment()))
    path = tmp_path / "judged.jsonl"
    path.write_text(f"{good}\n\n{json.dumps({'id': 'q2', 'judgments': judgments})}\n{good}\n")
    said = refused("audit", path)
    assert f"{path}:3: judgments: " in said
    assert problem in said
    assert "--on-bad skip" in said
    audit = cal.audit_judges(path, on_bad="skip")
    assert (audit.records, audit.notices) == (2, ("1 bad row was left out",))
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text(path.read_text().replace('"judgments"', '"votes"'))
    assert f"{theirs}:3: votes: " in refused("audit", theirs, "--map", "judgments=votes")


def test_not_a_number_is_a_null_and_infinity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(
        '{"id": "q1", "judgments": [{"judge": "a", "weighted_score": NaN, "passed": null}]}\n'
    )
    found = judge_named(cal.audit_judges(path), "a").measures
    assert (found["mean_score"].missing, found["mean_score"].reason) == (
        1,
        "no judgment has a weighted_score",
    )
    assert found["pass_rate"].reason == "no judgment says whether it passed"
    path.write_text(path.read_text().replace("NaN", "1e999"))
    assert "1e999 is not a finite number" in refused("audit", path)


def test_nested_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(f'{{"id": "q1", "judgments": {"[" * 20_000}{"]" * 20_000}}}\n')
    assert "nested too deep" in refused("audit", path)


def test_an_empty_file_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    result = run("audit", path)
    assert (result.exit_code, result.stdout) == (3, "No records.\n")
    assert "no records in" in result.stderr
    assert json.loads(run("audit", path, "--format", "json").stdout)["groups"] == []
    assert run("audit", path, "--format", "markdown").stdout == "No records.\n"
    assert run("audit", path, "--format", "csv").stdout.startswith(
        "judge_1,judge_2,on,measure,value"
    )


def test_no_judgment_in_the_lists_is_incomplete(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "judged.jsonl", [record("q1"), record("q2", judgment(), error="x")]
    )
    result = run("audit", path)
    assert result.exit_code == 3
    assert "no judgments in" in result.stderr
    assert result.stdout.startswith(
        "0 of 2 records judged; 0 judgments by 0 judges; failed calls left out: 1"
    )
    [group] = json.loads(run("audit", path, "--format", "json").stdout)["groups"]
    assert group["agreement"]["passed"]["fleiss_kappa"]["reason"] == "there are no judgments"


def test_records_without_the_field_are_a_mistake(tmp_path: Path) -> None:
    """The file is not empty: the question does not fit it, as with a `--by` that nobody has."""
    path = write_lines(tmp_path / "runs.jsonl", [{"id": "q1", "judgements": [judgment()]}])
    said = refused("audit", path)
    assert "no record has judgments" in said
    assert "--map judgments=NAME: did you mean judgements?" in said
    assert run("audit", path, "--map", "judgments=judgements").exit_code == 0


def test_options_that_fit_no_record_are_mistakes(panel: Path, tmp_path: Path) -> None:
    assert "--by tier: no record has a value in tier" in refused("audit", panel, "--by", "tier")
    assert "--cluster repo: no record" in refused("audit", panel, "--cluster", "repo")
    assert "--map id=key: no record" in refused("audit", panel, "--map", "id=key")
    assert "--map name=…" in refused("audit", panel, "--map", "name=key")
    assert "must be above 0 and below 1" in refused("audit", panel, "--confidence", "95")
    assert "--worst -1: must be at least 0" in refused("audit", panel, "--worst", "-1")
    assert "No such file" in refused("audit", panel, "--weights", tmp_path / "none.yaml")
    some = write_lines(
        tmp_path / "some.jsonl", [record("q1", judgment()), {"judgments": [judgment()]}]
    )
    assert "1 of 2 records have no id" in refused("audit", some)


def test_rows_are_numbered_where_none_has_an_id() -> None:
    rows = [{"judgments": [judgment(items=items((1, 1)))]}, {"judgments": [judgment()]}]
    audit = cal.audit_judges(rows)
    assert audit.notices == ("no record has an id: rows are numbered, each a task of its own",)
    assert only(audit).clusters == 2
    assert judge_named(audit, "j1").items.worst[0].id == "1"


def test_parquet_csv_and_frames_say_the_same(tmp_path: Path) -> None:
    rows = [
        record(
            f"q{n}",
            judgment("a", n / 10, items=items((1, 1), (0, 2))),
            judgment("b", 0.4, passed=n > 3),
            tier="T0",
        )
        for n in range(6)
    ]
    frame = pl.DataFrame(rows, strict=False)
    frame.write_parquet(tmp_path / "judged.parquet")
    texts = [{**row, "judgments": json.dumps(row["judgments"])} for row in rows]
    pl.DataFrame(texts).write_csv(tmp_path / "judged.csv")
    lines = write_lines(tmp_path / "judged.jsonl", rows)

    def told(data: Any) -> list[Any]:
        groups = cal.audit_judges(data, by="tier").to_dict()["groups"]
        for judge in groups[0]["judges"]:
            for each in judge["items"]["worst"]:
                each["where"] = each["where"].rpartition(":")[2]
        return list(groups)

    assert told(lines) == told(rows) == told(frame)
    assert told(lines) == told(tmp_path / "judged.parquet") == told(tmp_path / "judged.csv")
