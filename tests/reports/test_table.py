"""One table model: what is built once is in every format, escaped, with the digits that count."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.reports.dispatch import make_document, render
from calipers.reports.formats.html import render_html_table
from calipers.reports.formats.latex import escape_latex, render_latex
from calipers.reports.formats.markdown import render_markdown
from calipers.reports.formats.spreadsheets import render_csv
from calipers.reports.formats.terminal import render_text
from calipers.reports.number_format import Form, choose_form, format_figure
from calipers.reports.table import Cell, Column, Document, Line, Row, Table, hide_data, make_rows
from calipers.reports.tables import score_tables
from calipers.scores.result import Measured
from tests.dashboard.dashboards import Dashboard, cache, serving
from tests.files import write_lines
from tests.reports.pages_at_hand import page_of, records

__all__ = ["cache", "serving"]

FORMATS = ("text", "markdown", "latex", "html", "csv")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """A result of every kind that prints."""
    rows = [row | {"tier": f"T{row['run'] - 1}"} for row in records()]
    judged = [
        {"id": f"q{n}", "judgments": [{"judge": j, "passed": n % 2 == 0} for j in "ab"]}
        for n in range(8)
    ]
    policy = {"thresholds": {"blocking": {"accuracy": "≥ 99%"}}}
    return {
        "score": cal.score(rows, by="model"),
        "tiers": cal.score(rows, profile="tiers", by="tier"),
        "compare": cal.compare(rows, between="model"),
        "gate": cal.gate(rows, policy=policy, by="model"),
        "power": cal.power(rows, by="model"),
        "audit": cal.audit_judges(judged),
        "agree": cal.agree(judged, value="passed", level="nominal"),
    }


# --- a column is in all formats ---


def test_a_column_of_the_score_is_in_every_format_the_report_and_the_dashboard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serving: Callable[..., Dashboard]
) -> None:
    added = Column(name="missing", heading="rows left out", type=int)
    columns = tuple(added if each.name == "missing" else each for each in score_tables._COLUMNS)
    monkeypatch.setattr(score_tables, "_COLUMNS", columns)
    score = cal.score(records())
    for form in FORMATS[:4]:
        assert "rows left out" in render(score, form)
    assert "missing" in next(csv.reader(io.StringIO(score.to_csv())))
    report = cal.report(records())
    assert "rows left out" in page_of(report.to_html()).text
    assert "rows left out" in report.to_markdown()
    write_lines(tmp_path / "records.jsonl", records())
    site = serving(tmp_path)
    assert "rows left out" in site.get(f"/runs/{site.ids()['records.jsonl']}/score").text


def with_a_column(document: Document) -> Document:
    """Each table with one more column, whose cells say `n+1`, `n+2`, …."""
    return tuple(
        replace(
            block,
            columns=(*block.columns, Column(name="further", heading="FURTHER")),
            rows=tuple(
                replace(row, cells=(*row.cells, Cell(value=f"n+{at}")))
                for at, row in enumerate(block.rows)
            ),
        )
        if isinstance(block, Table) and not block.across
        else block
        for block in document
    )


@pytest.mark.parametrize("kind", ["compare", "gate", "power", "audit", "agree"])
def test_a_column_of_any_table_is_in_every_format(kind: str, results: dict[str, Any]) -> None:
    document = with_a_column(make_document(results[kind]))
    for written in (render_text, render_markdown, render_latex):
        assert "FURTHER" in written(document)
        assert "n+0" in written(document)
    tables = [block for block in document if isinstance(block, Table) and block.rows]
    assert all(
        ("FURTHER" in render_html_table(t)) == ("n+0" in render_html_table(t)) for t in tables
    )
    assert "further" in next(csv.reader(io.StringIO(render_csv(document))))


def test_every_result_is_in_every_format(results: dict[str, Any]) -> None:
    for result in results.values():
        for form in FORMATS:
            assert render(result, form)
        assert result.to_latex() == render(result, "latex")
        assert result.to_markdown() == render(result, "markdown")
        assert result.to_csv() == render(result, "csv")
        assert str(result) == render(result, "text")


def test_full_precision_in_csv_and_frames(results: dict[str, Any]) -> None:
    score = results["score"]
    lines = csv.DictReader(io.StringIO(score.to_csv()))
    values = {(line["model"], line["metric"]): line["value"] for line in lines}
    for group in score.groups:
        for name, measured in group.metrics.items():
            assert values[group.by["model"], name] == (
                "" if measured.value is None else repr(measured.value)
            )
    assert score.to_polars().height == len(values)


# --- digits ---


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.87213, 0.76789, 0.93312, "0.872 [0.768, 0.933]"),
        (36.912, 34.6, 39.2, "36.9 ± 2.3"),
        (8699.1, 8141.0, 9257.0, "8,699 ± 558"),
        (0.5625, None, None, "0.5625"),
        (0.0, None, None, "0"),
        (1.0, 0.05, 1.0, "1.00 [0.05, 1.00]"),
        (0.6931, 0.0, None, "0.69 [0.00, —]"),
        (0.0797, 0.0021, 2.62, "0.080 [0.002, 2.620]"),
        (0.5, 0.5, 0.5, "0.5000 ± 0.0000"),
        (float("inf"), 1.0, float("inf"), "∞ [1.000, ∞]"),
        (-0.0001, -0.02, 0.02, "0.000 ± 0.020"),
        (None, None, None, "—"),
    ],
)
def test_the_interval_decides_how_many_digits(
    value: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert format_figure(value, low, high) == text


def test_one_quantity_has_one_form_in_all_groups() -> None:
    narrow = Measured(value=0.9, low=0.8953, high=0.9047, n=9, missing=0)
    lopsided = Measured(value=0.97, low=0.81, high=0.999, n=9, missing=0)
    form = choose_form([narrow, lopsided, narrow])
    told = [format_figure(each.value, each.low, each.high, form) for each in (narrow, lopsided)]
    assert told == ["0.9000 [0.8953, 0.9047]", "0.9700 [0.8100, 0.9990]"]
    assert format_figure(0.143, 0.021, 0.26, Form(percent=True, signed=True)) == "+14 % ± 12"


@given(st.floats(-1e12, 1e12), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_figure_is_near_its_value(value: float, below: float, above: float) -> None:
    text = format_figure(value, value - below, value + above).partition(" ")[0]
    half = (below + above) / 2
    read = float(text.replace("−", "-").replace(",", ""))
    assert abs(read - value) <= max(0.05 * half, 5e-3 * abs(value), 0.5 * (half >= 1))


# --- what was unclear before ---


def test_metrics_without_a_value_share_one_line() -> None:
    score = cal.score([{"id": "a", "answer": "4", "target": "4"}], profile="reasoning")
    for shown in (str(score), score.to_markdown(), score.to_latex()):
        flat = " ".join(shown.split())
        assert flat.count("without a value: ") == 1
        assert not re.search(r"stability[ |&]*—", flat)
    assert json.loads(score.to_json())["groups"][0]["metrics"]["stability"]["value"] is None
    assert "stability" in score.to_csv()


def test_one_tier_has_no_variance() -> None:
    rows = [row | {"tier": "T0"} for row in records()]
    shown = str(cal.score(rows, profile="tiers", by="tier"))
    assert "Tiers against T0" in shown
    assert "variance" not in shown


def test_compare_says_what_it_counts(results: dict[str, Any]) -> None:
    shown = str(results["compare"])
    assert "p adjusted (Holm)" in " ".join(results["compare"].to_markdown().split())
    assert "won · lost · tied (tasks)" in results["compare"].to_markdown()
    assert re.search(r"flips: \d+ runs? became wrong, \d+ became right", shown)


# --- LaTeX ---

SPECIAL = 'a&b%c$d#e_f{g}h~i^j\\k [0] *x "q" `t` <u> |v|'


def unescaped(text: str, character: str) -> int:
    """How often a character stands there as LaTeX would act on it."""
    return len(re.findall(rf"(?<!\\){re.escape(character)}", text))


def test_special_characters_are_escaped() -> None:
    assert escape_latex(SPECIAL) == (
        r"a\&b\%c\$d\#e\_f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k"
        r" [0] *x ''q'' \`{}t\`{} \textless{}u\textgreater{} \textbar{}v\textbar{}"
    )


@given(st.text(), st.text())
def test_no_text_can_give_a_command(first: str, second: str) -> None:
    table = Table(
        title=second,
        columns=(Column(name=first, kind="key"), Column(name=second)),
        rows=(Row(cells=(first, second), section=second),),
        notes=(first,),
    )
    written = render_latex((Line(text=first, kind="heading"), table))
    commands = set(re.findall(r"\\([a-zA-Z]+)", written))
    ours = "usepackage paragraph begin end centering caption toprule midrule bottomrule multicolumn textit par smallskip footnotesize"
    symbols = "textasciitilde textasciicircum textbackslash textless textgreater textbar ldots times pm infty geq leq approx rightarrow cdot alpha kappa epsilon tau Delta"
    assert commands <= {*ours.split(), *symbols.split()}
    body = written.split("\n", 1)[1]
    assert unescaped(body, "{") == unescaped(body, "}")
    assert unescaped(body, "%") == unescaped(body, "#") == unescaped(body, "~") == 0
    rows = [
        line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line
    ]
    assert [unescaped(row, "&") for row in rows] == [1, 1]
    assert not any(row.startswith(("[", "*")) for row in rows)


def test_latex_has_a_column_of_units_only_where_there_are_some() -> None:
    rows = [{"answer": "4", "target": "4", "latency_ms": 3.0}]
    assert r"\begin{tabular}{lr}" in cal.score(rows, metrics=["accuracy"]).to_latex()
    assert r"\begin{tabular}{lrl}" in cal.score(rows, metrics=["latency_mean_ms"]).to_latex()


@pytest.mark.parametrize("kind", ["score", "tiers", "compare", "gate"])
def test_the_tables_have_booktabs_rules_and_as_many_cells_as_columns(
    kind: str, results: dict[str, Any]
) -> None:
    written = results[kind].to_latex()
    for begin, end in ((r"\begin{table}", r"\end{table}"), (r"\toprule", r"\bottomrule")):
        assert written.count(begin) == written.count(end) > 0
    for spec, body in re.findall(
        r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", written, re.DOTALL
    ):
        for line in body.splitlines():
            if line.endswith(r"\\") and "multicolumn" not in line:
                assert unescaped(line, "&") == len(spec) - 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no TeX to compile with")
def test_the_tables_compile(results: dict[str, Any], tmp_path: Path) -> None:
    hostile = Table(
        columns=(Column(name=SPECIAL, kind="key"), Column(name="[x]")),
        rows=(Row(cells=("[2cm] starts a row", SPECIAL)), Row(cells=("*", r"\input{/etc/passwd}"))),
        notes=(SPECIAL, "%"),
    )
    bodies = [results[kind].to_latex() for kind in ("score", "tiers", "compare", "gate")]
    source = "\n".join((*bodies, render_latex((hostile,))))
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
        f"{source}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "page.pdf").exists()


# --- the model ---


def test_side_by_side_groups_of_the_same_looks_stay_apart() -> None:
    rows = [{"m": "(none)", "answer": "a"}, {"m": None, "answer": "b"}]
    table = hide_data(score_tables.tabulate_score(cal.score(rows, by="m")))
    assert [column.head for column in table.columns] == ["metric", "(none)", "(none)", "unit"]


def test_hostile_text_is_harmless_in_every_format() -> None:
    name = "\x1b[31m|<script>`=1+1`\u202e"
    table = Table(
        title=name,
        lead=name,
        columns=(Column(name=name, kind="key"), Column(name="why", kind="words")),
        rows=(Row(cells=(name, name), section=name, tone="fail"),),
        notes=(name,),
    )
    document: Document = (Line(text=name, kind="verdict", tone="fail"), table)
    for written in (render_text, render_markdown, render_latex):
        assert not set("\x1b\u202e") & set(written(document))
    assert "<script" not in render_markdown(document)
    page = render_html_table(table)
    assert "<script" not in page
    assert not set("\x1b\u202e") & set(page)
    formula = Table(columns=(Column(name="a"),), rows=(Row(cells=("=1+1",)),))
    assert render_csv((formula,)) == "a\n'=1+1\n"


# --- what people see of a score ---


def test_metrics_that_restate_accuracy_are_shown_when_named() -> None:
    rows = [{"id": str(n), "correct": n % 3 > 0} for n in range(30)]
    told = cal.score(rows)
    assert "error_rate" not in str(told) + told.to_markdown() + told._repr_html_()
    assert {"accuracy", "usr", "error_rate"} <= set(told.to_dict()["groups"][0]["metrics"])
    assert "error_rate" in told.to_csv()
    named = str(cal.score(rows, metrics=["accuracy", "error_rate"]))
    assert "accuracy" in named
    assert "wrong answers" in named  # failed calls are something else
    assert "wrong answers" in str(cal.score(rows, metrics=["error_rate"]))
    compared = cal.compare(rows, rows)
    assert "error_rate" not in str(compared)
    assert "error_rate" in compared.pairs[0].metrics
    assert "wrong answers" in str(cal.compare(rows, rows, metrics=["accuracy", "error_rate"]))


def test_an_interval_with_one_bound_says_why() -> None:
    rows = [{"id": str(n), "answer": str(n), "target": "1"} for n in range(8)]
    told = cal.score(rows, metrics=["sce"])
    assert "—]*" in str(told)
    assert "* sce: no upper bound: fewer than 5 rows for each distinct answer" in str(told)
    assert "- \\* sce: no upper bound" in told.to_markdown()  # not a list in a list
    assert "no upper bound: fewer than 5 rows" in told._repr_html_()


def test_metrics_without_a_value_share_a_line() -> None:
    rows: list[dict[str, Any]] = [
        {"id": str(n), "model": "a", "correct": True, "latency_ms": 5 + n} for n in range(4)
    ]
    rows += [{"id": str(n), "model": "b", "correct": n > 1} for n in range(4)]
    notes = cal.score(rows, by="model").to_markdown().splitlines()
    [line] = [each for each in notes if each.startswith("- without a value in b: ")]
    assert "latency_p95_ms, latency_mean_ms" in line
    assert "(no record has latency_ms)" in line


def test_only_what_is_significantly_best_is_bold() -> None:
    def answers(right: int) -> list[dict[str, Any]]:
        return [{"id": str(n), "correct": n < right} for n in range(60)]

    apart, alike = (cal.compare(answers(20), answers(most)) for most in (55, 22))
    assert "\\textbf{92 \\%}" in apart.to_latex()
    assert "textbf" not in alike.to_latex()
    ranked = {
        most: cal.rank(
            [row | {"model": name} for name, n in (("a", most), ("b", 20)) for row in answers(n)]
        )
        for most in (55, 22)
    }
    assert ranked[55].to_latex().count("\\textbf") == 1
    assert "textbf" not in ranked[22].to_latex()


def test_a_very_long_name_is_cut_in_the_middle_and_its_title_is_the_whole() -> None:
    name = "accounts/evaluation-team/deployments/llama-3.1-8b-checkpoint-0019"
    cells = [(name, "word " * 20 + "end"), ("mistral-tiny", f"not told apart from {name}")]
    columns = (Column(name="system", kind="key"), Column(name="said", kind="text"))
    shown = render_html_table(Table(columns=columns, rows=make_rows(cells)))
    assert shown.count("8b-checkpoint-0019</span>") == 2
    assert f'title="{name}"' in shown
    assert f'title="not told apart from {name}"' in shown
    assert "word word word" in shown  # many short words only wrap
    assert "mistral-tiny</th>" in shown
