"""Forest plots: a metric by group, ranked systems with their letters, differences of runs.

Each line is a point and its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.metrics import catalogue, metric_named
from calipers.metrics.families.cost import TIER
from calipers.reports.charts.chart import (
    GREY,
    INK,
    PALETTE,
    Chart,
    Spec,
    category,
    finish_chart,
    layer,
    mark,
    quantity,
)
from calipers.reports.charts.labels import (
    describe_range,
    join_names,
    name_lines,
    number_duplicates,
)
from calipers.reports.number_format import (
    PLAIN,
    Estimated,
    Form,
    format_figure,
    format_group,
    shorten_name,
    show_name,
)
from calipers.reports.tables.comparison_tables import choose_tone
from calipers.reports.tables.shown_metrics import (
    choose_metric_form,
    drop_restated,
    is_rate,
    label_metric,
)

if TYPE_CHECKING:
    from calipers.comparisons.compare_result import Compared, MetricComparison, Pair
    from calipers.comparisons.rank_result import MetricRanking
    from calipers.scores.result import Group, Score

_WIDTH, _LINE, _ENDS = 560, 20, 16
MOST_LINES = 40
_NAME_CHARS = 32
_NAME_PIXELS = 200
ROOM = 0.04  # of the span, at both ends
_FEWEST = 2


def make_forest(name: str) -> Callable[[Score], Chart | str]:
    """Return the function that draws that metric."""
    return lambda score: draw_forest(score, name)


def draw_forest(score: Score, name: str) -> Chart | str:
    """Return a line per group, best first, tiers in their own order; or why there is no chart."""
    groups = [group for group in score.groups if _get_value(group, name) is not None]
    if len(groups) < _FEWEST:
        return f"fewer than two groups have {name}"
    shown = _sort_groups(groups, name)[:MOST_LINES]
    measured = [group.metrics[name] for group in shown]
    form = choose_metric_form(name, measured)
    rows = make_lines([format_group(group.by) for group in shown], measured, form)
    rows = [row | {"n": each.n} for row, each in zip(rows, measured, strict=True)]
    title = f"{label_metric(name)}{describe_range(score, name)}"
    return finish_chart(
        _draw_groups(rows, name), title, _list_group_notes(score, len(groups), name)
    )


def _get_value(group: Group, name: str) -> float | None:
    found = group.metrics.get(name)
    return (
        None if found is None or found.value is None or not isfinite(found.value) else found.value
    )


def _sort_groups(groups: Sequence[Group], name: str) -> list[Group]:
    if list(groups[0].by) == [TIER]:
        return list(groups)
    sign = 1 if metric_named(name).better == "lower" else -1
    return sorted(groups, key=lambda group: sign * (_get_value(group, name) or 0.0))


def make_lines(
    names: Sequence[str], estimates: Sequence[Estimated], form: Form = PLAIN
) -> list[dict[str, Any]]:
    """Return a row per name and estimate; a bar without a finite end ends at the value."""
    called = number_duplicates([shorten_name(name, _NAME_CHARS) for name in names])
    rows = []
    for name, full_name, each in zip(called, names, estimates, strict=True):
        ends = [
            end if end is not None and isfinite(end) else each.value
            for end in (each.low, each.high)
        ]
        spans = {"value": each.value, "low": ends[0], "high": ends[1]}
        shown = format_figure(each.value, each.low, each.high, form)
        rows.append({"name": name, "full_name": full_name, **spans, "shown": shown})
    return rows


def place_lines(
    rows: Sequence[dict[str, Any]], domain: Sequence[float], name: str, unit: str | None
) -> tuple[Callable[[str], Spec], Spec, Spec]:
    """Return how a field of lines lies across, their names, and the size of the chart."""
    scale = {"domain": domain, "nice": False, "zero": False}
    label = label_metric(name)
    axis = {"title": f"{label} ({unit})" if unit else label, "tickCount": 6}
    axis |= {"format": "~%"} if name in catalogue() and is_rate(name) else {}
    size = {"width": _WIDTH, "height": _LINE * len(rows) + _ENDS}
    return partial(quantity, scale=scale, axis=axis), name_lines(rows, _NAME_PIXELS), size


def _draw_groups(rows: Sequence[dict[str, Any]], name: str) -> Spec:
    metric = metric_named(name)
    across, names, size = place_lines(rows, _find_domain(rows, metric.range), name, metric.unit)
    hover = [
        category("full_name", title="group"),
        category("shown", title=name),
        quantity("n", title="n", format=","),
    ]
    bars = {"color": PALETTE[0], "strokeWidth": 3, "opacity": 0.4}
    points = {"color": PALETTE[0], "filled": True, "size": 60, "opacity": 1}
    return layer(
        mark("rule", bars, x=across("low"), x2="high", y=names),
        mark("point", points, x=across("value"), y=names, tooltip=hover),
        rows=rows,
        **size,
    )


def _find_domain(rows: Sequence[dict[str, Any]], within: tuple[float, float]) -> list[float]:
    """Return the span of all lines with a little margin, hardly beyond the metric's range."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return [max(within[0] - room, low - room), min(within[1] + room, high + room)]


