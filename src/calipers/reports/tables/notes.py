"""Notes beside the numbers of a score, a line each, and the tables of failures and flaky tasks.

They say what is missing and why, which calls failed, what judged means would be without the judge's
error. Metrics that only restate another, as `error_rate` does accuracy, are left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from calipers.reports.number_format import (
    format_figure,
    format_group,
    join_ranges,
    join_some,
    shorten_text,
    show_name,
    split_figure,
    strip_controls,
)
from calipers.reports.table import Cell, Table, make_columns, make_rows
from calipers.reports.tables.shown_metrics import choose_metric_form

if TYPE_CHECKING:
    from calipers.reports.data.report_data import Failure
    from calipers.scores.result import (
        BestVariant,
        FlakyTask,
        Frontier,
        Group,
        Measured,
        OnFrontier,
        Score,
        VarianceSplit,
        Variants,
    )
    from calipers.statistics.estimates import Corrected


UNBOUNDED = "*"  # behind an interval that lacks a bound; a note says why
_ID_CHARS = 40
_IDS = 20
_WARNED = 4  # groups that each have a line of their own


def list_remarks(score: Score) -> Iterator[str]:
    """Yield warnings about failed calls, and means without the judge's error."""
    yield from list_warnings(score)
    for line in list_corrections(score):
        yield f"without the judge's error: {line}"


def list_warnings(score: Score) -> Iterator[str]:
    """Yield the warnings about failed calls: one per group, or one for many."""
    warned = [(g.warning, format_group(g.by)) for g in score.groups if g.warning is not None]
    if len(warned) <= _WARNED:
        yield from (f"! {name}: {warning}" for warning, name in warned)
        return
    for warning, names in join_ranges(warned).items():
        yield f"! {join_some(names)}: {warning}"


def list_reasons(groups: Sequence[Group], names: Collection[str]) -> list[str]:
    """Return why values or bounds are missing; metrics without a value share a line."""
    nulls: dict[str, dict[str, list[str]]] = {}  # by the groups without it, then by the reason
    for name in names:
        lacking: dict[str, list[str]] = {}
        for group in groups:
            if name in group.metrics and (why := group.metrics[name].reason) is not None:
                lacking.setdefault(why, []).append(format_group(group.by))
        for why, whose in lacking.items():
            of = f" in {join_some(whose)}" if len(whose) < len(groups) else ""
            nulls.setdefault(of, {}).setdefault(why, []).append(name)
    return [
        *(f"without a value{of}: {_join_reasons(nulls[of])}" for of in sorted(nulls)),
        *_join_notes(groups, names, _mark_unbounded),
        *_join_notes(groups, names, _describe_scope),
    ]


