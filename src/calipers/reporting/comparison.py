"""A comparison as tables: for a terminal, Markdown, CSV and a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calipers.metrics import metric_named
from calipers.reporting.figures import NOTHING, figure, group_name, printable, reach
from calipers.reporting.frames import markdown_cell
from calipers.reporting.terminal import rendered

if TYPE_CHECKING:
    import polars as pl

    from calipers.comparisons import Compared, MetricComparison, Pair

_HEADS = ("metric", "base", "candidate", "difference", "p", "Holm")
_SMALL_P = 0.0001


def comparison_text(compared: Compared, console: Console | None = None) -> str:
    """Tables: all pairs, with the groups of each below it."""
    return rendered(console, lambda out: _show(compared, out))


def _show(compared: Compared, out: Console) -> None:
    for pair in compared.pairs:
        _show_pair(pair, out, paired=compared.paired)
        for group in pair.groups:
            _show_pair(group, out, paired=compared.paired)
    if compared.across:
        out.print(Text("all at once (Kruskal-Wallis)", style="bold"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for head in ("metric", "H", "p", "ε²", "n"):
            table.add_column(head, justify="left" if head == "metric" else "right")
        for name, across in compared.across.items():
            cells = (figure(across.h), _p(across.p_value), figure(across.epsilon_squared))
            table.add_row(name, *cells, f"{across.n:,}")
        out.print(table)
    if compared.flips:
        lost, won = compared.flips["lost"], compared.flips["won"]
        out.print(Text(f"flips: {lost:,} became wrong, {won:,} became right"))


def _title(pair: Pair) -> str:
    title = f"{printable(pair.base)} → {printable(pair.candidate)}"
    return f"{title}  {group_name(pair.by)}" if pair.by else title


def _tasks(pair: Pair) -> str:
    base, candidate = len(pair.only_base), len(pair.only_candidate)
    return f"{pair.n_pairs:,} tasks in both, {base:,} only in base, {candidate:,} only in candidate"


def _heads(*, paired: bool) -> tuple[str, ...]:
    return (*_HEADS, "won · lost · tied") if paired else (*_HEADS, "n", "effect")


def _show_pair(pair: Pair, out: Console, *, paired: bool) -> None:
    out.print(Text(_title(pair), style="bold"))
    if paired:
        out.print(Text(_tasks(pair), style="dim"))
    heads = _heads(paired=paired)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="left" if head == "metric" else "right", no_wrap=True)
    for name, metric in pair.metrics.items():
        if metric.difference is not None:
            table.add_row(name, *_cells(name, metric, paired=paired))
    out.print(table)
    for line in _notes(pair):
        out.print(Text(f"  {line}", style="dim"))
    if any(metric.attribution for metric in pair.metrics.values()):
        _show_attribution(pair, out)


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


def _notes(pair: Pair) -> Iterator[str]:
    """Which test stands behind which p, and why there is none."""
    tests: dict[str, list[str]] = {}
    for name, metric in pair.metrics.items():
        if metric.p_value is None:
            tests.setdefault(metric.reason or "no test", []).append(name)
        else:
            tests.setdefault(f"{metric.test}; interval: {metric.interval}", []).append(name)
    for test, names in tests.items():
        yield f"{', '.join(names)}: {test}"
    for name, metric in pair.metrics.items():
        if metric.detectable is not None and (metric.p_value or 0) > 0.05:  # noqa: PLR2004
            unit = metric_named(name).unit
            seen = figure(metric.detectable, unit)
            yield f"{name}: a difference below {seen} would mostly go unseen here (power 0.8)"


def _show_attribution(pair: Pair, out: Console) -> None:
    out.print(Text("why it moved, over all tasks", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    heads = ("metric", "base", "candidate", "total", "model", "scorer", "tasks out", "tasks in")
    for head in heads:
        table.add_column(head, justify="left" if head == "metric" else "right")
    for name, metric in pair.metrics.items():
        if metric.attribution is not None:
            unit = metric_named(name).unit
            parts = metric.attribution
            moved = (parts.total, parts.model, parts.scorer, parts.tasks_removed, parts.tasks_added)
            table.add_row(
                name,
                figure(parts.base, unit),
                figure(parts.candidate, unit),
                *(NOTHING if each is None else _signed(each, unit) for each in moved),
            )
    out.print(table)
    for reason in dict.fromkeys(
        metric.attribution.reason
        for metric in pair.metrics.values()
        if metric.attribution is not None and metric.attribution.reason
    ):
        out.print(Text(f"  {NOTHING} {reason}", style="dim"))


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
            **{k: v for k, v in metric.to_dict().items() if k != "attribution"},
        }
        for whole in compared.pairs
        for pair in (whole, *whole.groups)
        for name, metric in pair.metrics.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def comparison_csv(compared: Compared) -> str:
    """CSV with a header; an empty cell is a null."""
    return comparison_frame(compared).write_csv()


def comparison_markdown(compared: Compared) -> str:
    """Tables for a pull request."""
    lines: list[str] = []
    for whole in compared.pairs:
        for pair in (whole, *whole.groups):
            lines += [f"**{markdown_cell(_title(pair))}**", ""]
            if compared.paired:
                lines += [_tasks(pair), ""]
            heads = _heads(paired=compared.paired)
            lines += [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
            for name, metric in pair.metrics.items():
                cells = _cells(name, metric, paired=compared.paired)
                lines.append(f"| {name} | {' | '.join(cells)} |")
            lines += ["", *(f"- {markdown_cell(note)}" for note in _notes(pair)), ""]
    return "\n".join(lines)


def comparison_html(compared: Compared) -> str:
    """The same tables for a notebook; everything from outside is escaped."""
    pieces: list[str] = []
    for whole in compared.pairs:
        for pair in (whole, *whole.groups):
            heads = _heads(paired=compared.paired)
            rows = "".join(
                f'<tr><th style="text-align:left">{escape(name)}</th>'
                + "".join(
                    f'<td style="text-align:right">{escape(cell)}</td>'
                    for cell in _cells(name, metric, paired=compared.paired)
                )
                + "</tr>"
                for name, metric in pair.metrics.items()
            )
            head = "".join(f"<th>{each}</th>" for each in heads)
            notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(pair))
            pieces.append(
                f"<p><b>{escape(_title(pair))}</b></p><table><thead><tr>{head}</tr></thead>"
                f"<tbody>{rows}</tbody></table><ul>{notes}</ul>"
            )
    return "".join(pieces)
