"""A score as a table of rows: for Polars, CSV and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.metrics import metric_named
from calipers.metrics.cost.tiers import TIER
from calipers.reports.corrections import correction_lines
from calipers.reports.figures import group_name, printable, reasons
from calipers.reports.flakiness import flaky_line
from calipers.reports.spreadsheets import frame_csv
from calipers.reports.tiers import (
    HEADS,
    bounded_text,
    cell_text,
    grade_text,
    spread_rows,
    tier_groups,
    tier_notes,
    tier_rows,
    title_of,
    warning_lines,
)

if TYPE_CHECKING:
    from calipers.scores.results import Bounded, Group, Score, Tiers


_TYPES = {
    "metric": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "stderr": pl.Float64(),
    "interval": pl.String(),
    "n": pl.Int64(),
    "missing": pl.Int64(),
    "reason": pl.String(),
}


def score_frame(score: Score) -> pl.DataFrame:
    """A row per group and metric; the group's fields come first."""
    names = list(score.groups[0].by) if score.groups else []
    rows = [
        {
            **{_column(name): group.by[name] for name in names},
            "metric": metric,
            "value": measured.value,
            "low": measured.low,
            "high": measured.high,
            "stderr": measured.stderr,
            "interval": measured.interval,
            "n": measured.n,
            "missing": measured.missing,
            "reason": measured.reason,
        }
        for group in score.groups
        for metric, measured in group.metrics.items()
    ]
    rows += (
        {**{_column(name): group.by[name] for name in names}, "metric": metric, **_bounded(found)}
        for group in score.groups
        for metric, found in _of_tiers(score, group)
    )
    if not rows:
        return pl.DataFrame(schema=_TYPES)
    return pl.DataFrame(rows, schema_overrides=_TYPES, infer_schema_length=None)


def _of_tiers(score: Score, group: Group) -> Iterator[tuple[str, Bounded]]:
    """What is said of a tier beside its metrics: its median composite, and its uplift."""
    if group.median_composite is not None:
        yield "median_composite", group.median_composite
    tier = str(group.by.get(TIER))
    for tiers in score.tiers:
        if group in tier_groups([group], tiers) and tier in tiers.uplift_intervals:
            yield "uplift", tiers.uplift_intervals[tier]


def _bounded(found: Bounded) -> dict[str, Any]:
    names = ("value", "low", "high", "interval", "reason")
    return {name: getattr(found, name) for name in names}


def _column(field: str) -> str:
    """The column of a field that was grouped by: none of it may hide one of ours."""
    return f"by_{field}" if field in _TYPES else field


def score_csv(score: Score) -> str:
    """CSV with a header; an empty cell is a null."""
    return frame_csv(score_frame(score))


def score_markdown(score: Score) -> str:
    """A table with a column per group, for a pull request or a paper's notes."""
    if not score.groups:
        return "No records.\n"
    heads = [markdown_cell(group_name(group.by)) for group in score.groups]
    lines = [
        f"| metric | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
        f"| records | {' | '.join(f'{group.records:,}' for group in score.groups)} |",
        f"| errors | {' | '.join(f'{group.errors:,}' for group in score.groups)} |",
    ]
    if any(group.truncated for group in score.groups):
        counts = " | ".join(f"{group.truncated:,}" for group in score.groups)
        lines.append(f"| truncated | {counts} |")
    for name in score.groups[0].metrics:
        unit = metric_named(name).unit
        values = [cell_text(name, group) for group in score.groups]
        label = f"{name} ({unit})" if unit else name
        lines.append(f"| {label} | {' | '.join(values)} |")
    if any(group.statistics for group in score.groups):
        medians = (bounded_text(group.median_composite) for group in score.groups)
        lines.append(f"| median composite | {' | '.join(medians)} |")
        lines.append(f"| grade | {' | '.join(map(_grade, score.groups))} |")
    for tiers in score.tiers:
        lines += ["", *_tiers_lines(score, tiers)]
    flaky = flaky_line(score)
    corrected = (f"without the judge's error: {line}" for line in correction_lines(score))
    notes = [
        *warning_lines(score),
        *corrected,
        *reasons(score.groups),
        *([flaky] if flaky else []),
        *score.notices,
    ]
    return "\n".join([*lines, "", *(f"- {markdown_cell(note)}" for note in notes)]) + "\n"


def _grade(group: Group) -> str:
    return markdown_cell(grade_text(group))


def _tiers_lines(score: Score, tiers: Tiers) -> list[str]:
    """The tiers side by side, and what varies between them."""
    from calipers.reports.grids import Grid, markdown_grid  # noqa: PLC0415 (imports this file)

    rows = list(tier_rows(tiers, tier_groups(score.groups, tiers)))
    lines = markdown_grid(
        Grid(title=markdown_cell(title_of(tiers)), heads=HEADS, sections={"": rows})
    )
    told = (*(f"{label}: {text}" for label, text in spread_rows(tiers)), *tier_notes(tiers))
    return [*lines, *(f"- {markdown_cell(line)}" for line in told)]


def markdown_cell(text: str) -> str:
    """Text from outside inside a Markdown table: no new column, no link, no HTML."""
    return re.sub(r"[\\|`\[\]]", r"\\\g<0>", printable(text)).replace("<", "&lt;")