def _list_group_notes(score: Score, known: int, name: str) -> Iterator[str]:
    yield f"Bars are {100 * score.settings['confidence']:g} % intervals."
    if known > MOST_LINES:
        yield f"The first {MOST_LINES} of {known} groups."
    without = [format_group(group.by) for group in score.groups if _get_value(group, name) is None]
    if without:
        yield f"Without {name}: {join_names(without)}."


_LETTER_ROOM = 0.07
_BEST, _BEHIND = "best, or not told apart", "behind the best"


def draw_systems(ranked: MetricRanking) -> Chart:
    """Return a line per system, the best on top; colours follow the adjusted test."""
    shown = ranked.systems[:MOST_LINES]
    best = {each.name for each in ranked.best}
    known = ranked.metric in catalogue()
    form = choose_metric_form(ranked.metric, shown) if known else PLAIN
    rows = make_lines([show_name(each.name) for each in shown], shown, form)
    for row, each in zip(rows, shown, strict=True):
        alone = each.rank_low == each.rank_high
        row["ranks"] = str(each.rank_low) if alone else f"{each.rank_low} to {each.rank_high}"
        row |= {"group": each.group, "place": _BEST if each.name in best else _BEHIND}
    return finish_chart(
        _draw_ranking(rows, ranked), _make_ranking_title(ranked), _list_ranking_notes(ranked)
    )


def _make_ranking_title(ranked: MetricRanking) -> str:
    """Return which system leads, or that none does for sure."""
    first, *others = ranked.best
    label = label_metric(ranked.metric) if ranked.metric in catalogue() else ranked.metric
    name = shorten_name(show_name(first.name), _NAME_CHARS)
    if not others:
        return f"{name} is best by {label}"
    return f"{name} leads by {label}, not told apart from {len(others)} of the others"


def _draw_ranking(rows: Sequence[dict[str, Any]], ranked: MetricRanking) -> Spec:
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    span = (high - low) or abs(high) or 1.0
    letters = max(_LETTER_ROOM, 0.02 * max(len(row["group"]) for row in rows))
    domain = [low - ROOM * span, high + (ROOM + letters) * span]
    across, names, size = place_lines(rows, domain, ranked.metric, ranked.unit)
    places = [_BEST, *([_BEHIND] if any(row["place"] == _BEHIND for row in rows) else [])]
    colour = category(
        "place",
        scale={"domain": places, "range": [PALETTE[0], GREY][: len(places)]},
        legend={"title": None, "orient": "bottom", "columns": 1},  # fits a phone
    )
    hover = [
        category("full_name", title="system"),
        category("shown", title=ranked.metric),
        category("ranks", title="rank"),
        category("group", title="group"),
    ]
    bars = {"strokeWidth": 3, "opacity": 0.45}
    points = {"filled": True, "size": 60, "opacity": 1}
    group = {"align": "left", "dx": 8, "color": INK, "fontSize": 11}
    return layer(
        mark("rule", bars, x=across("low"), x2="high", y=names, color=colour),
        mark("point", points, x=across("value"), y=names, color=colour, tooltip=hover),
        mark("text", group, x=across("high"), y=names, text=category("group")),
        rows=rows,
        **size,
    )


