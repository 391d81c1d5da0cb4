"""From data to a score: run an engine, and assemble its results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.engines.outcome import Outcome, Reading
from calipers.engines.per_task import FLAKY, ID, PASSES, REPEATED_TASKS, TASKS, VERDICTS
from calipers.engines.plan import Plan
from calipers.engines.reading import pick_engine
from calipers.engines.task_file import TaskFile, open_task_file
from calipers.engines.totals import ERRORS, RECORDS, REPEATED
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.declare.means import weigh_tasks
from calipers.records.completing import list_derivable
from calipers.records.logs import Log
from calipers.records.sinks import Watch, check_folder, find_table, open_sinks
from calipers.records.sources import Source, open_sources
from calipers.scores.groups import measure_groups
from calipers.scores.keys import sort_keys
from calipers.scores.notices import (
    explain_empty,
    list_notices,
    note_evidence,
    note_row_weights,
    refuse_unmeasured,
)
from calipers.scores.options import Options
from calipers.scores.own import refuse_absent
from calipers.scores.results import (
    FlakyTask,
    Frontier,
    Group,
    Input,
    PerTask,
    Score,
    Tiers,
    require_figures,
)
from calipers.scores.tiering import compare_tiers
from calipers.support.errors import DataError, UsageError, nearest

HASHED_UP_TO = 64 << 20

Progress = Callable[[float], None]


def score_data(
    data: Any, options: Options, progress: Progress = lambda _: None, watch: Watch | None = None
) -> Score:
    """Measure the records in `data`; a `watch` sees every row."""
    if options.figures is not None:
        require_figures("--figures")
        check_folder(options.figures, "--figures")
    sources = open_sources(data)
    _check_tables(sources, options)
    plan = make_plan(sources, options)
    if options.weight == "task":
        plan = replace(plan, metrics=tuple(weigh_tasks(each) or each for each in plan.metrics))
    if options.per_sample:
        filled = plan.settings.checks.filled if plan.settings.checks else ()
        plan = replace(plan, seen=list_seen(sources, options).union(filled))
    if watch is not None:
        plan = replace(plan, kept=watch.kept, sampled=watch.columns)
    with open_task_file(options.per_task) as tasks:
        outcome = run_engine(sources, plan, options, progress, tasks, watch)
        _check(outcome, plan, sources, options)
        if tasks is not None:
            items = tasks.write(sort_keys(outcome.groups, plan.by))
            outcome = replace(outcome, items=items)
    inputs = tuple(list_inputs(sources, outcome.readings, hash_all=options.hash_inputs))
    return assemble_score(sources, outcome, plan, options, inputs)


def _check_tables(sources: Sequence[Source], options: Options) -> None:
    """Refuse tables that cannot be written before any work is done."""
    places = {"--per-sample": options.per_sample, "--per-task": options.per_task}
    for option, place in places.items():
        if (name := find_table(place)) is None:
            continue
        if pick_engine(options.engine, sources) != "spark":
            raise UsageError(
                f"{option} {place}: only Spark writes tables",
                fix="add --engine spark, or name a .parquet or .jsonl file",
            )
        from calipers.records.spark.saving import refuse_table  # noqa: PLC0415 (an extra)

        refuse_table(name, option)


def assemble_score(
    sources: Sequence[Source],
    outcome: Outcome,
    plan: Plan,
    options: Options,
    inputs: tuple[Input, ...],
) -> Score:
    """Assemble the score from the results of an engine; raise if nothing could be measured."""
    _check(outcome, plan, sources, options)
    by_text = measure_groups(outcome, plan, options)
    metrics = plan.restrict(outcome.present).metrics
    groups = list(by_text.values())
    if options.must_measure:
        refuse_unmeasured(groups, sources)
    tiers = [*compare_tiers(groups, options.baseline)] if plan.described else []
    return Score(
        groups=tuple(groups),
        tiers=_add_evidence(tiers, by_text, outcome, plan),
        per_task=_count_tasks(outcome, plan, options.per_task) if plan.per_task else None,
        frontier=_find_frontier(outcome, plan),
        inputs=inputs,
        settings=_dump_settings(options),
        notices=(
            *list_notices(sources, outcome, options),
            *(note_row_weights(metrics) if options.weight == "task" else ()),
            *note_evidence(outcome, metrics, plan.cluster),
            *explain_empty(groups, sources),
        ),
        seed=options.seed,
        repeated=outcome.sum_groups(REPEATED),
        metric_versions=_list_versions(groups, plan),
    )


def _list_versions(groups: Sequence[Group], plan: Plan) -> dict[str, int]:
    """Return the version of the definition of each metric that the groups have."""
    versions = {metric.name: metric.version for metric in plan.metrics}
    measured = {name: None for group in groups for name in group.metrics}
    return {name: versions[name] for name in measured if name in versions}


def _add_evidence(
    tiers: Sequence[Tiers], groups: dict[str, Group], outcome: Outcome, plan: Plan
) -> tuple[Tiers, ...]:
    if not tiers:
        return ()
    from calipers.scores.tier_evidence import add_evidence  # noqa: PLC0415 (only for tiers)

    return tuple(add_evidence(tiers, groups, outcome, plan))


def make_plan(sources: Sequence[Source], options: Options) -> Plan:
    """Return the plan of what is asked for; a column of null answers means none was given."""
    seen = list_seen(sources, options)
    plan = replace(options.plan(sources), also_present=seen & {"answer"})
    if plan.only_present and not options.map and all(map(_has_told_all_columns, sources)):
        plan = plan.leave_out_absent(seen)  # which takes most of the time that a few rows take
    if plan.settings.checks:
        own = sorted(name for name in seen if name not in options.map.values())
        settings = replace(plan.settings, checks=plan.settings.checks.restrict(own))
        return replace(plan, settings=settings)
    return plan


def _has_told_all_columns(source: Source) -> bool:
    """Say whether a source is known to have no columns beside those that it tells at once."""
    return getattr(source, "shows_all_columns", False)


def _dump_settings(options: Options) -> dict[str, Any]:
    """Return all chosen options, as the output names them."""
    calibrations = list(dict.fromkeys(each.source for each in options.calibrations))
    return {
        **options.settings.to_dict(),
        "confidence": options.confidence,
        "cluster": options.cluster,
        "resamples": options.resamples,
        "weight": options.weight or "row",
        **({"metrics": list(options.metrics)} if options.metrics else {}),
        **({"calibrations": calibrations} if calibrations else {}),
    }


def list_seen(sources: Sequence[Source], options: Options) -> frozenset[str]:
    """Return the fields that the first rows have, or that can be derived from theirs."""
    columns = {column for source in sources for column in source.columns()}
    ours = (name for name, theirs in options.map.items() if theirs in columns)
    return frozenset((*columns, *ours, *list_derivable(columns)))


def run_engine(
    sources: Sequence[Source],
    plan: Plan,
    options: Options,
    progress: Progress,
    tasks: TaskFile | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Return the outcome of the chosen engine over all sources."""
    if pick_engine(options.engine, sources) == "spark":
        from calipers.engines.spark import run  # noqa: PLC0415 (an extra)
    else:
        from calipers.engines.polars import run  # noqa: PLC0415 (only the engine in use)
    wanted = plan.list_wanted(options.map)
    with open_sinks(
        samples=options.per_sample,
        tasks=None if tasks is None else tasks.add,
        bad_rows=options.bad_rows,
        skip_bad=options.on_bad == "skip",
        progress=progress,
        watch=watch,
    ) as sinks:
        return run(sources, wanted, plan, sinks)


