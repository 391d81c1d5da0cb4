"""Any field is a metric: what the data bring, what is said of a wrong name, and files that declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.metrics import METRICS
from calipers.scores.stored_score import read_score
from calipers.support.errors import DataError, UsageError
from tests.commands import refused, run
from tests.files import write_lines
from tests.records.log_files import sample, write_inspect_log

ROWS: list[dict[str, Any]] = [
    {
        "id": str(n),
        "answer": "a",
        "tone": n / 10,
        "grade": "AB"[n % 2],
        "kind": n % 2 == 0,
        "meta": {"deep": {"value": n}, "label": "x"},
    }
    for n in range(10)
]


def value_of(name: str, data: Any = ROWS, **options: Any) -> Any:
    return cal.score(data, metrics=[name], **options).groups[0].metrics[name].value


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same(suffix: str, tmp_path: Path) -> None:
    flat = [{name: row[name] for name in ("id", "tone", "kind")} for row in ROWS]
    path = tmp_path / f"a.{suffix}"
    frame = pl.DataFrame(flat)
    if suffix == "jsonl":
        write_lines(path, flat)
    else:
        (frame.write_csv if suffix == "csv" else frame.write_parquet)(path)
    found = cal.score(path, metrics=["mean(tone)", "mean(kind)"]).groups[0].metrics
    assert found["mean(tone)"].value == pytest.approx(0.45)
    assert (found["mean(kind)"].value, found["mean(kind)"].interval) == (0.5, "wilson")


def test_paths_reach_into_objects_in_map_and_by_too(tmp_path: Path) -> None:
    for data in (ROWS, write_lines(tmp_path / "a.jsonl", ROWS), pl.DataFrame(ROWS)):
        assert value_of("sum(meta.deep.value)", data) == 45
        groups = cal.score(data, by="meta.deep.value", metrics=["mean(tone)"]).groups
        assert len(groups) == 10
        [group] = cal.score(data, map={"target": "meta.label"}, metrics=["accuracy"]).groups
        assert (group.metrics["accuracy"].value, group.metrics["accuracy"].n) == (0.0, 10)


def test_a_key_with_a_point_is_that_key() -> None:
    rows = [{"a.b": 1, "a": {"b": 5}}, {"a": {"b": 3}}, {"a.b": 2}]
    assert value_of("sum(a.b)", rows) == 6


def test_several_values_of_one_object_are_read_together(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"m": {"x": 1, "y": {"z": 2.5}}}, {"m": {"x": 3}}])
    found = cal.score(path, metrics=["mean(m.x)", "mean(m.y.z)"]).groups[0].metrics
    assert [each.value for each in found.values()] == [2.0, 2.5]


@pytest.mark.parametrize(
    ("name", "said", "fix"),
    [
        ("mean(ton)", "no record has a value in ton", "did you mean tone?"),
        ("mean(meta.deep.valu)", "no record has a value", "did you mean meta.deep.value?"),
        ("p95(grade)", "grade holds text, not numbers", "known: "),
        ("mean(answer)", "answer holds text", "a field of numbers"),
        ("p90(tone)", "no statistic of a field is called p90", "mean, p50"),
        ("mean()", 'no record has a value in ""', "known: "),
        ("mean(\x1b[31m)", "no record has a value in \ufffd[31m", "known: "),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest(name: str, said: str, fix: str) -> None:
    for call in (
        lambda: cal.score(ROWS, metrics=[name]),
        lambda: cal.explain(name, ROWS),
        lambda: cal.compare(ROWS, ROWS, metrics=[name]),
        lambda: cal.gate(ROWS, policy={"thresholds": {"blocking": {name: "≥ 1"}}}),
    ):
        with pytest.raises(UsageError) as told:
            call()
        assert said in told.value.message
        assert fix in told.value.fix


def test_a_text_among_numbers_names_its_row(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"x": 1}, {"x": "n/a"}, {"x": 3}])
    with pytest.raises(DataError, match=r"a\.jsonl:2: x: "):
        value_of("mean(x)", path)
    assert value_of("mean(x)", path, on_bad="skip") == 2.0
    with pytest.raises(DataError, match="not a finite number"):
        value_of("mean(x)", write_text(tmp_path / "b.jsonl", '{"x": 1}\n{"x": 1e999}\n'))


def write_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_failed_calls_are_in_no_field_either() -> None:
    rows = [*ROWS, {"id": "x", "tone": 1e9, "error": "timeout: late"}]
    assert value_of("mean(tone)", rows) == pytest.approx(0.45)
    found = cal.score([{"error": "timeout: late"}], metrics=["mean(tone)"]).groups[0].metrics
    assert found["mean(tone)"].reason == "every call failed"


def test_scores_of_logs_are_measured_without_being_asked_for(tmp_path: Path) -> None:
    log = write_inspect_log(tmp_path / "a.eval", [sample(n, n / 4) for n in range(1, 5)])
    name = next(name for name in cal.score(log).groups[0].metrics if name.startswith("score_"))
    assert cal.score(log).groups[0].metrics[name].value == 0.625
    assert value_of(name, log) == value_of(f"mean({name})", log) == 0.625
    assert name in run("score", log).stdout
    assert name not in cal.score(log, profile="reasoning").groups[0].metrics
    grades = write_inspect_log(tmp_path / "b.eval", [sample(1, "C"), sample(2, "I")])
    assert cal.score(grades).groups[0].metrics[name].value == 0.5
    words = write_inspect_log(tmp_path / "c.eval", [sample(1, "terse"), sample(2, "C")])
    assert name not in cal.score(words).groups[0].metrics


def test_per_sample_values_stand_under_the_fields_name(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    cal.score(ROWS, metrics=["mean(meta.deep.value)"], per_sample=out)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["meta.deep.value"] for row in rows] == list(range(10))


# --- in files ---

POLICY = """
metrics:
  - {name: own_tone, field: tone, better: higher, range: [0, 1], description: "How kind it is."}
  - {name: own_even, python: "code.py:is_even"}