def _list_ranking_notes(ranked: MetricRanking) -> Iterator[str]:
    yield (
        f"Bars are {100 * ranked.confidence:g} % intervals that hold for all systems at once; "
        "systems that share a letter cannot be told apart."
    )
    if len(ranked.systems) > MOST_LINES:
        yield f"The first {MOST_LINES} of {len(ranked.systems)} systems."


_DIFFERENCE_WIDTH, _DIFFERENCE_LINE, _DIFFERENCE_ENDS = 520, 22, 18
_MOST_DIFFERENCES = 40
_METRIC_NAME_PIXELS = 230
_VERDICTS = {"gain": "better", "loss": "worse", "": "neither"}
_COLOURS = {"better": PALETTE[2], "worse": PALETTE[1], "neither": GREY}


def draw_differences(compared: Compared) -> Chart | str:
    """Return a line per share and pair of runs (candidate − base), or why there is no chart."""
    several = len(compared.pairs) > 1
    rows = [
        _make_difference_row(pair, name, compared.confidence, several=several)
        for pair in compared.pairs
        for name in drop_restated(pair.metrics, named=compared.named)
        if _is_drawable(name, pair.metrics[name])
    ][:_MOST_DIFFERENCES]
    if not rows:
        return "no metric that is a share has a difference"
    names = number_duplicates([str(row["name"]) for row in rows])
    rows = [row | {"name": name} for row, name in zip(rows, names, strict=True)]
    one = compared.pairs[0]
    sides = (shorten_name(each, 40) for each in (one.candidate, one.base))
    what = "Differences" if several else " − ".join(sides)
    intervals = f"Bars are {100 * compared.confidence:g} % intervals. Only shares are drawn."
    colours = "Colours follow the tests, adjusted for all metrics and pairs (Holm)."
    return finish_chart(_draw_lines(rows), what, (intervals, colours))


def _is_drawable(name: str, each: MetricComparison) -> bool:
    share = metric_named(name).range == (0, 1)
    return share and each.difference is not None and isfinite(each.difference)


def _make_difference_row(
    pair: Pair, name: str, confidence: float, *, several: bool
) -> dict[str, Any]:
    each = pair.metrics[name]
    difference = each.difference
    assert difference is not None
    low, high = (difference if end is None else end for end in (each.low, each.high))
    return {
        "name": f"{name}, {shorten_name(pair.candidate, 24)}" if several else name,
        "difference": difference,
        "low": low,
        "high": high,
        "verdict": _VERDICTS[choose_tone(name, each, confidence)],
        "p": "unknown" if each.p_value is None else f"{each.p_value:.3g}",
        "pairs": each.n_pairs or 0,
    }


def _draw_lines(rows: Sequence[dict[str, Any]]) -> Spec:
    ends = [0.0, *(row[end] for row in rows for end in ("low", "high"))]
    room = 0.05 * ((max(ends) - min(ends)) or 1.0)
    across = partial(
        quantity,
        scale={"domain": [min(ends) - room, max(ends) + room], "nice": False},
        axis={"title": "difference, candidate − base", "format": "+~%", "tickCount": 6},
    )
    names = name_lines(rows, _METRIC_NAME_PIXELS)
    colour = category(
        "verdict",
        scale={"domain": list(_COLOURS), "range": list(_COLOURS.values())},
        legend={"title": None, "orient": "bottom"},
    )
    hover = [
        category("name", title="metric"),
        quantity("difference", format="+.2~%"),
        quantity("low", title="from", format="+.2~%"),
        quantity("high", title="to", format="+.2~%"),
        category("p", title="p"),
        quantity("pairs", format=","),
    ]
    zero = {"color": GREY, "strokeDash": [4, 3]}
    bars = {"strokeWidth": 3, "opacity": 0.5}
    points = {"filled": True, "size": 60, "opacity": 1}
    return layer(
        mark("rule", zero, rows=[{"zero": 0}], x=across("zero")),
        mark("rule", bars, x=across("low"), x2="high", y=names, color=colour),
        mark("point", points, x=across("difference"), y=names, color=colour, tooltip=hover),
        rows=rows,
        width=_DIFFERENCE_WIDTH,
        height=_DIFFERENCE_LINE * len(rows) + _DIFFERENCE_ENDS,
    )
