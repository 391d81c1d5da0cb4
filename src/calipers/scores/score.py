"""From data to a score: run an engine, and assemble its results. `calipers.score` and `explain`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.engines.outcome import Outcome, RowCounts
from calipers.engines.per_task import (
    FLAKY,
    ID,
    PASSES,
    REPEATED_TASKS,
    TASKS,
    VERDICTS,
    TaskFile,
    open_task_file,
)
from calipers.engines.plan import Plan
from calipers.engines.read_rows import pick_engine
from calipers.engines.totals import ERRORS, RECORDS, REPEATED
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.declare.means import weigh_tasks
from calipers.metrics.provenance import list_metric_fields
from calipers.records.batch import Source
from calipers.records.derived_fields import list_derivable
from calipers.records.fields import VARIANT
from calipers.records.logs.log import Log
from calipers.records.readers.lines import PipedLines
from calipers.records.rows import list_names
from calipers.records.sinks import Watch, check_folder, find_table, open_sinks
from calipers.records.sources import open_sources
from calipers.scores.groups import list_measured, measure_groups, sort_keys
from calipers.scores.notices import (
    ByGroup,
    add_stated,
    explain_empty,
    list_notices,
    note_evidence,
    note_row_weights,
    note_stated,
    refuse_unmeasured,
)
from calipers.scores.options import Options
from calipers.scores.resolve_options import declare_signature, group_by_system, resolve_options
from calipers.scores.result import (
    FlakyTask,
    Frontier,
    Group,
    Input,
    PerTask,
    Score,
    Slice,
    Tiers,
    Variants,
    list_metric_names,
    require_figures,
)
from calipers.scores.score_plan import refuse_absent
from calipers.scores.tiers import compare_tiers
from calipers.support.errors import DataError, UsageError, nearest, quote_name
from calipers.support.options import as_names, ignore_progress

if TYPE_CHECKING:
    from calipers.scores.explain import Explanation
    from calipers.support.keywords import ExplainKeywords, ScoreKeywords

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
    plan = make_weighed_plan(sources, options)
    if options.per_sample:
        filled = plan.settings.checks.filled if plan.settings.checks else ()
        plan = replace(plan, seen=list_seen(sources, options).union(filled))
    if watch is not None:
        plan = replace(plan, kept=watch.kept, sampled=watch.columns)
    with open_task_file(options.per_task) as tasks:
        outcome = run_engine(sources, plan, options, progress, tasks, watch)
        _check(outcome, plan, sources, options)
        if options.random:
            from calipers.scores.crossed import add_crossed  # noqa: PLC0415 (only where asked for)

            add_crossed(outcome, sources, plan, options)
        if tasks is not None:
            items = tasks.write(sort_keys(outcome.groups, plan.by))
            outcome = replace(outcome, items=items)
    inputs = tuple(describe_inputs(sources, outcome.readings, hash_all=options.hash_inputs))
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
        from calipers.engines.spark.spark_output import refuse_table  # noqa: PLC0415 (an extra)

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
    has_variants = _may_compare_variants(sources, outcome, options)
    if has_variants and VARIANT not in plan.by:
        by_text = _bound_by_cells(by_text, sources, outcome, plan, options)
    if options.guarantee:
        from calipers.scores.guaranteed import guarantee_groups  # noqa: PLC0415 (if asked for)

        by_text = guarantee_groups(by_text, metrics, sources, options)
    groups = list_measured(by_text)
    if options.must_measure:
        refuse_unmeasured(groups, sources)
    twice = _find_recorded_twice(sources, outcome, options)
    tiers = [*compare_tiers(groups, options.baseline)] if plan.described else []
    notices = [*list_notices(sources, outcome, options)]  # before logs are read again
    inputs = _add_stated(sources, inputs, groups, options)
    return Score(
        groups=groups,
        tiers=_add_evidence(tiers, by_text, outcome, plan),
        per_task=_count_tasks(outcome, plan, options.per_task) if plan.per_task else None,
        frontier=_find_frontier(outcome, plan),
        variants=_measure_variants(sources, groups, outcome, options) if has_variants else None,
        inputs=inputs,
        settings=_dump_settings(options),
        notices=(
            *notices,
            *(f"{line}; here they count as further runs" for line in twice),
            *note_stated(inputs),
            *(note_row_weights(metrics) if options.weight == "task" else ()),
            *note_evidence(outcome, metrics, plan.cluster),
            *explain_empty(groups, sources),
        ),
        seed=options.seed,
        repeated=outcome.sum_groups(REPEATED),
        has_repeats=outcome.has_repeats,
        recorded_twice=twice,
        metric_versions=_list_versions(groups, plan),
        slices=_measure_slices(by_text, outcome, metrics, options),
    )


def _measure_slices(
    groups: Mapping[str, Group], outcome: Outcome, metrics: Sequence[Metric], options: Options
) -> tuple[Slice, ...]:
    """Return the slices of the tasks, where the groups are slices and their intervals by spread."""
    is_other = options.guarantee or options.random or options.resamples
    if len(groups) <= 1 or not options.by or is_other or options.tasks == "fixed":
        return ()
    from calipers.scores.slices import measure_slices  # noqa: PLC0415 (only for several groups)

    return tuple(measure_slices(groups, outcome.groups, metrics, options.confidence))


def _may_compare_variants(sources: Sequence[Source], outcome: Outcome, options: Options) -> bool:
    """Say whether records have variants that can be read again, and tasks that are clusters."""
    is_plain = options.cluster is None and not options.resamples and options.tasks != "fixed"
    is_plain = is_plain and not options.random and not options.guarantee
    return (
        is_plain
        and bool(outcome.having.get("id"))
        and VARIANT in list_seen(sources, options)
        and not any(isinstance(source, PipedLines) for source in sources)
    )


def _bound_by_cells(
    groups: Mapping[str, Group],
    sources: Sequence[Source],
    outcome: Outcome,
    plan: Plan,
    options: Options,
) -> Mapping[str, Group]:
    """Return the groups; those of few tasks have intervals over the cells task × variant."""
    from calipers.scores.variants import (  # noqa: PLC0415 (only where there are variants)
        add_cell_intervals,
        gather_logs,
        has_few_tasks,
    )

    restricted = plan.restrict(outcome.present)
    if not has_few_tasks(outcome, restricted):
        return groups
    cells = replace(
        plan,
        cells=(VARIANT,),
        described=(),
        medians=(),
        binned=(),
        widely_binned=(),
        reliability=False,
        per_task=False,
        of_tasks=(),
        tallied=(),
    )
    asked = replace(options, per_sample=None, per_task=None, bad_rows=None, calibrations=())
    again = run_engine(gather_logs(sources, outcome), cells, asked, lambda _: None)
    of_cells = measure_groups(again, cells, asked)
    return add_cell_intervals(groups, outcome, of_cells, again, restricted)


def _measure_variants(
    sources: Sequence[Source], groups: Sequence[Group], outcome: Outcome, options: Options
) -> Variants | None:
    """Return what configurations show, where tiers, a report or the variants are asked for."""
    if not (options.profile == "tiers" or options.for_report or VARIANT in options.by):
        return None
    from calipers.scores.variants import gather_logs, measure_variants  # noqa: PLC0415 (as above)

    plan = make_plan(sources, options)
    return measure_variants(gather_logs(sources, outcome), groups, plan, options)


def _find_recorded_twice(
    sources: Sequence[Source], outcome: Outcome, options: Options
) -> tuple[str, ...]:
    """Return which files are given twice, and how many rows record a run a second time."""
    has_ids = bool(outcome.having.get("id"))
    is_told_apart = has_ids and not outcome.sum_groups(REPEATED)
    if len(sources) == 1 and is_told_apart:
        return ()
    from calipers.scores.repeats import find_copies, find_repeats  # noqa: PLC0415 (rarely needed)

    if copies := tuple(find_copies(sources)):
        return copies
    if is_told_apart or pick_engine(options.engine, sources) == "spark":
        return ()
    repeats = find_repeats(sources, options.map, has_ids=has_ids)
    return () if repeats is None else (str(repeats),)


def _add_stated(
    sources: Sequence[Source],
    inputs: tuple[Input, ...],
    groups: Sequence[Group],
    options: Options,
) -> tuple[Input, ...]:
    """Return the inputs with what their logs state about themselves."""
    if not any(source.format for source in inputs):
        return inputs

    def measure_alone(
        about: Sequence[Source],
        names: Sequence[str],
        by: tuple[str, ...] = (),
        setting: tuple[str, Any] | None = None,
    ) -> ByGroup:
        settings = replace(options.settings, **dict([setting] if setting else []))
        asked = replace(
            options,
            by=by,
            metrics=tuple(names),
            profile=None,
            weight=None,
            settings=settings,
            per_sample=None,
            per_task=None,
            bad_rows=None,
            engine="polars",
        )
        plan = make_plan(about, asked)
        outcome = run_engine(about, plan, asked, lambda _: None)
        return {
            tuple(g.by.values()): g.metrics for g in measure_groups(outcome, plan, asked).values()
        }

    measured = dict.fromkeys(name for group in groups for name in group.metrics)
    comparable = [name for name in measured if not _is_changed(name, options)]
    ours: dict[tuple[str, ...], ByGroup] = {}
    if len(sources) == 1 and options.weight != "task":
        ours[options.by] = {tuple(group.by.values()): group.metrics for group in groups}
        if len(groups) == 1:
            ours[()] = {(): groups[0].metrics}
    return add_stated(sources, inputs, comparable, ours, measure_alone)


def _is_changed(name: str, options: Options) -> bool:
    """Return True if a metric goes by fields that the user maps, or by checks, not by the log."""
    if options.settings.checks and name == "pass_rate":
        return True
    return bool(options.map) and not list_metric_fields([metric_named(name)]).isdisjoint(
        options.map
    )


def _list_versions(groups: Sequence[Group], plan: Plan) -> dict[str, int]:
    """Return the version of the definition of each metric that the groups have."""
    versions = {metric.name: metric.version for metric in plan.metrics}
    return {name: versions[name] for name in list_metric_names(groups) if name in versions}


def _add_evidence(
    tiers: Sequence[Tiers], groups: Mapping[str, Group], outcome: Outcome, plan: Plan
) -> tuple[Tiers, ...]:
    if not tiers:
        return ()
    from calipers.scores.evidence import add_evidence  # noqa: PLC0415 (only for tiers)

    return tuple(add_evidence(tiers, groups, outcome, plan))


def make_weighed_plan(sources: Sequence[Source], options: Options) -> Plan:
    """Return the plan, with means over tasks in the place of means over rows if asked for."""
    plan = make_plan(sources, options)
    if options.weight != "task":
        return plan
    return replace(plan, metrics=tuple(weigh_tasks(metric) or metric for metric in plan.metrics))


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
    """Return True if a source is known to have no columns beside those that it tells at once."""
    return getattr(source, "shows_all_columns", False)


def _dump_settings(options: Options) -> dict[str, Any]:
    """Return all chosen options, as the output names them."""
    calibrations = list(dict.fromkeys(calibration.source for calibration in options.calibrations))
    return {
        **options.settings.to_dict(),
        "confidence": options.confidence,
        "cluster": options.cluster,
        **({"random": list(options.random)} if options.random else {}),
        "resamples": options.resamples,
        "weight": options.weight or "row",
        **({"guarantee": True} if options.guarantee else {}),
        **({"metrics": list(options.metrics)} if options.metrics else {}),
        **({"profile": options.profile} if options.profile else {}),
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
        from calipers.engines.spark.spark_engine import run  # noqa: PLC0415 (an extra)
    else:
        from calipers.engines.polars_engine import run  # noqa: PLC0415 (only the engine in use)
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
    checks = plan.settings.checks
    asked = {name: f"a check names {{{name}}}" for name in (checks.task_fields if checks else ())}
    asked |= {name: f"--by {name}" for name in plan.by}
    kept = "--random" if plan.crossed else "--cluster"
    asked |= dict.fromkeys(plan.cluster_fields, f"{kept} {plan.cluster}")
    asked |= {name: f"--map {name}={theirs}" for name, theirs in field_map.items()}
    for name, option in asked.items():
        is_there = name in present or any(
            column.startswith((f"{name}.", f"{name}[")) for column in present
        )
        if name in plan.watched and not is_there:
            columns = {column for source in sources for column in list_names(source)}
            theirs = field_map.get(name, name)
            raise UsageError(
                f"{quote_name(option)}: no record has a value in {quote_name(theirs)}",
                fix=nearest(theirs, columns),
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
    rows = () if outcome.flakiest is None else outcome.flakiest.iter_rows(named=True)
    return PerTask(
        tasks=tasks,
        repeated=outcome.sum_groups(REPEATED_TASKS),
        flaky=outcome.sum_groups(FLAKY),
        flakiest=tuple(
            FlakyTask(by=keys[row[GROUP]], id=row[ID], passes=row[PASSES], runs=row[VERDICTS])
            for row in rows
        ),
        path=None if path is None else str(path),
        items=outcome.items,
    )


def _find_frontier(outcome: Outcome, plan: Plan) -> Frontier | None:
    if outcome.attempts is None or not outcome.attempts.height:
        return None
    from calipers.scores.tiers import find_frontier  # noqa: PLC0415 (only for attempts)

    return find_frontier(outcome.attempts, sort_keys(outcome.groups, plan.by), plan.confidence)


def describe_inputs(
    sources: Sequence[Source], readings: Sequence[RowCounts], *, hash_all: bool
) -> Iterator[Input]:
    """Yield what was read of each source, and the hash of its file."""
    for source, reading in zip(sources, readings, strict=True):
        yield Input(
            path=source.name,
            rows=reading.rows,
            sha256=_hash_file(source.path, hash_all=hash_all),
            skipped=reading.skipped,
            nulled=reading.nulled,
            format=source.format.name if isinstance(source, Log) else None,
        )


def _hash_file(path: str | None, *, hash_all: bool) -> str | None:
    if path is None or not (hash_all or Path(path).stat().st_size <= HASHED_UP_TO):
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@declare_signature("score")
def score(
    data: Any, *, progress: Progress = ignore_progress, **options: Unpack[ScoreKeywords]
) -> Score:
    """Measure records: every metric that the data allows, or those of a profile, or those named.

    Args:
        data: A path, a glob, a folder of Parquet parts, several of these, a list of dicts, or a
            Polars, pandas, Arrow or Spark table.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md. What is given here takes precedence over the
            metric settings of a `policy`.

    Returns:
        The score: `score["accuracy"]` where there is one group, else `score.group(model="m0")`.

    Raises:
        TypeError: An argument is of another type, or is not known.
        CalipersError: An option makes no sense, or the data cannot be read.

    >>> measured = score([{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}])
    >>> measured["accuracy"].value
    0.5
    """
    asked = group_by_system(resolve_options("score", options, data, must_measure=True))
    measured = score_data(data, asked, progress)
    if asked.figures is None or not measured.records:
        return measured
    left_out = measured.save_figures(asked.figures, asked.profile)
    notices = (f"no figure {name}: {reason}" for name, reason in left_out.items())
    return replace(measured, notices=(*measured.notices, *notices))


@declare_signature("explain")
def explain(metric: str, data: Any, **options: Unpack[ExplainKeywords]) -> Explanation:
    """Explain how the value of a metric was computed.

    Args:
        metric: The metric's name.
        data: Records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        Formula, rows used and left out, and the most influential rows, for each group.

    >>> answers = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> explain("accuracy", answers).groups[0].work
    '1 / 2'
    """
    metrics = as_names("metric", metric, example='"accuracy"')
    asked = resolve_options("explain", options, data, metrics=metrics)
    from calipers.scores.explain import explain_data  # noqa: PLC0415 (only where asked for)

    return explain_data(data, asked)