def _check(outcome: Outcome, plan: Plan, sources: Sequence[Source], options: Options) -> None:
    """Raise where the records lack what the options name."""
    if any(reading.rows for reading in outcome.readings):
        check_fields(outcome.present, plan, sources, options.map)
        if options.metrics and outcome.sum_groups(RECORDS) > outcome.sum_groups(ERRORS):
            refuse_absent(plan.metrics, outcome.present, sources, options.map)
    _check_ids(outcome, sources, options)


def check_fields(
    present: Collection[str], plan: Plan, sources: Sequence[Source], field_map: Mapping[str, str]
) -> None:
    """Raise UsageError if no record has a field to group by or to map."""
    asked = {name: f"--by {name}" for name in plan.by}
    asked |= {} if plan.cluster is None else {plan.cluster: f"--cluster {plan.cluster}"}
    asked |= {name: f"--map {name}={theirs}" for name, theirs in field_map.items()}
    for name, option in asked.items():
        is_there = name in present or any(each.startswith(f"{name}.") for each in present)
        if name in plan.watched and not is_there:
            columns = {column for source in sources for column in source.columns()}
            theirs = field_map.get(name, name)
            raise UsageError(
                f"{option}: no record has a value in {theirs}", fix=nearest(theirs, columns)
            )


def _check_ids(outcome: Outcome, sources: Sequence[Source], options: Options) -> None:
    records, with_id = outcome.sum_groups(RECORDS), outcome.having["id"]
    if 0 < with_id < records:
        name, reading = next(
            (source.name, reading)
            for source, reading in zip(sources, outcome.readings, strict=True)
            if reading.with_id < reading.rows
        )
        raise DataError(
            f"{name}: {reading.rows - reading.with_id} of {reading.rows} records have no id, "
            "the others have one",
            fix="give every record an id, or name the field that holds it: --map id=NAME",
        )
    option = "--per-task" if options.per_task is not None else "--weight task"
    if records and not with_id and (options.per_task is not None or options.weight == "task"):
        raise UsageError(
            f"{option}: no record has an id, so none is known to be of the same task",
            fix="name the field that identifies tasks: --map id=NAME",
        )