def _join_reasons(reasons: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def describe_unbounded(measured: Measured) -> str | None:
    """Return which bound an interval lacks, and why; None if it lacks none."""
    if measured.interval_reason is None:
        return None
    if measured.low is None and measured.high is None:
        return f"no interval: {measured.interval_reason}"
    lacking = "upper" if measured.high is None else "lower"
    return f"no {lacking} bound: {measured.interval_reason}"


def has_one_bound(measured: Measured) -> bool:
    """Say whether an interval lacks one of its bounds, which its mark explains."""
    return measured.interval_reason is not None and (measured.low is None) != (
        measured.high is None
    )


def _mark_unbounded(measured: Measured) -> tuple[str, str] | None:
    said = describe_unbounded(measured)
    return None if said is None else (f"{UNBOUNDED} " if has_one_bound(measured) else "", said)


def _describe_scope(measured: Measured) -> tuple[str, str] | None:
    told = f"the interval holds only for the {measured.scope}"
    return None if measured.scope is None else ("", told)


def _join_notes(
    groups: Sequence[Group],
    names: Collection[str],
    note: Callable[[Measured], tuple[str, str] | None],
) -> list[str]:
    """Return one line per note: its mark, the metrics it holds for in some group, what it says."""
    found: dict[str, list[tuple[str, str]]] = {}
    for group in groups:
        for name, measured in group.metrics.items():
            if name in names and (said := note(measured)) is not None:
                found.setdefault(said[0], []).append((said[1], name))
    return [
        f"{mark}{join_some(which)}: {said}"
        for mark, told in found.items()
        for said, which in join_ranges(told).items()
    ]


def list_corrections(score: Score) -> Iterator[str]:
    """Yield each judged mean without the judge's error, or why not; then the assumptions."""
    assumed: dict[str, None] = {}
    for group in score.groups:
        of = f" ({format_group(group.by)})" if group.by else ""
        for name, measured in group.metrics.items():
            if (found := measured.corrected) is not None:
                yield f"{name}{of}: {_describe_corrected(name, found, measured)}"
                if found.assumes is not None:
                    assumed[found.assumes] = None
    yield from (f"this assumes that {each}" for each in assumed)


def _describe_corrected(name: str, found: Corrected, measured: Measured) -> str:
    if found.value is None:
        return f"— {strip_controls(found.reason)}"
    form = choose_metric_form(name, [measured, found])
    judged = split_figure(measured.value, measured.low, measured.high, form)[0]
    among = f", {found.overlap:,} of them among these" if found.overlap else ""
    return (
        f"{format_figure(found.value, found.low, found.high, form)}, where the judge says {judged} "
        f"(from {found.n:,} records that people rated too{among})"
    )


def describe_flaky(score: Score) -> str | None:
    """Return `flaky tasks: 12 of 45: q7 (3/10), …; all tasks in FILE`; None without repeats."""
    tasks = score.per_task
    if tasks is None or not tasks.repeated:
        return None
    if not tasks.flaky:
        return f"flaky tasks: none of {tasks.repeated:,}"
    alone = len(score.groups) == 1
    named = ", ".join(_describe_task(task, alone=alone) for task in tasks.flakiest)
    dots = ", …" if tasks.flaky > len(tasks.flakiest) else ""
    where = f"; all tasks in {strip_controls(tasks.path)}" if tasks.path else ""
    if dots and not where:
        where = "; --per-task FILE writes all"
    return f"flaky tasks: {tasks.flaky:,} of {tasks.repeated:,}: {named}{dots}{where}"


def describe_items(score: Score) -> str | None:
    """Return the item analysis of the tasks in a sentence; None without a row per task."""
    if score.per_task is None or (items := score.per_task.items) is None or not items.tasks:
        return None
    found = [f"{items.nobody:,} solved by nobody", f"{items.everybody:,} by everybody"]
    pairs = [
        f"{shorten_text(show_name(copy), _ID_CHARS)} of {shorten_text(show_name(first), _ID_CHARS)}"
        for copy, first in items.examples
    ]
    dots = ", …" if items.duplicates > len(pairs) else ""
    named = f" ({', '.join(pairs)}{dots})" if pairs else ""
    found.append(f"{items.duplicates:,} with the input of another{named}")
    fix = "" if items.systems > 1 else " (--by model, say)"
    reason = "" if items.reason is None else f"; {items.reason}{fix}"
    return f"of {items.tasks:,} tasks: {', '.join(found)}{reason}"


def _describe_task(task: FlakyTask, *, alone: bool) -> str:
    """Return a task with its passes over its runs, and its group if there are several."""
    others = {field: value for field, value in task.by.items() if field != "id"}
    group = f"{format_group(others)}, " if others and not alone else ""
    return f"{shorten_text(show_name(task.id), _ID_CHARS)} ({group}{task.passes}/{task.runs})"


def list_frontier(frontier: Frontier) -> Iterator[str]:
    """Yield what a pass costs at best, then a line per group that is cheapest for some task."""
    solved = f"{frontier.solved:,} of {frontier.tasks:,} tasks solved by some group"
    cost = frontier.solved_cost_of_pass
    if frontier.unknown_cost:
        solved += f", {frontier.unknown_cost:,} of them at unknown cost only"
    if cost is None:
        yield f"cheapest way to a pass: {solved}"
        return
    cheapest = format_figure(cost, frontier.low, frontier.high)
    yield f"cheapest way to a pass: {cheapest} USD a task, {solved}"
    for group in sorted(frontier.groups, key=lambda each: -each.best):
        if group.best:
            yield f"  {_describe_group(group)}"


def _describe_group(group: OnFrontier) -> str:
    text = f"{format_group(group.by)}: cheapest for {group.best:,} of its {group.tasks:,}"
    if group.saves:
        text += f", {format_figure(group.saves)} USD below the next"
    if group.only:
        text += f"; alone in solving {group.only:,}"
    return text


def tabulate_flaky(
    tasks: Sequence[FlakyTask], link: Callable[[FlakyTask], str] | None = None
) -> Table:
    """Return the tasks that pass in some runs and fail in others."""
    columns = make_columns("task", "group", "passes", "runs", texts=("group",), where="all")
    rows = make_rows(
        (
            Cell(
                value=task.id,
                text=shorten_text(show_name(task.id), 80),
                link=link(task) if link else "",
            ),
            *(format_group(task.by), task.passes, task.runs),
        )
        for task in tasks
    )
    return Table(columns=columns, rows=rows, title="Flaky tasks")


def tabulate_failures(failures: Sequence[Failure]) -> Table:
    """Return what went wrong, with the first ids of each."""
    ids = "ids, the first of them"
    columns = make_columns("what", "system", "records", ids, texts=("system", ids), where="all")
    rows = make_rows(
        (
            "wrong, or not passed" if each.what == "wrong" else f"call failed: {each.what}",
            format_group(each.by),
            each.records,
            ", ".join(shorten_text(show_name(id_), 60) for id_ in each.ids[:_IDS])
            + (", …" if len(each.ids) > _IDS else ""),
        )
        for each in failures
    )
    return Table(columns=columns, rows=rows, title="What failed")


def list_variants(found: Variants) -> Iterator[str]:
    """Yield which configuration is best, and where the variance comes from, in words."""
    if found.best is not None:
        yield _describe_best(found.best)
    yield from map(_describe_split, found.variance)


def _describe_best(best: BestVariant) -> str:
    """Return which configuration is best, and how many cannot be told from it."""
    named = format_group(best.by)
    around = (
        f"no interval: {best.reason}"
        if best.low is None or best.high is None
        else f"[{best.low:.3f}, {best.high:.3f}], which holds for all {best.among:,} at once"
    )
    scope = f" (for the {best.scope} only)" if best.scope else ""
    alike = (
        "every other is behind it"
        if not best.alike
        else "none of the others can be told from it"
        if len(best.alike) == best.among - 1
        else f"{len(best.alike):,} of the other {best.among - 1:,} cannot be told from it"
    )
    return (
        f"best of {best.among:,} configurations by {best.metric}: {named}, {best.value:.3f} "
        f"{around}{scope}; {alike}"
    )


def _describe_split(split: VarianceSplit) -> str:
    """Return the shares of the variance of one run, in words."""
    parts = [("task", split.task), ("variant", split.variant)]
    parts += [("task × variant", split.together)] if split.together is not None else []
    parts += [("run", split.run)] if split.run is not None else []
    parts += [("task × variant and run", split.rest)] if split.rest is not None else []
    shown = ", ".join(f"{name} {share:.0%}" for name, share in parts if share is not None)
    of = ", ".join(f"{value}" for value in split.by.values())
    return (
        f"variance of {split.metric} of one run{f' ({of})' if of else ''}: {shown}; "
        f"{split.tasks:,} tasks × {split.variants:,} variants, {split.runs:,} runs"
    )
