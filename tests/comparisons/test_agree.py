"""Agreement from data: three shapes of ratings, levels and clusters, what is printed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.cli import app
from calipers.statistics.estimates import Estimate
from tests.comparisons.ratings_at_hand import JUDGED, LONG, WIDE, run, wide
from tests.files import write_lines

LONG_OPTIONS: dict[str, Any] = {"rater_field": "by", "value": "mark", "unit": ["task", "run"]}
TABLE = """
4 units, 3 raters, 11 ratings

 measure                        value, 95 % interval   interval by   n
 ─────────────────────────────────────────────────────────────────────
 all raters
   percent_agreement                   67 % [17, 95]   wilson        4
   cohen_kappa_mean                              0.3   —             4
   fleiss_kappa                   0.00 [−0.85, 0.85]   delta_z       3
   krippendorff_alpha_nominal     0.33 [−0.71, 0.92]   delta_z       4
"""

__all__ = ["wide"]


def of_pair(agreement: cal.Agreement, first: str, second: str) -> Mapping[str, Estimate]:
    [pair] = [pair for pair in agreement.pairs if pair.raters == (first, second)]
    return pair.measures


def test_a_column_per_rater() -> None:
    found = cal.agree(WIDE, raters=["human", "judge", "other"])
    assert (found.raters, found.units, found.ratings) == (("human", "judge", "other"), 4, 11)
    assert [pair.raters for pair in found.pairs] == [
        ("human", "judge"),
        ("human", "other"),
        ("judge", "other"),
    ]
    assert [pair.n for pair in found.pairs] == [4, 3, 3]
    assert of_pair(found, "human", "judge")["percent_agreement"].value == 0.75
    assert of_pair(found, "human", "judge")["cohen_kappa"].value == 0.5
    reason = "ratings are labels, such as good"
    assert of_pair(found, "human", "judge")["pearson"].reason == reason
    assert found.measures["krippendorff_alpha_ordinal"].reason == reason


@pytest.mark.parametrize("value", [None, "weighted_score", "passed", "scores.clear"])
def test_records_with_judgments(value: str | None) -> None:
    found = cal.agree(JUDGED, value=value)
    assert (found.raters, found.units, found.ratings) == (("j1", "j2"), 6, 12)
    same = {None: 3, "weighted_score": 3, "passed": 6, "scores.clear": 3}[value]
    assert found.measures["percent_agreement"].value == same / 6
    assert of_pair(found, "j1", "j2")["pearson"].value is not None


def test_a_row_per_rating() -> None:
    found = cal.agree(LONG, **LONG_OPTIONS)
    judged = cal.agree(JUDGED, value="scores.clear")
    assert found.to_dict() == judged.to_dict()


def test_named_raters_only_and_in_their_order() -> None:
    extra = {"judge": "j3", "weighted_score": 0.5}
    rows = [{**record, "judgments": [*record["judgments"], extra]} for record in JUDGED]
    assert cal.agree(rows).raters == ("j1", "j2", "j3")
    assert cal.agree(rows, raters=["j3", "j1"]).raters == ("j3", "j1")
    numbered = [{**row, "by": int(str(row["by"])[1])} for row in LONG]
    assert cal.agree(numbered, **LONG_OPTIONS, raters=["2", "1"]).raters == ("2", "1")


def test_columns_named_as_raters_win_over_judgments() -> None:
    rows = [{**record, "a": 1, "b": 1} for record in JUDGED]
    assert cal.agree(rows, raters=["a", "b"]).raters == ("a", "b")
    assert cal.agree(rows, raters=["j1", "j2"]).raters == ("j1", "j2")


@pytest.mark.parametrize(
    "ratings",
    [
        [(1, "1"), (2, "2.0"), (3, " 3 ")],
        [(True, "true"), (False, "False"), (True, 1)],
        [(1.5, "1.5"), (2, None), (None, 2), (float("nan"), 1), (3, "3"), ("", 3)],
        [("yes", "yes"), ("2", 2), ("no", "no ")],
    ],
)
def test_a_rating_is_the_same_however_it_is_written(ratings: Sequence[tuple[Any, Any]]) -> None:
    rows = [{"a": a, "b": b} for a, b in ratings]
    assert cal.agree(rows, raters=["a", "b"]).measures["percent_agreement"].value == 1


def test_files_of_every_kind(tmp_path: Path) -> None:
    rows = [{"a": a, "b": b} for a, b in [(1, 2), (2, 2), (3, 1), (5, 5), (4, 4), (None, 3)]]
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "r.csv")
    frame.write_parquet(tmp_path / "r.parquet")
    lines = write_lines(tmp_path / "r.jsonl", rows)
    results = [
        cal.agree(data, raters=["a", "b"]).to_json()
        for data in (rows, frame, lines, tmp_path / "r.csv", tmp_path / "r.parquet")
    ]
    piped = CliRunner().invoke(
        app, ["agree", "-", "--raters", "a,b", "--format", "json"], input=lines.read_bytes()
    )
    assert {*results, piped.stdout.rstrip("\n")} == {results[0]}


def test_some_records_without_an_id() -> None:
    with pytest.raises(cal.DataError, match="1 of 7 records have no id"):
        cal.agree([*JUDGED, {"judgments": JUDGED[0]["judgments"]}])


def test_failed_calls_are_left_out() -> None:
    rows = [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2, "error": "timeout: 60 s"}]
    found = cal.agree(rows, raters=["a", "b"])
    assert (found.units, found.errors) == (2, 1)
    assert found.measures["percent_agreement"].value == 1


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                name: st.none() | st.integers(1, 3) | st.sampled_from(["1", "x", "", "true"])
                for name in "abc"
            }
        ),
        max_size=6,
    )
)
def test_whatever_the_ratings_the_output_is_strict_json(rows: list[dict[str, Any]]) -> None:
    found = cal.agree(rows, raters=["a", "b", "c"])
    assert json.loads(found.to_json()) == found.to_dict()
    assert str(found)
    assert all((m.value is None) == (m.reason is not None) for m in found.measures.values())


@pytest.mark.parametrize(
    ("level", "alphas", "correlations"),
    [("nominal", 1, []), ("ordinal", 2, ["spearman", "kendall_tau_b"]), ("interval", 3, None)],
)
def test_the_level_says_which_measures_make_sense(
    level: Any, alphas: int, correlations: list[str] | None
) -> None:
    found = cal.agree(JUDGED, level=level)
    assert sum("alpha" in name for name in found.measures) == alphas
    expected_pairs = correlations or (
        ["spearman", "kendall_tau_b", "pearson"] if alphas > 1 else []
    )
    assert list(found.pairs[0].measures) == ["percent_agreement", "cohen_kappa", *expected_pairs]


def test_runs_of_a_task_are_one_cluster() -> None:
    rows = [{**row, "run": run} for row in WIDE for run in range(5)]
    clustered = cal.agree(rows, raters=["human", "judge"])
    assert (clustered.units, clustered.clusters) == (20, 4)
    by_row = cal.agree(rows, raters=["human", "judge"], cluster=["id", "run"])
    assert by_row.clusters == 20
    wide, narrow = clustered.measures["fleiss_kappa"], by_row.measures["fleiss_kappa"]
    assert wide.value == narrow.value
    assert wide.stderr is not None
    assert narrow.stderr is not None
    assert wide.stderr > 1.5 * narrow.stderr


def test_more_confidence_is_a_wider_interval() -> None:
    for name, sure in cal.agree(JUDGED, confidence=0.99).measures.items():
        found = cal.agree(JUDGED).measures[name]
        assert found.low is not None
        assert sure.low is not None
        assert sure.low < found.low


def test_the_table(wide: Path) -> None:
    result = run(wide, "--raters", "human,judge,other")
    assert (result.exit_code, result.stderr) == (0, "")
    plain = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert plain.split("\n\n human")[0].strip() == TABLE.strip()
    assert "\n human – judge\n" in plain
    assert plain.endswith(
        "\n  krippendorff_alpha_ordinal, krippendorff_alpha_interval, spearman, kendall_tau_b, "
        "pearson: ratings are labels, such as\n  good"
    )


def test_a_reason_that_holds_for_some_pairs_names_them() -> None:
    rows = [{"a": a, "b": a, "c": 1} for a in (1, 2, 3, 4)]
    told = str(cal.agree(rows, raters=["a", "b", "c"]))
    assert "pearson (a – c; b – c): a rater gives all units the same rating" in " ".join(
        told.split()
    )


def test_json_is_what_the_api_gives(wide: Path) -> None:
    result = run(wide, "--raters", "human,judge", "--format", "json", "--seed", "3")
    found = cal.agree(wide, raters=["human", "judge"], seed=3)
    assert result.stdout == found.to_json() + "\n"
    told = json.loads(result.stdout)
    assert list(told)[:5] == ["schema", "version", "seed", "confidence", "level"]
    assert (told["schema"], told["seed"], told["units"]) == ("calipers.agree/1", 3, 4)
    assert list(told["measures"]["fleiss_kappa"]) == (
        "value low high stderr interval n reason".split()
    )
    assert told["pairs"][0]["raters"] == ["human", "judge"]
    assert told["pairs"][0]["cohen_kappa"]["value"] == 0.5


def test_csv_has_a_row_per_measure(wide: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(run(wide, "--raters", "human,judge", "--format", "csv").stdout))
    )
    assert len(rows) == 10
    kappa = next(row for row in rows if row["measure"] == "cohen_kappa")
    assert (kappa["rater_1"], kappa["rater_2"], kappa["value"]) == ("human", "judge", "0.5")
    assert rows[3]["value"] == ""
    assert rows[3]["reason"] == "ratings are labels, such as good"


def test_markdown_and_html_let_nothing_through() -> None:
    rows = [{"<b>|x": "<i>", "y": "<i>"}, {"<b>|x": "n", "y": "<i>"}]
    found = cal.agree(rows, raters=["<b>|x", "y"])
    html = found._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "50 %" in html


@pytest.mark.parametrize("output_format", ["table", "json", "csv", "markdown"])
def test_output_goes_to_the_file_named(output_format: str, wide: Path, tmp_path: Path) -> None:
    args = (wide, "--raters", "human,judge", "--format", output_format)
    result = run(*args, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert [line.rstrip() for line in written.splitlines()] == [
        line.rstrip() for line in run(*args).stdout.splitlines()
    ]
    if output_format == "markdown":
        assert "| cohen_kappa | 0.50 [−0.86, 0.98] |" in written


def test_people_s_ratings_are_joined_from_a_file_of_their_own(tmp_path: Path) -> None:
    judged = [{"task": task, "judge": int(task in "ac")} for task in "abcd"]
    people = tmp_path / "people.csv"
    people.write_text("id,human\na,1\nb,0\nc,0\nd,0\n", encoding="utf-8")
    path = write_lines(tmp_path / "judged.jsonl", judged)
    joined = cal.agree(path, raters=["human", "judge"], join=people, on="task=id")
    both = [{**row, "human": int(row["task"] == "a")} for row in judged]
    assert joined == cal.agree(both, raters=["human", "judge"])


def test_fields_of_the_record_may_have_other_names(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "judgments": row["judgments"]} for row in JUDGED]
    other = [{"task": row["id"], "marks": row["judgments"]} for row in rows]
    path = write_lines(tmp_path / "marks.jsonl", other)
    found = cal.agree(path, map={"id": "task", "judgments": "marks"})
    assert found == cal.agree(rows)
    assert found.clusters == len({row["id"] for row in rows})


@pytest.mark.parametrize(
    ("name", "theirs", "near"), [("judgments", "mark", "marks"), ("id", "tasks", "task")]
)
def test_a_mapped_field_that_no_record_has_is_refused(name: str, theirs: str, near: str) -> None:
    rows = [{"task": "a", "marks": [{"judge": "x", "weighted_score": 1.0}]}]
    with pytest.raises(cal.UsageError, match=f"--map {name}={theirs}: no record has") as raised:
        cal.agree(rows, map={"judgments": "marks", name: theirs})
    assert near in str(raised.value.fix)


def test_an_empty_file_has_no_fields_to_map(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    found = cal.agree(tmp_path / "empty.jsonl", map={"id": "task"})
    assert (found.units, found.exit_code) == (0, 3)
