"""A comparison as tables: for a terminal, Markdown, CSV and a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calipers.metrics import metric_named
from calipers.reports.comparison_notes import pair_notes
from calipers.reports.figures import NOTHING, figure, group_name, printable, reach
from calipers.reports.frames import markdown_cell
from calipers.reports.grids import columns_that_fit
from calipers.reports.spreadsheets import frame_csv
from calipers.reports.terminal import rendered

if TYPE_CHECKING:
    import polars as pl

    from calipers.comparisons.results import Compared, MetricComparison, Pair

_HEADS = ("metric", "base", "candidate", "difference", "p", "Holm")
_WHY = "why it moved, over all tasks"
_WHY_HEADS = ("metric", "base", "candidate", "total", "model", "scorer", "tasks out", "tasks in")
_ACROSS = "all at once (Kruskal-Wallis)"
_ACROSS_HEADS = ("metric", "H", "p", "ε²", "n")
_SMALL_P = 0.0001
_GAP = 3  # between columns


def comparison_text(compared: Compared, console: Console | None = None) -> str:
    """Tables: all pairs, with the groups of each below it."""
    return rendered(console, lambda out: _show(compared, out))


def _show(compared: Compared, out: Console) -> None:
    for pair in compared.pairs:
        for each in (pair, *pair.groups):
            _show_pair(compared, each, out)
    if compared.across:
        out.print(Text(_ACROSS, style="bold"))
        _print_table(_ACROSS_HEADS, _across_rows(compared), out)
    if compared.flips:
        out.print(Text(_flips(compared)))


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], out: Console) -> None:
    """Names on the left, figures on the right; what has no room stands in a table below."""
    widths = [max(map(len, cells)) + _GAP for cells in zip(heads, *rows, strict=True)]
    for columns in columns_that_fit(widths, out.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            justify: Literal["left", "right"] = "right" if column else "left"
            table.add_column(heads[column], justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(row[column] for column in columns))
        out.print(table)


def _across_rows(compared: Compared) -> list[Sequence[str]]:
    return [
        (name, figure(each.h), _p(each.p_value), figure(each.epsilon_squared), f"{each.n:,}")
        for name, each in compared.across.items()
    ]


def _flips(compared: Compared) -> str:
    lost, won = compared.flips["lost"], compared.flips["won"]
    return f"flips: {lost:,} became wrong, {won:,} became right"


def _title(pair: Pair) -> str:
    title = f"{printable(pair.base)} → {printable(pair.candidate)}"
    return f"{title}  {group_name(pair.by)}" if pair.by else title


def _tasks(pair: Pair) -> str:
    base, candidate = len(pair.only_base), len(pair.only_candidate)
    return f"{pair.n_pairs:,} tasks in both, {base:,} only in base, {candidate:,} only in candidate"


def _heads(*, paired: bool) -> tuple[str, ...]:
    return (*_HEADS, "won · lost · tied") if paired else (*_HEADS, "n", "effect")


def _show_pair(compared: Compared, pair: Pair, out: Console) -> None:
    out.print(Text(_title(pair), style="bold"))
    if compared.paired:
        out.print(Text(_tasks(pair), style="dim"))
    rows = [
        (name, *_cells(name, metric, paired=compared.paired))
        for name, metric in pair.metrics.items()
        if metric.difference is not None
    ]
    _print_table(_heads(paired=compared.paired), rows, out)
    for line in pair_notes(pair, compared.confidence):
        out.print(Text(f"  {line}", style="dim"))
    if attributed := _attribution_rows(pair):
        out.print(Text(_WHY, style="bold"))
        _print_table(_WHY_HEADS, attributed, out)
        for reason in _attribution_notes(pair):
            out.print(Text(f"  {reason}", style="dim"))


def _cells(name: str, metric: MetricComparison, *, paired: bool) -> list[str]:
    unit = metric_named(name).unit
    cells = [
        figure(metric.base, unit),
        figure(metric.candidate, unit),
        _difference(metric, unit),
        _p(metric.p_value),
        _p(metric.p_holm),
    ]
    if paired:
        return [*cells, _counts(metric.wins, metric.losses, metric.ties)]
    effect = NOTHING if metric.effect is None else f"{metric.effect_name} {metric.effect:+.2f}"
    return [*cells, _counts(metric.n_base, metric.n_candidate), effect]


def _difference(metric: MetricComparison, unit: str | None) -> str:
    """+0.0213 ± 0.018, or with its bounds where the interval is lopsided."""
    difference, low, high = metric.difference, metric.low, metric.high
    if difference is None:
        return NOTHING
    text = f"{'+' if difference > 0 else ''}{figure(difference, unit)}".replace("-", "−")
    if low is None or high is None:
        return text
    return f"{text} {reach(difference, low, high, unit)}"


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"<{_SMALL_P}" if value < _SMALL_P else f"{value:.4f}"


def _counts(*values: int | None) -> str:
    known = [f"{value:,}" for value in values if value is not None]
    return " · ".join(known) or NOTHING


def _attribution_rows(pair: Pair) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for name, metric in pair.metrics.items():
        if metric.attribution is not None:
            unit = metric_named(name).unit
            parts = metric.attribution
            moved = (parts.total, parts.model, parts.scorer, parts.tasks_removed, parts.tasks_added)
            rows.append(
                (
                    name,
                    figure(parts.base, unit),
                    figure(parts.candidate, unit),
                    *(NOTHING if each is None else _signed(each, unit) for each in moved),
                )
            )
    return rows


def _attribution_notes(pair: Pair) -> list[str]:
    reasons = (
        metric.attribution.reason
        for metric in pair.metrics.values()
        if metric.attribution is not None and metric.attribution.reason
    )
    return [f"{NOTHING} {reason}" for reason in dict.fromkeys(reasons)]


def _signed(value: float, unit: str | None) -> str:
    return f"{'+' if value > 0 else ''}{figure(value, unit)}".replace("-", "−")


def comparison_frame(compared: Compared) -> pl.DataFrame:
    """A row per pair, group and metric."""
    import polars as pl  # noqa: PLC0415

    rows = [
        {
            "base_name": pair.base,
            "candidate_name": pair.candidate,
            **{f"by_{name}": value for name, value in pair.by.items()},
            "metric": name,
            **_flat(metric.to_dict()),
        }
        for whole in compared.pairs
        for pair in (whole, *whole.groups)
        for name, metric in pair.metrics.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _flat(metric: dict[str, Any]) -> dict[str, Any]:
    parts, weights = metric.pop("attribution", {}), metric.pop("weights", {})
    by_weight = {
        f"{side}_by_{weight}": weights[weight][side]
        for weight in ("task", "row")
        for side in ("base", "candidate")
        if weights
    }
    return metric | {f"attribution_{name}": value for name, value in parts.items()} | by_weight


def comparison_csv(compared: Compared) -> str:
    """CSV with a header; an empty cell is a null."""
    return frame_csv(comparison_frame(compared))


def comparison_markdown(compared: Compared) -> str:
    """Tables for a pull request."""
    lines: list[str] = []
    for whole in compared.pairs:
        for pair in (whole, *whole.groups):
            lines += [f"**{markdown_cell(_title(pair))}**", ""]
            if compared.paired:
                lines += [_tasks(pair), ""]
            rows = [
                (name, *_cells(name, metric, paired=compared.paired))
                for name, metric in pair.metrics.items()
            ]
            lines += _markdown_table(_heads(paired=compared.paired), rows)
            notes = pair_notes(pair, compared.confidence)
            lines += [*(f"- {markdown_cell(note)}" for note in notes), ""]
            if attributed := _attribution_rows(pair):
                lines += [f"**{_WHY}**", "", *_markdown_table(_WHY_HEADS, attributed)]
                lines += [*(f"- {note}" for note in _attribution_notes(pair)), ""]
    if compared.across:
        table = _markdown_table(_ACROSS_HEADS, _across_rows(compared))
        lines += [f"**{_ACROSS}**", "", *table]
    if compared.flips:
        lines += [_flips(compared), ""]
    return "\n".join(lines)


def _markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def comparison_html(compared: Compared) -> str:
    """The same tables for a notebook; everything from outside is escaped."""
    pieces: list[str] = []
    for whole in compared.pairs:
        for pair in (whole, *whole.groups):
            rows = [
                (name, *_cells(name, metric, paired=compared.paired))
                for name, metric in pair.metrics.items()
            ]
            tasks = _tasks(pair) if compared.paired else ""
            pieces += [
                f"<p><b>{escape(_title(pair))}</b><br>{escape(tasks)}</p>",
                _html_table(_heads(paired=compared.paired), rows),
                _html_list(pair_notes(pair, compared.confidence)),
            ]
            if attributed := _attribution_rows(pair):
                pieces += [f"<p><b>{_WHY}</b></p>", _html_table(_WHY_HEADS, attributed)]
                pieces.append(_html_list(_attribution_notes(pair)))
    if compared.across:
        table = _html_table(_ACROSS_HEADS, _across_rows(compared))
        pieces += [f"<p><b>{_ACROSS}</b></p>", table]
    if compared.flips:
        pieces.append(f"<p>{_flips(compared)}</p>")
    return "".join(pieces)


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        + "".join(f'<td style="text-align:right">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_list(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<ul>{items}</ul>" if items else ""