thresholds:
  blocking: {own_tone: 0.4, own_even: "≥ 0.5"}
"""
CODE = "def is_even(record):\n    return record['meta']['deep']['value'] % 2 == 0\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_text(tmp_path / "code.py", CODE)
    return write_text(tmp_path / "policy.yaml", POLICY)


def test_a_policy_declares_metrics(policy: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", ROWS)
    decided = cal.gate(data, policy=policy)
    assert {each.name: each.value for each in decided.checks} == {"own_tone": 0.45, "own_even": 0.5}
    assert decided.verdict == "pass"
    write_text(tmp_path / "code.py", CODE.replace("% 2 == 0", "< 3"))
    assert cal.gate(data, policy=policy).verdict == "fail"  # the file is read again
    assert cal.score(data, policy=policy).groups[0].metrics["own_even"].interval == "wilson"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("field: tone, ", "", "policy.yaml:3: metrics.0: own_tone has neither field nor python"),
        ("better: higher", "beter: higher", "did you mean better?"),
        ("range: [0, 1]", "range: [1, 0]", "policy.yaml:3: own_tone: the range [1, 0] is empty"),
        ("is_even", "is_evn", "did you mean is_even?"),
        ("code.py:", "cod.py:", "cod.py: no such file"),
        ("name: own_tone", "name: accuracy", "a metric accuracy of its own"),
        ("is_even", "fails", "own_even: the function fails for the record with id 0: KeyError"),
        ("is_even", "says", "own_even: the function returns 'yes' for the record with id 0"),
    ],
)
def test_what_is_wrong_in_it_is_named(
    old: str, new: str, said: str, policy: Path, tmp_path: Path
) -> None:
    write_text(policy, POLICY.replace(old, new))
    more = "def fails(record): return record['absent']\ndef says(record): return 'yes'\n"
    write_text(tmp_path / "code.py", CODE + more)
    assert said in refused("gate", write_lines(tmp_path / "a.jsonl", ROWS), "--policy", policy)


def test_a_stored_score_shows_them_without_their_code(policy: Path) -> None:
    told = cal.score(ROWS, policy=policy).to_dict()
    assert told["own_metrics"]["own_tone"]["field"] == "tone"
    for name in ("own_tone", "own_even"):
        METRICS.remove(name)
    stored = read_score(json.loads(json.dumps(told)))
    assert stored is not None
    assert stored.groups[0].metrics["own_even"].value == 0.5
    again = cal.score(ROWS).groups[0].metrics
    assert again["own_tone"].value == pytest.approx(0.45)
    assert "own_even" not in again  # its code is not run


@pytest.mark.parametrize("entry", [3, {}, {"range": "x"}, {"range": [1, 0]}, {"range": [None] * 3}])
def test_a_stored_description_is_not_trusted(entry: Any) -> None:
    told = {**cal.score(ROWS).to_dict(), "own_metrics": {"odd": entry, "<script>": entry}}
    assert read_score(told) is not None
    assert not {"odd", "<script>"} & {*METRICS}


def test_metrics_of_ones_own_have_a_profile_together(tmp_path: Path) -> None:
    plugin = tmp_path / "tone.py"
    plugin.write_text(
        "import calipers as cal\n"
        "for field in ('tone', 'kind'):\n"
        "    of = cal.metrics.mean(field, name=f'{field}/rate', range=(0, 1), profile='tone')\n"
        "    cal.register(of)\n"
    )
    data = write_lines(tmp_path / "a.jsonl", ROWS)
    result = run("score", data, "--plugin", plugin, "--profile", "tone", "--format", "json")
    [group] = json.loads(result.stdout)["groups"]
    assert set(group["metrics"]) == {"tone/rate", "kind/rate"}
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    assert run("report", data, "--plugin", plugin, "-o", page).exit_code == 0
    assert "tone/rate" in page.read_text()
    asked = ("--profile", "tone", "--by", "grade", "--figures", figures)
    assert run("score", data, "--plugin", plugin, *asked).exit_code == 0
    assert {path.stem for path in figures.iterdir()} == {"tone_rate", "kind_rate"}
    assert "did you mean tone?" in refused("score", data, "--plugin", plugin, "--profile", "tonne")
