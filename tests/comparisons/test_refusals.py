"""What is refused, and what has no answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import calipers as cal
from tests.commands import strict
from tests.comparisons.runs_at_hand import SHARES, logs, refused, right, run, the_only
from tests.files import write_lines


def test_no_task_in_common(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    other = write_lines(tmp_path / "b.jsonl", [{"id": "x", "correct": True}])
    assert refused(base, other) == (
        f"error: {base} and {other} have no task in common\n"
        "  tasks are paired by id: name the field with --map id=NAME, group alike, "
        "or compare them as independent samples with --unpaired\n"
    )
    assert run(base, other, "--unpaired").exit_code == 0


def test_groups_without_a_group_in_common(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--", model="a"))
    other = write_lines(tmp_path / "b.jsonl", right("++--", model="b"))
    assert "group alike" in refused(base, other, "--by", "model")


def test_records_without_an_id(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", [{"correct": True}, {"id": "1", "correct": True}])
    assert refused(base, base) == (
        f"error: {base}: 1 of 2 records have no id to pair by\n"
        "  name the field that identifies tasks: --map id=NAME\n"
    )
    renamed = write_lines(tmp_path / "b.jsonl", [{"task": "1", "correct": True}])
    assert "1 of 1 records" in refused(renamed, renamed)
    assert run(renamed, renamed, "--map", "id=task").exit_code == 0


@pytest.mark.parametrize("options", [(), ("--between", "model"), ("--unpaired",), ("--attribute",)])
def test_an_empty_file_is_exit_code_3(options: tuple[str, ...], tmp_path: Path) -> None:
    full = write_lines(tmp_path / "a.jsonl", right("++--"))
    empty = write_lines(tmp_path / "b.jsonl", [])
    pairs = [(empty,)] if "--between" in options else [(full, empty), (empty, full)]
    for named in pairs:
        assert f"no records in {empty}" in refused(*named, *options, code=3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("A",), "comparing needs two data sets\n  name a second file, or split"),
        (("A", "B", "--between", "model"), "--between splits one data set\n  name one file"),
        (("A", "--between", "site"), "--between site: all records have the same value\n  name a"),
        (
            ("A", "--between", "mdel"),
            "--between mdel: no record has a value in mdel\n  did you mean model?",
        ),
        (
            ("A", "B", "--by", "modle"),
            "--by modle: no record has a value in modle\n  did you mean model?",
        ),
        (
            ("A", "B", "--cluster", "sit"),
            "--cluster sit: no record has a value in sit\n  did you mean site?",
        ),
        (("A", "B", "--map", "answer=x"), "--map answer=x: no record has a value in x\n  known: "),
        (
            ("A", "B", "--metric", "acuracy"),
            "no metric is called acuracy\n  did you mean accuracy?",
        ),
        (
            ("A", "B", "--metric", "brier"),
            "no metric has its fields on every side\n  see: calipers",
        ),
        (("A", "B", "A", "--flips", "f"), "--flips compares two runs\n  name two files"),
        (("A", "B", "A", "--attribute"), "--attribute compares two runs\n  name two files"),
        (
            ("A", "--between", "model", "--attribute"),
            "--attribute compares two runs\n  name two files",
        ),
        (
            ("A", "B", "--unpaired", "--flips", "f"),
            "--unpaired pairs no tasks, which --flips needs\n  leave",
        ),
        (
            ("A", "B", "--unpaired", "--attribute"),
            "--unpaired pairs no tasks, which --attribute needs\n  leave",
        ),
        (
            ("A", "B", "--unpaired", "--random", "task,run"),
            "--unpaired pairs no tasks, which --random needs\n  leave",
        ),
        (
            ("A", "B", "--unpaired", "--guarantee"),
            "--unpaired pairs no tasks, which --guarantee needs\n  leave",
        ),
        (
            ("A", "--between", "model", "--random", "task,model"),
            "--random: model is what the sides of --between differ in",
        ),
        (
            ("A", "B", "--base-normalize", "text"),
            "--base-normalize needs --attribute\n  add --attribute",
        ),
        (("-", "-"), "standard input can be read once\n  name a file"),
        (("A", "-", "--attribute"), "standard input can be read once\n  --attribute reads each"),
        (
            ("A", "B", "--confidence", "95"),
            "--confidence 95: must be above 0 and below 1\n  for example 0.95",
        ),
        (("A", "B", "--seed", "-1"), "--seed -1: must be at least 0"),
        (("A", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("A", "B", "-o", "nowhere/x"), "nowhere/x: No such file or directory\n  check the folder"),
        (
            ("A", "B", "--flips", "nowhere/x"),
            "nowhere/x: No such file or directory\n  check the folder",
        ),
        (("A", "B", "--flips", "."), ".: Is a directory\n  check the folder"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_mistake_in_the_command_is_one_message(
    args: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row for model in "ab" for row in right("++--", model=model, site="x")]
    write_lines(Path("A"), rows).rename("A.jsonl")
    write_lines(Path("B"), rows).rename("B.jsonl")
    named = [f"{arg}.jsonl" if arg in ("A", "B") else arg for arg in args]
    assert f"error: {message}" in refused(*named)


def test_no_file_at_all() -> None:
    assert "Missing argument 'BASE CANDIDATE…'" in refused()


def test_a_metric_named_that_one_side_lacks_says_so() -> None:
    base = [{**row, "prob_correct": 0.5} for row in right("+-+-+-+-+-")]
    other = right("++++++++--")
    found = cal.compare(base, other, metrics=["accuracy", "brier", "ece"]).pairs[0].metrics
    assert found["accuracy"].n_pairs == 10
    for name in ("brier", "ece"):
        assert found[name].difference is None
        assert (
            found[name].reason
            == "candidate: no record has prob_correct and correct, or answer and target"
        )
    assert "brier" not in cal.compare(base, other).pairs[0].metrics


@pytest.mark.parametrize("unpaired", [False, True])
def test_one_pair(unpaired: bool) -> None:  # noqa: FBT001
    (pair,) = cal.compare(logs(1, 1), logs(1, 2), unpaired=unpaired).pairs
    for name, metric in pair.metrics.items():
        if metric.difference is not None and name not in SHARES:
            assert metric.low is None
            assert metric.reason, name
    text = cal.compare(logs(1, 1), logs(1, 2), unpaired=unpaired).to_json()
    assert strict(text)["metrics"]["accuracy"]["difference"] in (-1.0, 0.0, 1.0)


def test_nothing_varies() -> None:
    base = [{**row, "latency_ms": 0.1} for row in right("++++")]
    other = [{**row, "latency_ms": 0.3} for row in right("++++")]
    found = cal.compare(base, other)
    latency, accuracy = the_only(found, "latency_mean_ms"), the_only(found)
    assert latency.difference == pytest.approx(0.2)
    assert (latency.p_value, latency.low) == (None, None)
    assert latency.reason == "nothing varies, so the role of chance is unknown"
    assert latency.permutation_p == 2 / 16
    assert (accuracy.p_value, accuracy.difference) == (1.0, 0.0)
    assert the_only(found, "latency_p95_ms").reason == "no resample differs"
    assert "nothing varies" in str(found)


@pytest.mark.parametrize("unpaired", [False, True])
def test_numbers_too_large_to_be_squared(unpaired: bool) -> None:  # noqa: FBT001
    sides = [
        [{"id": str(n // 2), "latency_ms": factor * 1e308 / (1 + n % 3)} for n in range(10)]
        for factor in (1.0, 1.7)
    ]
    found = cal.compare(*sides, unpaired=unpaired)
    strict(found.to_json())
    mean = the_only(found, "latency_mean_ms")
    assert (mean.difference, mean.reason) == (None, "values too large")
    assert str(found)
    found.to_csv()


def test_every_call_failed() -> None:
    rows = [{**row, "error": "timeout: 60 s"} for row in logs(5, 1)]
    (pair,) = cal.compare(rows, logs(5, 2)).pairs
    assert pair.n_pairs == 5
    assert {metric.reason for metric in pair.metrics.values()} == {"no pair has the value"}


def test_standard_input_is_a_file_like_any(files: tuple[Path, Path]) -> None:
    piped = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "calipers",
            "compare",
            "-",
            str(files[1]),
            "--format",
            "json",
        ],
        input=files[0].read_bytes(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (0, b"")
    found = strict(piped.stdout.decode())
    assert found["base"] == "-"
    assert found["metrics"] == cal.compare(*files).to_dict()["metrics"]
