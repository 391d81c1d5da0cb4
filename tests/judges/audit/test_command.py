"""calipers judge audit: formats, exit codes, and its place among the commands."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import click
from click.testing import CliRunner
from rich.console import Console

import calipers as cal
from calipers.cli.judge import JudgeGroup
from calipers.reports.dispatch import show
from tests.files import write_lines
from tests.judges.audit.judged_at_hand import (
    PANEL,
    items,
    judge_named,
    judgment,
    record,
    refused,
    run,
)

TABLE = """
6 of 6 records judged; 12 judgments by 2 judges

judges

 judge    n   missing       pass rate    mean score             bias         pass bias
 ─────────────────────────────────────────────────────────────────────────────────────
 kind     6         0   83 % [42, 99]   0.55 ± 0.24   +0.233 ± 0.086   +33 ± 54 points
 strict   6         0   50 % [15, 85]   0.32 ± 0.28   −0.233 ± 0.086   −33 ± 54 points
"""


def test_the_table(tmp_path: Path) -> None:
    marks = [(0.1, 0.3), (0.2, 0.5), (0.0, 0.3), (0.7, 0.8), (0.4, 0.6), (0.5, 0.8)]
    rows = [
        record(
            f"q{n}",
            judgment("strict", low, passed=low > 0.3),
            judgment("kind", high, passed=high > 0.3 or n == 2),
        )
        for n, (low, high) in enumerate(marks)
    ]
    result = run("audit", write_lines(tmp_path / "judged.jsonl", rows))
    assert (result.exit_code, result.stderr) == (0, "")
    shown = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert f"\n{shown}".startswith(TABLE)
    assert "scores against" not in shown, "no judgment carries items"
    assert " kind – strict\n" in shown


def test_json_is_the_contract(panel: Path, tmp_path: Path) -> None:
    shown = run("audit", panel, "--format", "json").stdout
    found = json.loads(shown)
    assert list(found) == ["schema", "version", "seed", "confidence", "groups"]
    assert (found["schema"], found["seed"], found["confidence"]) == ("calipers.audit/1", 0, 0.95)
    [group] = found["groups"]
    assert (
        list(group)
        == "by records errors judged flagged clusters judgments items judges agreement".split()
    )
    names = "judge judgments missing flagged pass_rate mean_score bias pass_bias items_equal items_difference length_slope length_bias own_margin self_preference items"
    assert list(group["judges"][0]) == names.split()
    assert (
        list(group["judges"][0]["bias"])
        == "value low high stderr interval n missing reason".split()
    )
    assert list(group["agreement"]["passed"]) == [
        "percent_agreement",
        "cohen_kappa_mean",
        "fleiss_kappa",
        "krippendorff_alpha_nominal",
    ]
    assert list(group["agreement"]["weighted_score"]) == ["krippendorff_alpha_interval"]
    [pair, *_] = group["agreement"]["pairs"]
    assert (pair["judges"], list(pair["passed"]), list(pair["weighted_score"])) == (
        ["a", "b"],
        ["percent_agreement", "cohen_kappa"],
        ["spearman"],
    )
    assert run("audit", panel, "--format", "json", "-o", tmp_path / "audit.json").stdout == ""
    assert (tmp_path / "audit.json").read_text(encoding="utf-8") == shown
    assert json.loads(run("audit", panel, "--format", "json", "--seed", 7).stdout)["seed"] == 7


def test_csv_has_a_row_per_measure(panel: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("audit", panel, "--format", "csv").stdout)))
    audit = cal.audit_judges(panel)
    [bias] = [row for row in rows if (row["judge_1"], row["measure"]) == ("a", "bias")]
    assert float(bias["value"]) == judge_named(audit, "a").measures["bias"].value
    [kappa] = [
        row
        for row in rows
        if (row["judge_1"], row["judge_2"], row["measure"]) == ("a", "b", "cohen_kappa")
    ]
    assert (kappa["on"], kappa["missing"]) == ("passed", "")
    assert len(rows) == 3 * 10 + 5 + 3 * 3


HOSTILE = "\x1b[2J\x1b[31mevil | `<script>` [x](http://x)\n" + "long" * 100


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    rows = [
        record(
            HOSTILE,
            judgment(HOSTILE, 0.1, items=items((1, 1))),
            judgment("b", 0.5, items={HOSTILE: {"achieved": 1}}),
        )
    ]
    path = write_lines(tmp_path / "judged.jsonl", rows)
    for output_format in ("table", "markdown"):
        shown = run("audit", path, "--format", output_format, "--by", "id").stdout
        assert "\x1b" not in shown
        assert "evil" in shown
    assert "<script>" not in run("audit", path, "--format", "markdown").stdout
    page = cal.audit_judges(path)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    bad = write_lines(tmp_path / "bad.jsonl", [record("q", judgment(HOSTILE, 7.0))])
    assert "\x1b" not in refused("audit", bad)


def test_items_and_reasons_are_shown_everywhere(tmp_path: Path) -> None:
    rows = [
        record("q1", judgment("a", 0.25, items=items((1, 1))), judgment("b", 0.5)),
        record("q2", judgment("a", 0.5, items={"F1": {"achieved": 1}}), judgment("b", 0.5)),
    ]
    path = write_lines(tmp_path / "judged.jsonl", rows)
    audit = cal.audit_judges(path)
    for shown in (
        str(audit),
        run("audit", path, "--format", "markdown").stdout,
        audit._repr_html_(),
    ):
        assert "0 of 1" in shown
        assert "−0.75" in shown
        assert f"items of a in q2 ({path}:2): item F1 has no max" in " ".join(shown.split())
        assert "items_equal (b), items_difference (b): no judgment carries items" in shown


def test_columns_without_room_stand_below() -> None:
    out = io.StringIO()
    show(cal.audit_judges(PANEL), Console(file=out, width=60, highlight=False))
    assert max(map(len, out.getvalue().splitlines())) <= 60
    assert "pass bias" in out.getvalue()


def test_what_is_no_subcommand_is_a_kind_mistake() -> None:
    assert "--model" in run("runs.jsonl", "--rubric", "r.yaml").stderr  # judges files
    assert "did you mean audit?" in refused("audits", "x.jsonl")
    assert run("--help").exit_code == 0
    assert run("audit").exit_code == 2


def test_a_default_command_takes_what_is_no_subcommand() -> None:
    @click.group(cls=JudgeGroup)
    def commands() -> None: ...

    @commands.command()
    @click.argument("files", nargs=-1)
    @click.option("--rubric")
    def live(files: tuple[str, ...], rubric: str | None) -> None:
        click.echo(f"{files} {rubric}")

    assert isinstance(commands, JudgeGroup)
    commands.default = "live"
    for args in (
        ["a.jsonl", "--rubric", "r"],
        ["--rubric", "r", "a.jsonl"],
        ["live", "a.jsonl", "--rubric", "r"],
    ):
        assert CliRunner().invoke(commands, args).output == "('a.jsonl',) r\n"
