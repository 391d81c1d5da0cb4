"""Several systems against one: a table per metric, a row per system."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from calipers.comparisons.results import Compared, MetricComparison
from calipers.metrics import metric_named
from calipers.reports.figures import Form, count_decimals, format_p
from calipers.reports.table import Cell, Column, Row, Table, Tone

_COLUMNS = (
    Column(name="system", kind="key"),
    Column(name="value"),
    Column(name="difference", heading="difference to the base"),
    Column(name="lane", heading="0 in the middle", kind="lane", where="web"),
    Column(name="p_adjusted", heading="p adjusted (Holm)"),
    Column(name="won · lost · tied (tasks)"),
)


def tabulate_candidates(
    compared: Compared, names: Sequence[str], links: Sequence[str]
) -> list[Table]:
    """Return a table per metric: the base, and each system with its difference to it."""
    return [_tabulate(compared, name, links) for name in names]


def _tabulate(compared: Compared, name: str, links: Sequence[str]) -> Table:
    found = [pair.metrics[name] for pair in compared.pairs]
    form = _choose_form(found)
    ends = [end for each in found for end in (each.low, each.high) if end is not None]
    reach = max(map(abs, filter(isfinite, ends)), default=0.0)  # one scale for all rows
    first = compared.pairs[0]
    known = next((each.base for each in found if each.base is not None), None)
    # On the tasks that both have: with others missing, the base's value differs from pair to pair.
    alike = len({pair.n_pairs for pair in compared.pairs}) == 1
    blank = (Cell(text=""),) * (len(_COLUMNS) - 2)
    rows = [Row(cells=(first.base, Cell(value=known, form=form), *blank))] if alike else []
    for pair, each, link in zip(compared.pairs, found, links, strict=True):
        tone = _choose_tone(name, each, compared.confidence)
        counts = (each.wins, each.losses, each.ties)
        cells = (
            Cell(value=pair.candidate, link=link),
            Cell(value=each.candidate, form=form, note=each.reason or ""),
            Cell(
                value=each.difference,
                low=each.low,
                high=each.high,
                form=Form(signed=True),
                tone=tone,
            ),
            Cell(value=reach, low=each.low, high=each.high, tone=tone),
            Cell(text=format_p(each.p_holm)),
            Cell(text=" · ".join(f"{count:,}" for count in counts if count is not None)),
        )
        rows.append(Row(cells=cells))
    unit = metric_named(name).unit
    return Table(
        title=f"{name} ({unit})" if unit else name, columns=_COLUMNS, rows=tuple(rows), lead=""
    )


def _choose_form(found: Sequence[MetricComparison]) -> Form:
    """Return the form of all values: with the decimals that the narrowest interval allows."""
    decimals = [
        count_decimals(each.difference, each.low, each.high)
        for each in found
        if each.difference is not None and each.low is not None and each.high is not None
    ]
    return Form(decimals=max(decimals)) if decimals else Form()


def _choose_tone(name: str, each: MetricComparison, confidence: float) -> Tone:
    """Return whether a system is better or worse, where the adjusted test says so."""
    better = metric_named(name).better
    if better is None or each.p_holm is None or each.difference is None:
        return ""
    if each.p_holm >= 1 - confidence:
        return ""
    return "gain" if (each.difference > 0) == (better == "higher") else "loss"
