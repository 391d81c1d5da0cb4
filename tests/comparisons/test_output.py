"""What people see of a comparison: tables, files, a notebook, notices."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import calipers as cal
from calipers.reports.dispatch import show
from tests.commands import strict
from tests.comparisons.runs_at_hand import logs, refused, right, run
from tests.files import write_lines

TABLE = """
base.jsonl → candidate.jsonl
8 tasks in both, 1 only in base, 0 only in candidate

 metric     base   candidate              difference        p   p adjusted (Holm)   won · lost · tied (tasks)
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────
 accuracy   38 %        75 %   +38 [−18, +78] points   0.2188              0.2188                   4 · 1 · 3

  accuracy: mid-p McNemar; interval: Bonett-Price
  accuracy: a difference below 85 points would mostly go unseen (power 0.8)
flips: 1 run became wrong, 4 became right
"""


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("base.jsonl"), right("+++-----+"))
    write_lines(Path("candidate.jsonl"), right("-++++++-"))
    result = run("base.jsonl", "candidate.jsonl", "--metric", "accuracy")
    assert (result.exit_code, result.stderr) == (0, "")
    plain = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert plain.strip() == TABLE.strip()


def test_the_table_in_a_narrow_terminal() -> None:
    found = cal.compare(logs(30, 1), logs(30, 2), attribute=True)
    for width in (60, 80):
        out = io.StringIO()
        show(found, Console(file=out, width=width))
        assert "…" not in out.getvalue(), "a figure cut short is a wrong figure"
        assert max(map(len, out.getvalue().splitlines())) <= width
        for name in ("latency_p95_ms", "sce_normalized"):
            assert name in out.getvalue()


def test_csv(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a,b.jsonl", right("++--", part='x,"y"'))
    text = run(base, base, "--by", "part", "--metric", "accuracy", "--format", "csv").stdout
    whole, group = csv.DictReader(io.StringIO(text))
    assert whole["base_name"] == str(base)
    assert (whole["by_part"], group["by_part"]) == ("", 'x,"y"')
    assert (whole["metric"], whole["p_value"], whole["reason"]) == ("accuracy", "1.0", "")


def test_csv_of_groups_of_several_types() -> None:
    rows = [*right("+-", part="a"), *right("+-", part=1), *right("+-", part=None)]
    lines = list(csv.DictReader(io.StringIO(cal.compare(rows, rows, by="part").to_csv())))
    assert {line["by_part"] for line in lines} == {"", "a", "1"}


def test_output_to_a_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    for output_format in ("table", "json", "csv", "markdown", "latex"):
        out = tmp_path / output_format
        result = run(*files, "--metric", "accuracy", "--format", output_format, "-o", out)
        assert (result.exit_code, result.output) == (0, "")
        assert "accuracy" in out.read_text(encoding="utf-8")


HOSTILE = "\x1b[31mred\x1b[0m\r\n\u202e\x07"


def test_escape_codes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    rows = [
        {
            **row,
            "model": f"{HOSTILE}{number}",
            "part": HOSTILE,
            "error": HOSTILE if row["id"] == "t00" else None,
        }
        for number in range(2)
        for row in [*right("+-"), {"id": HOSTILE, "correct": True, "answer": HOSTILE}]
    ]
    path = write_lines(tmp_path / "a.jsonl", rows)
    for output_format in ("table", "markdown"):
        shown = run(path, "--between", "model", "--by", "part", "--format", output_format)
        assert shown.exit_code == 0
        assert "\ufffd[31mred\ufffd[0m" in shown.stdout.replace("\\", "")
        assert "failed calls" in shown.stderr
        for character in "\x1b\r\x07\u202e":
            assert character not in shown.output
    told = refused(path, path, "--by", "model", "--between", HOSTILE)
    assert not set("\x1b\r\x07\u202e") & set(told)


def test_names_cannot_break_out_of_markdown_and_html() -> None:
    name = "a|`b`<script>alert('x')</script>[l](http://evil.example/)&"
    rows = [
        {**row, "model": f"{name}{number}", "part": name}
        for number in range(2)
        for row in right("+-+")
    ]
    found = cal.compare(rows, between="model", by="part")
    lines = found.to_markdown().splitlines()
    assert "<script" not in "\n".join(lines)
    assert lines[0].startswith(r"**a\|\`b\`&lt;script>")
    assert r"\[l\](http" in lines[0]
    widths = {line.count("|") - line.count(r"\|") for line in lines if line.startswith("| ")}
    assert len(widths) == 1
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page


def test_a_notebook_shows_every_metric() -> None:
    page = cal.compare(logs(20, 1), logs(20, 2))._repr_html_()
    for name in ("accuracy", "ece", "latency_p95_ms", "mid-p McNemar"):
        assert name in page


def test_the_example_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows what the shipped solvers give, table and all."""
    monkeypatch.setenv("COLUMNS", "100")  # as tools/console.py runs pages
    root = Path(__file__).resolve().parents[2]
    made = tmp_path / "demo.jsonl"
    script = root / "examples" / "arithmetic" / "answer_tasks.py"
    subprocess.run([sys.executable, script, "-o", made], check=True, timeout=120)
    names = ("accuracy", "mode_accuracy", "brier", "ece", "step_count_mean")
    asked = [arg for name in names for arg in ("--metric", name)]
    shown = run(made, "--between", "model", *asked).stdout
    page = (root / "docs" / "compare.md").read_text(encoding="utf-8")
    for line in shown.splitlines():
        assert line.rstrip() in page


