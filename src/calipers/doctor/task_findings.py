"""Findings about records and tasks: unreadable rows, failed calls, ids, runs, leaks, ceilings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from calipers.doctor import facts as f
from calipers.doctor.facts import ERROR, FAILED, OUTCOME, SYSTEM, TASK, Facts
from calipers.doctor.result import Finding, format_share

_PERCENT = re.compile(r"^prob_correct: ([0-9.]+) is outside")
_MANY_FAILED = 0.05  # of a system's calls


def find_bad_rows(facts: Facts) -> Iterator[Finding]:
    """Yield the rows that `score` stops at, a finding per field that is wrong."""
    rows = facts.rows.height + sum(problem.count for problem in facts.bad)
    for problem in facts.bad:
        percent = _PERCENT.match(problem.problem)
        fix = "fix the rows, read another field (--map FIELD=NAME), or leave them out: "
        fix += "--on-bad skip"
        if percent is not None and 1 < float(percent[1]) <= 100:  # noqa: PLR2004
            fix = "divide by 100: a probability lies in [0, 1]"
        yield Finding(
            kind="bad rows",
            severity="problem",
            says=f"{format_share(problem.count, rows)} rows cannot be read: {problem.problem}",
            fix=fix,
            count=problem.count,
            of=rows,
            examples=problem.examples,
        )


def find_unfinished(facts: Facts) -> Iterator[Finding]:
    """Yield the calls or judgments still to be made, according to the manifest or journal."""
    for file, lack in facts.unfinished:
        yield Finding(
            kind="unfinished",
            severity="warning",
            says=f"{file}: {lack}",
            fix="run or judge again with the same output: only what is missing is called",
            count=1,
            of=len(facts.files),
            examples=(file,),
        )


def find_failed_calls(facts: Facts) -> Iterator[Finding]:
    """Yield a finding per system with failed calls; failures may be the harder tasks."""
    parts = facts.rows.partition_by(SYSTEM, as_dict=True, maintain_order=True)
    for (system,), rows in sorted(parts.items()):
        failed = rows.filter(FAILED)
        if not failed.height:
            continue
        kinds = failed[ERROR].value_counts(sort=True).rows()[:3]
        counts = ", ".join(f"{kind} {count:,}" for kind, count in kinds)
        yield facts.make_finding(
            "failed calls",
            "warning" if failed.height > _MANY_FAILED * rows.height else "note",
            f"{format_share(failed.height, rows.height)} calls failed ({counts}) "
            "and count in no metric",
            fix="call them again, or count them as failures: --errors fail",
            rows=failed,
            of=rows,
            system=system,
        )


_NAME_IDS = "name the field that identifies tasks: --map id=NAME"
_FEW_REUSED = 10  # ids
_ALIKE = 0.5  # of the tasks: systems that share fewer were not meant to be compared
_MANY_MISSING = 0.05
_FEW_LEAKS = 5
_MORE_LEAKS = 4  # times as often as the target of another task
_ENOUGH = 20  # tasks
_HIGH, _LOW = 0.95, 0.05


def find_unclear_ids(facts: Facts) -> Iterator[Finding]:
    """Yield records of which some or all have no id, and ids that stand for several tasks.

    Without ids nothing can be paired, and runs are taken for tasks.
    """
    without = facts.rows.filter(pl.col(f.ID).is_null())
    if 0 < without.height < facts.rows.height:
        says = f"{format_share(without.height, facts.rows.height)} records have no id, "
        says += "the others have one"
        yield facts.make_finding("ids", "problem", says, fix=_NAME_IDS, rows=without, of=facts.rows)
    elif without.height > 1:
        says = "no record has an id: each row counts as a task of its own, and systems "
        says += "cannot be compared task by task"
        finding = facts.make_finding("ids", "note", says, fix=_NAME_IDS, rows=without, of=without)
        yield replace(finding, examples=())
    elif not without.height:
        yield from _find_reused_ids(facts)


def _find_reused_ids(facts: Facts) -> Iterator[Finding]:
    """Yield ids whose records, within one system, have different inputs."""
    rows = facts.rows.drop_nulls(f.INPUT)
    inputs = rows.group_by(SYSTEM, TASK).agg(pl.col(f.INPUT).n_unique().alias("inputs"))
    several = inputs.filter(pl.col("inputs") > 1)
    if several.height >= _FEW_REUSED:
        count = several[TASK].n_unique()
        shown = rows.join(several, on=[SYSTEM, TASK], how="semi", maintain_order="left")
        yield Finding(
            kind="ids",
            severity="warning",
            says=f"{count:,} ids stand for several inputs of one system: "
            "they count as runs of one task",
            fix=_NAME_IDS,
            count=count,
            of=rows[TASK].n_unique(),
            examples=facts.examples(shown),
        )


def find_duplicates(facts: Facts) -> Iterator[Finding]:
    """Yield records that repeat the id, model, tier and run of another, or are copies of one."""
    known = facts.rows.filter(pl.col(f.ID).is_not_null())
    numbered = known.filter(pl.col(f.RUN).is_not_null())
    again = numbered.filter(~pl.struct(SYSTEM, TASK, f.RUN).is_first_distinct())
    if again.height:
        yield facts.make_finding(
            "duplicates",
            "problem",
            f"{format_share(again.height, facts.rows.height)} records repeat the id, model, tier "
            "and run of another; each counts as a further run",
            fix="keep one of each, or number the runs",
            rows=again,
            of=facts.rows,
        )
    unnumbered = known.filter(pl.col(f.RUN).is_null())
    copies = unnumbered.filter(~pl.struct(SYSTEM, TASK, f.COPY).is_first_distinct())
    if copies.height:
        yield facts.make_finding(
            "duplicates",
            "warning",
            f"{format_share(copies.height, facts.rows.height)} records equal another in every "
            "field; each counts as a further run",
            fix="drop the copies; if they are runs of one task, number them in the field run",
            rows=copies,
            of=facts.rows,
        )


def find_unequal_runs(facts: Facts) -> Iterator[Finding]:
    """Yield systems whose tasks do not all have the same number of records.

    `score` weighs rows, so a task that was run more often counts more.
    """
    if not facts.has_ids:
        return
    counts = facts.rows.group_by(SYSTEM, TASK, maintain_order=True).agg(pl.len().alias("runs"))
    for (system,), tasks in sorted(counts.partition_by(SYSTEM, as_dict=True).items()):
        counted = tasks["runs"].to_list()
        usual = min(tasks["runs"].mode().to_list())
        odd = tasks.filter(pl.col("runs") != usual)
        if odd.height:
            rows = facts.rows.join(odd, on=[SYSTEM, TASK], how="semi", maintain_order="left")
            yield Finding(
                kind="unequal runs",
                severity="note",
                says=f"{format_share(odd.height, tasks.height)} tasks do not have {usual} records "
                f"as most have; they have from {min(counted)} to {max(counted)}",
                fix="finish the run; score weighs records: --weight task makes tasks count alike",
                count=odd.height,
                of=tasks.height,
                system=facts.named(system),
                examples=facts.examples(rows),
            )


def find_missing_tasks(facts: Facts) -> Iterator[Finding]:
    """Yield which systems lack tasks of the others, where they have most of them in common."""
    if not facts.has_ids or len(facts.systems) < 2:  # noqa: PLR2004
        return
    tasks = facts.rows.select(SYSTEM, TASK).unique(maintain_order=True)
    systems_of = tasks.group_by(TASK).len()
    # Tasks that only one system has are extra; the others do not lack them.
    shared = systems_of.filter(pl.col("len") > 1).select(TASK)
    if shared.height < _ALIKE * systems_of.height:
        return
    have = tasks.join(shared, on=TASK, how="semi").group_by(SYSTEM).len().rows()
    lacking = {
        system: shared.height - count
        for system, count in sorted(have)
        if shared.height * _ALIKE <= count < shared.height
    }
    if not lacking:
        return
    worst = sorted(lacking.items(), key=lambda entry: -entry[1])
    examples = ", ".join(f"{system} lacks {count:,}" for system, count in worst[:3])
    common = systems_of.filter(pl.col("len") == len(facts.systems))
    lost = shared.height - common.height
    rows = facts.rows.join(shared, on=TASK, how="semi", maintain_order="left")
    yield Finding(
        kind="missing tasks",
        severity="warning" if lost > _MANY_MISSING * shared.height else "note",
        says=f"systems do not have the same tasks: {format_share(lost, shared.height)} are missing "
        f"from one or more ({examples}{', …' if worst[3:] else ''})",
        fix="run the missing tasks; compare and rank use the tasks that systems share",
        count=lost,
        of=shared.height,
        examples=facts.examples(rows.join(common, on=TASK, how="anti", maintain_order="left")),
    )


def find_leaked_targets(facts: Facts) -> Iterator[Finding]:
    """Yield a finding where far more inputs hold their own target than another task's."""
    tasks = facts.rows.drop_nulls(f.TARGET).unique(TASK, keep="first", maintain_order=True)
    leaks = tasks.filter(f.LEAKS)
    by_chance = int(tasks[f.LEAKS_OTHER].sum()) if tasks.height else 0
    if leaks.height >= max(_FEW_LEAKS, _MORE_LEAKS * by_chance):
        yield facts.make_finding(
            "leaked targets",
            "problem",
            f"the input of {format_share(leaks.height, tasks.height)} tasks holds the target "
            "behind a word such as “Answer:”",
            fix="take the target out of input, and call the systems again",
            rows=leaks,
            of=tasks,
        )


def find_ceiling(facts: Facts) -> Iterator[Finding]:
    """Yield one finding where every system is right on nearly all tasks, or on nearly none."""
    outcome = facts.find_outcome()
    if outcome is None or outcome.metric == f.IMPL or outcome.rows[TASK].n_unique() < _ENOUGH:
        return
    values = outcome.rows.group_by(SYSTEM).agg(pl.col(OUTCOME).mean())[OUTCOME]
    least, most = float(values.min()), float(values.max())  # type: ignore[arg-type]
    if least < _HIGH and most > _LOW:
        return
    high = least >= _HIGH
    odd = outcome.rows.filter(pl.col(OUTCOME) < 1 if high else pl.col(OUTCOME) > 0)
    count, of = outcome.rows.height - odd.height, outcome.rows.height
    where, what = ("ceiling", "right") if high else ("floor", "wrong")
    yield Finding(
        kind="ceiling or floor",
        severity="note",
        says=f"{where}: {format_share(count, of)} outcomes are {what}: "
        "these tasks hardly tell systems apart",
        fix="add harder tasks" if high else "add easier tasks, and check how answers are read",
        count=count,
        of=of,
        examples=facts.examples(odd),
    )
