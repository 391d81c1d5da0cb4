"""A comparison as a document: a table per pair of runs and group, with the tests used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calipers.metrics import metric_named
from calipers.reports.number_format import (
    NOTHING,
    Form,
    count_decimals,
    count_things,
    format_figure,
    format_group,
    format_p,
    show_name,
)
from calipers.reports.table import (
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    Tone,
    Where,
    make_columns,
    make_data_columns,
    make_difference_cell,
    make_rows,
)
from calipers.reports.tables.shown_metrics import (
    choose_difference_form,
    drop_restated,
    get_unit,
    is_rate,
    is_usual,
    label_metric,
    put_usual_first,
)

if TYPE_CHECKING:
    from calipers.comparisons.compare_result import (
        Compared,
        Margin,
        MetricComparison,
        Pair,
        ValuesByWeight,
    )

_SHOWN = (
    Column(name="metric", kind="key"),
    Column(name="base"),
    Column(name="candidate"),
    Column(name="difference", bounds=("low", "high")),
)
_MOVED = ("total", "model", "scorer", "tasks_removed", "tasks_added")
_WHY = make_columns(
    *("metric", "base", "candidate", "total", "model", "scorer", "tasks out", "tasks in")
)
_ACROSS = make_columns("metric", "H", "p", "ε²", "n")
_FEW = 8  # metrics that are all shown
_LARGE = 100  # from here on whole numbers
_COUNTED = "won · lost · tied (tasks)"


def make_comparison_document(compared: Compared) -> Document:
    """Return all pairs with the groups of each below it, then all at once, and the flips."""
    pairs = [pair for whole in compared.pairs for pair in (whole, *whole.groups)]
    fields = tuple(dict.fromkeys(name for pair in pairs for name in pair.by))
    blocks: list[Table | Line] = []
    for pair in pairs:
        moved = _tabulate_causes(compared, pair)
        blocks += (tabulate_pair(compared, pair, fields), *((moved,) if moved else ()))
    blocks += [Line(text=text) for pair in compared.pairs for text in _describe_slices(pair)]
    if compared.across:
        rows = make_rows(
            (name, each.h, Cell(text=format_p(each.p_value)), each.epsilon_squared, each.n)
            for name in drop_restated(compared.across, named=compared.named)
            for each in (compared.across[name],)
        )
        blocks.append(Table(title="all at once (Kruskal-Wallis)", columns=_ACROSS, rows=rows))
    if compared.flips:
        lost, won = count_things(compared.flips["lost"], "run"), compared.flips["won"]
        blocks.append(Line(text=f"flips: {lost} became wrong, {won:,} became right"))
    return tuple(blocks)


def tabulate_pair(
    compared: Compared,
    pair: Pair,
    fields: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    define: Callable[[str], str] | None = None,
) -> Table:
    """Return a row per metric of two runs: both values, the difference, and its p-value."""
    behind = {name: _flatten(metric) for name, metric in pair.metrics.items()}
    further = tuple(dict.fromkeys(each for flat in behind.values() for each in flat))
    shown = drop_restated(pair.metrics, named=compared.named)
    folded = set() if names is not None else _fold_metrics(pair, shown, compared)
    shown = [name for name in shown if name not in folded]
    rows = []
    for name in put_usual_first(pair.metrics, compared.named) if names is None else names:
        metric = pair.metrics[name]
        link = "" if define is None else define(name)
        where: Where = "all" if name in shown and metric.difference is not None else "data"
        cells = (
            *(pair.base, pair.candidate, *(pair.by.get(field) for field in fields)),
            *(
                Cell(value=name, text=_label_row(name), link=link),
                *_make_value_cells(name, metric, compared.confidence),
            ),
            *(behind[name].get(each) for each in further),
            *_make_evidence_cells(name, metric, compared),
        )
        rows.append(Row(cells=cells, where=where))
    columns = (
        *make_data_columns("base_name", "candidate_name", *(f"by_{each}" for each in fields)),
        *_SHOWN,
        *make_data_columns(*further),
        *_list_evidence_columns(compared),
    )
    title = f"{show_name(pair.base)} → {show_name(pair.candidate)}"
    alone = f"{len(pair.only_base):,} only in base, {len(pair.only_candidate):,} only in candidate"
    lead = f"{pair.n_pairs:,} tasks in both, {alone}"
    return Table(
        title=f"{title}  {format_group(pair.by)}" if pair.by else title,
        lead=lead if compared.paired else "",
        columns=columns,
        rows=tuple(rows),
        notes=(*_list_folded(folded), *_list_notes(pair, shown, compared.confidence)),
    )


def _describe_slices(pair: Pair) -> Iterator[str]:
    """Yield which groups got worse or better, with the chance that any is named without reason."""
    for each in pair.slices:
        changed = [
            f"{word}: {', '.join(map(format_group, groups))}"
            for word, groups in (("worse", each.worse), ("better", each.better))
            if groups
        ]
        if changed:
            yield (
                f"{each.metric}, of {each.slices} groups {'; '.join(changed)} "
                f"(at most {100 * each.error_rate:.3g} % chance that any is named by luck)"
            )


def _fold_metrics(pair: Pair, shown: Sequence[str], compared: Compared) -> set[str]:
    """Return the metrics that did not change: of many, those that are neither usual nor named."""
    if compared.named or len(shown) <= _FEW:
        return set()
    return {
        name
        for name in shown
        if pair.metrics[name].difference is not None
        and not is_usual(name)
        and not choose_tone(name, pair.metrics[name], compared.confidence)
    }


def _list_folded(names: Collection[str]) -> Iterator[str]:
    if names:
        named = ", ".join(map(label_metric, sorted(names)))
        yield f"{len(names)} more metrics without a significant change (--metric NAME): {named}"


def _label_row(name: str) -> str:
    """Return a metric; of money, with how many calls it is for."""
    unit = get_unit(name) if choose_difference_form(name).thousand else None
    return f"{label_metric(name)} ({unit})" if unit else label_metric(name)


def _flatten(metric: MetricComparison) -> dict[str, Any]:
    """Return the JSON of a metric on one level, without what the columns for people hold."""
    found = metric.to_dict()
    parts, weights = found.pop("attribution", {}), found.pop("weights", {})
    by_weight = {
        f"{side}_by_{weight}": weights[weight][side]
        for weight in ("task", "row")
        for side in ("base", "candidate")
        if weights
    }
    whole = found | {f"attribution_{name}": value for name, value in parts.items()} | by_weight
    shown = ("base", "candidate", "difference", "low", "high")
    return {name: value for name, value in whole.items() if name not in shown}


def _make_value_cells(
    name: str, metric: MetricComparison, confidence: float
) -> tuple[Cell, Cell, Cell]:
    """Return both values and the difference, all with the digits that its interval allows.

    The better value is strong where the adjusted test finds a difference.
    """
    form, tone = choose_value_form(name, metric), choose_tone(name, metric, confidence)
    return (
        Cell(value=metric.base, form=form, strong=tone == "loss"),
        Cell(value=metric.candidate, form=form, strong=tone == "gain"),
        make_difference_cell(metric, tone, choose_difference_form(name)),
    )


def choose_value_form(name: str, *metrics: MetricComparison) -> Form:
    """Return the form of values: with the decimals that the narrowest interval allows."""
    decimals = [
        count_decimals(each.difference, each.low, each.high)
        for each in metrics
        if each.difference is not None and each.low is not None and each.high is not None
    ]
    own = choose_difference_form(name)
    return Form(percent=own.points, thousand=own.thousand, decimals=max(decimals, default=None))


def choose_tone(name: str, metric: MetricComparison, confidence: float) -> Tone:
    """Return whether the candidate is better or worse, if the adjusted test says so."""
    better = metric_named(name).better
    if better is None or not metric.is_significant(confidence):
        return ""
    return "gain" if ((metric.difference or 0.0) > 0) == (better == "higher") else "loss"


def _list_evidence_columns(compared: Compared) -> tuple[Column, ...]:
    further = (_COUNTED,) if compared.paired else ("n", "effect")
    return (
        Column(name="lane", heading="0 in the middle", kind="lane", where="web"),
        Column(name="p", where="people"),
        Column(name="p_adjusted", heading="p adjusted (Holm)", where="people"),
        *(Column(name=each, where="people") for each in further),
    )


def _make_evidence_cells(
    name: str, metric: MetricComparison, compared: Compared
) -> tuple[Cell, ...]:
    shown = (Cell(text=format_p(metric.p_value)), Cell(text=format_p(metric.p_holm)))
    tone = choose_tone(name, metric, compared.confidence)
    lane = Cell(low=metric.low, high=metric.high, tone=tone)
    if compared.paired:
        return lane, *shown, Cell(text=join_counts(metric.wins, metric.losses, metric.ties))
    effect = format_figure(metric.effect, form=Form(signed=True, decimals=2))
    named = effect if metric.effect is None else f"{metric.effect_name} {effect}"
    if metric.rank_p is not None:
        named = f"{named} (order: p {format_p(metric.rank_p)})"
    counts = join_counts(metric.n_base, metric.n_candidate)
    return lane, *shown, Cell(text=counts), Cell(text=named)


def join_counts(*values: int | None) -> str:
    """Return `3 · 1 · 12`, or a dash where there are none."""
    known = [f"{value:,}" for value in values if value is not None]
    return " · ".join(known) or NOTHING


def _tabulate_causes(compared: Compared, pair: Pair) -> Table | None:
    """Return why values moved over all tasks; None if that was not asked for."""
    rows, notes = [], dict[str, None]()
    for name in drop_restated(pair.metrics, named=compared.named):
        if (parts := pair.metrics[name].attribution) is not None:
            signed = choose_difference_form(name)
            moved = (Cell(value=getattr(parts, each), form=signed) for each in _MOVED)
            form = Form(percent=signed.points, thousand=signed.thousand)
            sides = (Cell(value=each, form=form) for each in (parts.base, parts.candidate))
            rows.append((label_metric(name), *sides, *moved))
            if parts.reason:
                notes[f"{NOTHING} {parts.reason}"] = None
    if not rows:
        return None
    title = "why it moved, over all tasks"
    return Table(title=title, columns=_WHY, rows=make_rows(rows), notes=tuple(notes))


def _list_notes(pair: Pair, shown: Sequence[str], confidence: float) -> Iterator[str]:
    """Yield which test gives which p, the verdicts on margins, and caveats."""
    metrics = {name: pair.metrics[name] for name in shown}
    yield from _list_tests(metrics)
    for name, metric in metrics.items():
        if metric.against is not None and metric.difference is not None:
            yield f"{label_metric(name)}: {_describe_margin(name, metric.against)}"
    for name, metric in metrics.items():
        if metric.weights is not None:
            yield f"{name}: {_describe_weights(metric.weights, choose_value_form(name, metric))}"
    unseen = {
        name: metric.detectable
        for name, metric in metrics.items()
        if metric.detectable is not None and (metric.p_value or 0) > 1 - confidence
    }
    if len(unseen) == 1:
        [(name, least)] = unseen.items()
        seen = _show_size(name, least)
        yield f"{label_metric(name)}: a difference below {seen} would mostly go unseen (power 0.8)"
    elif unseen:
        named = ", ".join(
            f"{label_metric(name)} {_show_size(name, least)}" for name, least in unseen.items()
        )
        yield f"smaller differences than these would mostly go unseen here (power 0.8): {named}"


def _show_size(name: str, size: float) -> str:
    """Return the size of a difference with two digits: `12 points`."""
    form = replace(choose_difference_form(name), signed=False)
    scaled = size * 10**form.shift
    shown = f"{scaled:.2g}" if scaled < _LARGE else f"{scaled:,.0f}"
    return f"${shown}" if form.thousand else f"{shown} points" if form.points else shown


def _list_tests(metrics: Mapping[str, MetricComparison]) -> Iterator[str]:
    """Yield each test with its metrics, and on one line the metrics that have no value."""
    tests: dict[str, list[str]] = {}
    nulls: dict[str, list[str]] = {}
    for name, metric in metrics.items():
        if metric.difference is None:
            nulls.setdefault(metric.reason or "no value", []).append(name)
        else:
            test = f"{metric.test}; interval: {metric.interval}"
            if metric.rank_test:
                test = f"{test}; order, with {metric.effect_name}: {metric.rank_test}"
            test = (metric.reason or "no test") if metric.p_value is None else test
            tests.setdefault(test, []).append(name)
    for test, names in tests.items():
        yield f"{', '.join(names)}: {test}"
    if nulls:
        folded = "; ".join(f"{', '.join(names)} ({why})" for why, names in nulls.items())
        yield f"without a value: {folded}"


def _describe_margin(name: str, held: Margin) -> str:
    margin = f"{100 * held.margin:g} points" if is_rate(name) else f"{held.margin:g}"
    alike = {
        "yes": f"equivalent within ±{margin}",
        "no": f"they differ by more than {margin}",
        "undecided": f"equivalence within ±{margin} is undecided",
    }[held.equivalent]
    if held.noninferior is None:
        return alike
    worse = {
        "yes": f"not worse by more than {margin}",
        "no": f"worse by more than {margin}",
        "undecided": f"undecided whether it is worse by more than {margin}",
    }[held.noninferior]
    return f"{worse}; {alike}"


def _describe_weights(weights: ValuesByWeight, form: Form) -> str:
    """Return why `score` shows other values: tasks have different numbers of runs."""
    used, other = weights.used, "row" if weights.used == "task" else "task"
    values = weights.by_row if other == "row" else weights.by_task
    base, candidate = (format_figure(each, form=form) for each in values)
    where = " as in `score`" if other == "row" else ""
    return (
        f"every {used} counts the same here; every {other}{where}: {base} and {candidate} "
        f"(tasks have different numbers of runs; --weight {other})"
    )