def test_failed_calls_are_noticed(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    rows = [*right("+++"), {"id": "t03", "error": "timeout: 60 s"}]
    other = write_lines(tmp_path / "b.jsonl", rows)
    result = run(base, other, "--metric", "accuracy", "--format", "json")
    assert result.stderr == f"note: {other}: 1 failed calls are in no metric\n"
    found = strict(result.stdout)
    assert found["notices"] == [f"{other}: 1 failed calls are in no metric"]
    assert (found["n_pairs"], found["metrics"]["accuracy"]["n_pairs"]) == (4, 3)


def test_bad_rows_that_were_left_out_are_noticed(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", right("++--"))
    other = write_lines(tmp_path / "b.jsonl", [*right("+++-"), {"id": "t04", "correct": "maybe"}])
    assert "b.jsonl:5: correct: " in refused(base, other)
    result = run(base, other, "--on-bad", "skip")
    assert (result.exit_code, result.stderr) == (0, f"note: {other}: 1 bad row was left out\n")


def test_models_that_count_as_runs_are_noticed() -> None:
    rows = [row for model in "ab" for row in right("++--", model=model)]
    (notice,) = cal.compare(rows, right("+---")).notices
    assert (
        notice
        == "<records>: up to 2 models of a task count as its runs; --by model keeps them apart"
    )
    assert cal.compare(rows, rows, by="model").notices == ()
    assert cal.compare(rows, between="model").notices == ()


def test_pass_at_k_is_compared_when_named() -> None:
    runs = [{"id": f"t{n}", "run": r, "correct": n % 2 == r} for n in range(6) for r in (0, 1)]
    assert not [name for name in cal.compare(runs, runs).pairs[0].metrics if "pass_" in name]
    named = cal.compare(runs, runs, metrics=["pass_hat_2"]).pairs[0].metrics
    assert list(named) == ["pass_hat_2"]


def test_restated_metrics_are_in_no_table() -> None:
    third = [{**each, "correct": True} for each in right("++--")]
    for unpaired in (False, True):
        shown = str(cal.compare(right("++--"), right("+---"), third, unpaired=unpaired))
        assert "accuracy" in shown
        assert not any(name in shown for name in ("usr", "error_rate"))