def _count_tasks(outcome: Outcome, plan: Plan, path: Path | None) -> PerTask | None:
    """Return the numbers of tasks and of flaky ones; None if no record has an id."""
    tasks = outcome.sum_groups(TASKS)
    if path is None and not tasks:
        return None
    keys = sort_keys(outcome.groups, plan.by)
    found = () if outcome.flakiest is None else outcome.flakiest.iter_rows(named=True)
    return PerTask(
        tasks=tasks,
        repeated=outcome.sum_groups(REPEATED_TASKS),
        flaky=outcome.sum_groups(FLAKY),
        flakiest=tuple(
            FlakyTask(by=keys[row[GROUP]], id=row[ID], passes=row[PASSES], runs=row[VERDICTS])
            for row in found
        ),
        path=None if path is None else str(path),
        items=outcome.items,
    )


def _find_frontier(outcome: Outcome, plan: Plan) -> Frontier | None:
    if outcome.attempts is None or not outcome.attempts.height:
        return None
    from calipers.scores.frontier import find_frontier  # noqa: PLC0415 (only for attempts)

    return find_frontier(outcome.attempts, sort_keys(outcome.groups, plan.by), plan.confidence)


def list_inputs(
    sources: Sequence[Source], readings: Sequence[Reading], *, hash_all: bool
) -> Iterator[Input]:
    """Yield what was read of each source, and the hash of its file."""
    for source, reading in zip(sources, readings, strict=True):
        yield Input(
            path=source.name,
            rows=reading.rows,
            sha256=_hash_file(source.path, hash_all=hash_all),
            skipped=reading.skipped,
            format=source.format.name if isinstance(source, Log) else None,
        )


def _hash_file(path: str | None, *, hash_all: bool) -> str | None:
    if path is None or not (hash_all or Path(path).stat().st_size <= HASHED_UP_TO):
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
