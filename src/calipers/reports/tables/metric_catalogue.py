"""The catalogue of metrics, and the explanation of a value, from the declarations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from calipers.metrics.thresholds import read_scale
from calipers.reports.number_format import NOTHING, format_group, format_percent, strip_controls
from calipers.reports.table import Cell, Column, Document, Line, Table, make_rows

if TYPE_CHECKING:
    import polars as pl

    from calipers.metrics import Metric
    from calipers.metrics.specifications import DocumentRule
    from calipers.scores.explain import Explanation, GroupExplanation

_FACTS = (
    Column(name="fact", heading="", kind="key"),
    Column(name="value", heading="", kind="text"),
)
_LISTED = ("formula", "needs", "nulls", "range", "unit", "better", "spec")


def list_metric_facts(metric: Metric) -> dict[str, str]:
    """Return everything that is declared about a metric, in words."""
    return {
        "formula": metric.formula,
        "needs": "; ".join(map(str, metric.needs)) or "what its function reads",
        "nulls": metric.nulls,
        "unit": metric.unit or "none",
        "range": format_range(metric),
        "better": metric.better or "neither",
        "interval": metric.interval.name,
        "profiles": ", ".join(metric.profiles) or "none",
        "spec": metric.defined_in,
        "version": str(metric.version),
    }


def format_range(metric: Metric) -> str:
    """Return the range as [0, 1] or [0, ∞)."""
    low, high = metric.range
    start = "(−∞" if low == float("-inf") else f"[{low:g}"
    return f"{start}, ∞)" if high == float("inf") else f"{start}, {high:g}]"


def dump_catalogue(metrics: Sequence[Metric]) -> str:
    """Return the catalogue for programs."""
    rows = [
        {"name": metric.name, "says": metric.says, **list_metric_facts(metric)}
        for metric in metrics
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def write_catalogue(metrics: Sequence[Metric]) -> str:
    """Return the reference page of the documentation, as Markdown."""
    lines = ["# Metrics", "", "Written by `calipers metrics --format markdown`.", ""]
    for metric in metrics:
        lines += [f"## {metric.name}", "", metric.says, "", "| | |", "|---|---|"]
        for label, text in list_metric_facts(metric).items():
            escaped = text.replace("|", "\\|").replace("*", "\\*")
            lines.append(f"| {label} | {escaped} |")
        lines.append("")
    return "\n".join(lines)


def make_catalogue_document(metrics: Sequence[Metric], *, whole: bool) -> Document:
    """Return what each metric says and needs, or its whole declaration if asked for."""
    blocks = []
    for metric in metrics:
        known = list_metric_facts(metric)
        rows = make_rows((each, known[each]) for each in (known if whole else _LISTED))
        blocks.append(Table(title=metric.name, lead=metric.says, columns=_FACTS, rows=rows))
    return tuple(blocks)


_RULE = ("spec", "section", "rule", "where", "test")


def _list_cells(rule: DocumentRule) -> tuple[str, ...]:
    shown = f"{rule.metric}: {rule.rule}" if rule.metric else rule.rule
    return rule.spec, rule.section, shown, rule.where, rule.test


def dump_rules(rules: Sequence[DocumentRule]) -> str:
    """Return the rules of the specifications for programs."""
    rows = [
        {
            "spec": rule.spec,
            "section": rule.section,
            "rule": rule.rule,
            "metric": rule.metric,
            "where": f"src/calipers/{rule.where}",
            "test": f"tests/{rule.test}",
        }
        for rule in rules
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def write_rules(rules: Sequence[DocumentRule]) -> str:
    """Return the rules as a table in Markdown."""
    lines = [f"| {' | '.join(_RULE)} |", f"|{'---|' * len(_RULE)}"]
    for rule in rules:
        cells = (each.replace("|", "\\|").replace("*", "\\*") for each in _list_cells(rule))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def make_rules_document(rules: Sequence[DocumentRule]) -> Document:
    """Return the rules for people, a section after the other."""
    return tuple(_list_lines(rules))


def _list_lines(rules: Sequence[DocumentRule]) -> Iterator[Line]:
    before = ""
    for rule in rules:
        spec, section, shown, where, test = _list_cells(rule)
        if spec != before:
            yield Line(text="")
            yield Line(text=f"{spec}  {section}", kind="heading")
        yield Line(text=shown)
        yield Line(text=f"    src/calipers/{where}  tests/{test}")
        before = spec


def make_explanation_document(explanation: Explanation) -> Document:
    """Return how a value was computed, group by group."""
    metric = explanation.metric
    head = (
        Line(text=metric.name, kind="heading"),
        Line(text=metric.says),
        Line(text=f"formula  {metric.formula}"),
    )
    return (
        *head,
        *(block for group in explanation.groups for block in _explain_group(group, metric)),
    )


def _explain_group(group: GroupExplanation, metric: Metric) -> Iterator[Table | Line]:
    equals = "" if group.value is None else "= "
    value = NOTHING if group.value is None else repr(group.value)
    if group.value is not None and read_scale(metric).is_ratio:
        value = f"{format_percent(group.value)} ({value})"
    told = [
        f"value    {value}",
        f"         {equals}{group.work}",
        f"rows     {group.n:,} used of {group.records:,}",
        *(f"         {count:,} left out: {reason}" for reason, count in group.left_out.items()),
    ]
    if (found := group.variance) is not None:
        parts = [f"{found.tasks:.0%} from tasks{' and runs' if found.runs is None else ''}"]
        parts += [] if found.runs is None else [f"{found.runs:.0%} from the runs of a task"]
        parts += [] if found.judges is None else [f"{found.judges:.0%} from the judges of a run"]
        told.append(f"variance {', '.join(parts)}")
    if (crossed := group.crossed) is not None:
        named = {
            "task": crossed.task,
            "variant": crossed.variant,
            "task × variant": crossed.together,
            "run": crossed.run,
            "task × variant and run": crossed.rest,
        }
        shares = (f"{name} {v / crossed.total:.0%}" for name, v in named.items() if v is not None)
        told.append(
            f"a run    {', '.join(shares)} of its variance ({crossed.tasks:,} tasks × "
            f"{crossed.variants:,} variants, {crossed.runs:,} runs)"
        )
    yield Line(text="")
    if group.by:
        yield Line(text=format_group(group.by), kind="heading")
    yield from (Line(text=each) for each in told)
    if group.table is not None and group.table.height:
        cut = group.table.height < group.table_rows
        shown = f"the {group.table.height} largest of {group.table_rows:,}" if cut else "in all"
        yield _tabulate_frame(group.table, f"counted  {shown}")
    if group.weigh_most.height:
        yield _tabulate_frame(group.weigh_most, "most influential rows")


def _tabulate_frame(frame: pl.DataFrame, title: str) -> Table:
    """Return a data frame as a table with enough digits to recompute a value."""
    columns = tuple(
        Column(name=name, kind="figure" if dtype.is_numeric() else "text")
        for name, dtype in frame.schema.items()
    )
    rows = make_rows(
        (Cell(text=NOTHING if each is None else strip_controls(each)) for each in row)
        for row in frame.iter_rows()
    )
    return Table(title=title, columns=columns, rows=rows)
