"""The pairs of a ranking: listed where they are few, else as a matrix of who beats whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from calipers.reports.figures import NOTHING, Form, count_decimals, format_p, join_some
from calipers.reports.table import (
    EMPTY,
    Cell,
    Column,
    Table,
    Tone,
    make_columns,
    make_difference_cell,
    make_rows,
)

if TYPE_CHECKING:
    from calipers.comparisons.rankings import MetricRanking, RankedPair

_LISTED = 4  # systems whose pairs are listed one by one
_FIGURES = 8  # systems whose matrix has room for figures
_MOST = 40  # systems that have a matrix


def tabulate_pairs(ranked: MetricRanking) -> Table:
    """Return the pairs: listed where they are few, else as a matrix of who beats whom."""
    if len(ranked.systems) <= _LISTED:
        return list_pairs(ranked)
    if len(ranked.systems) <= _MOST:
        return _tabulate_matrix(ranked)
    text = f"{len(ranked.pairs):,} pairs of systems: see the JSON"
    return Table(title="Pairs", columns=(), rows=(), lead=text)


def list_pairs(ranked: MetricRanking) -> Table:
    """Return a row per pair of systems, the better one first."""
    columns = (
        Column(name="pair", heading="a − b", kind="key", where="people"),
        Column(name="difference", where="people"),
        Column(name="p", where="people"),
        Column(name="p_adjusted", heading="p adjusted (max-t)", where="people"),
    )
    rows = make_rows(
        (
            f"{pair.a} − {pair.b}",
            make_difference_cell(pair, _choose_tone(ranked, pair)),
            Cell(value=pair.p_value, text=format_p(pair.p_value)),
            Cell(value=pair.p_adjusted, text=format_p(pair.p_adjusted)),
        )
        for pair in ranked.pairs
    )
    return Table(title="Pairs", columns=columns, rows=rows, notes=tuple(_list_tests(ranked)))


def _tabulate_matrix(ranked: MetricRanking) -> Table:
    names = [each.name for each in ranked.systems]
    pairs = {(pair.a, pair.b): pair for pair in ranked.pairs}
    full = len(names) <= _FIGURES
    form = Form(signed=True, decimals=_choose_decimals(ranked.pairs))
    rows = make_rows(
        (
            f"{place} {name}",
            *(_make_cell(ranked, pairs, (name, other), form if full else None) for other in names),
        )
        for place, name in enumerate(names, 1)
    )
    what = (
        "row − column; * where adjusted p is below"
        if full
        else "+ where the row is better than the column, − where it is worse; adjusted p below"
    )
    return Table(
        title="Pairs",
        lead=f"{what} {1 - ranked.confidence:.2g}",
        columns=make_columns("system", *(str(place) for place in range(1, len(names) + 1))),
        rows=rows,
        notes=tuple(_list_tests(ranked)),
    )


def _choose_decimals(pairs: Sequence[RankedPair]) -> int:
    known = (pair for pair in pairs if pair.difference is not None)
    found = sorted(count_decimals(pair.difference or 0.0, pair.low, pair.high) for pair in known)
    return found[len(found) // 2] if found else 2


def _make_cell(
    ranked: MetricRanking,
    pairs: Mapping[tuple[str, str], RankedPair],
    key: tuple[str, str],
    form: Form | None,
) -> Cell:
    """Return the cell of a system against another: the difference, or without a form its sign."""
    if key[0] == key[1]:
        return EMPTY
    turned = key not in pairs
    pair = pairs[key[::-1] if turned else key]
    tone = _choose_tone(ranked, pair)
    if turned and tone:
        tone = "loss" if tone == "gain" else "gain"
    note = pair.reason or f"p adjusted {format_p(pair.p_adjusted)}"
    if form is None:
        return Cell(text={"gain": "+", "loss": "−"}.get(tone, "·"), tone=tone, note=note)
    if pair.difference is None:
        return Cell(text=NOTHING, note=note)
    value = -pair.difference if turned else pair.difference
    return Cell(value=value, form=form, mark="*" if tone else "", tone=tone, note=note)


def _choose_tone(ranked: MetricRanking, pair: RankedPair) -> Tone:
    """Return whether the first is better or worse, where the adjusted test says so."""
    if not ranked.is_apart(pair) or pair.difference is None:
        return ""
    return "gain" if (pair.difference > 0) == (ranked.better == "higher") else "loss"


def _list_tests(ranked: MetricRanking) -> Iterator[str]:
    tests = dict.fromkeys(pair.test for pair in ranked.pairs if pair.p_value is not None)
    named = "; ".join(test for test in tests if test)
    count = len(ranked.pairs)
    if named and count > 1:
        yield f"{named}; p adjusted for all {count:,} pairs (max-t)"
    elif named:
        yield named
    for reason in dict.fromkeys(pair.reason for pair in ranked.pairs if pair.reason):
        pairs = [f"{pair.a} − {pair.b}" for pair in ranked.pairs if pair.reason == reason]
        yield f"{join_some(pairs, 3)}: {reason}"
