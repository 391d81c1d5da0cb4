"""From records, or a result folder, to a `Report`: measure, decide, rank, list the facts.

`ReportPage` collects what a report shows while records are read; a run that ends uses it on its
journal, `calipers report` on any records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.comparisons.comparison_options import RankOptions
from calipers.comparisons.rank import rank_systems
from calipers.comparisons.rank_result import MetricRanking, Ranking
from calipers.comparisons.ranked_systems import MAIN_METRICS, Systems
from calipers.engines.features import watch_groups
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.stored_metrics import restore_own
from calipers.records.fields import USUAL_GROUPS
from calipers.records.result_folder import (
    GATE,
    MANIFEST,
    RECORDS,
    SCORE,
    explain_incomplete,
    find_folder,
    get_suite_name,
    list_suite_parts,
    read_json_object,
)
from calipers.records.sinks import Watch, check_folder
from calipers.reports.data.report_data import NOT_RANKED, Report
from calipers.reports.data.samples import OUTCOMES, SampleTable
from calipers.reports.tables.gate_tables import put_blocking_first
from calipers.runs.run_options import ReportOptions
from calipers.scores.calibration import Calibration, read_calibration_files
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.scores.read_once import ReadRecords, read_once
from calipers.scores.resolve_options import declare_signature, resolve_options, split_own_options
from calipers.scores.result import Group, Score
from calipers.scores.score import Progress
from calipers.scores.task_values import settle_metric
from calipers.support.errors import CalipersError, UsageError
from calipers.support.options import ignore_progress
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.support.keywords import ReportKeywords

SYSTEM = ("model", "tier", "variant")  # what tells systems apart, where nothing else is asked for
_NAMED = 4  # models, or files, on a line
_IN_TITLE = 2  # models, or tasks, that a title names


def make_title(
    table: SampleTable, score: Score, manifest: Mapping[str, Any] | None, n_tasks: int
) -> str:
    """Return the name of the suite; without one, the systems and how many tasks they did."""
    if name := get_suite_name(manifest):
        return name
    models, tiers, _ = (table.list_values(field) for field in SYSTEM)
    systems = " and ".join(models) if len(models) <= _IN_TITLE else f"{len(models)} models"
    if len(tiers) > 1:
        systems = f"{len(tiers)} tiers of {systems}" if systems else f"{len(tiers)} tiers"
    counted, kind = (n_tasks, "task") if n_tasks else (score.records, "record")
    tasks = f"{counted:,} {kind}{'' if counted == 1 else 's'}"
    return f"{systems} on {tasks}" if systems else tasks


def list_report_facts(
    score: Score, table: SampleTable, manifest: Mapping[str, Any] | None, records: Any, n_tasks: int
) -> Iterator[tuple[str, str]]:
    """Yield what was measured, in pairs of a word and its value."""
    errors = sum(group.errors for group in score.groups)
    failed = f", {errors:,} of them failed calls" if errors else ""
    truncated = sum(group.truncated for group in score.groups)
    cut_off = f", {truncated:,} truncated replies" if truncated else ""
    yield "Records", f"{score.records:,}{failed}{cut_off}"
    if n_tasks:
        yield "Tasks", f"{n_tasks:,}"
    for field in SYSTEM:
        if values := table.list_values(field):
            counted = f"{len(values)}: " if len(values) > _NAMED else ""
            plural = "" if len(values) == 1 else "s"
            yield f"{field.capitalize()}{plural}", f"{counted}{_join_some(values)}"
    yield "Read from", _join_some([each.path for each in score.inputs])
    if (when := _find_time(records)) is not None:
        yield "Records written", when
    if manifest is not None:
        yield from _list_manifest_facts(manifest)
    yield "Measured with", f"Calipers {__version__}, seed {score.seed}"
    yield "Intervals", f"{100 * score.settings['confidence']:g} %"
    if prices := score.settings.get("prices"):
        yield "Prices", str(prices)


def _list_manifest_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts of the run's manifest, as far as it can be read."""
    if systems := list_suite_parts(manifest, "systems"):
        kinds = ("model", "python", "command", "http")
        called = [next((each[kind] for kind in kinds if each.get(kind)), "?") for each in systems]
        words = [" ".join(map(str, e)) if isinstance(e, list) else e for e in called]
        named = [f"{e.get('name')} ({what})" for e, what in zip(systems, words, strict=True)]
        yield "Systems", _join_some(named)
    answers = manifest.get("answers")
    if isinstance(answers, dict) and {"new", "reused"} <= answers.keys():
        yield "Answers", f"{answers['new']} new in the last run, {answers['reused']} reused"
    prices = manifest.get("prices")
    priced = prices.values() if isinstance(prices, dict) else ()
    sources = {str(e["source"]) for e in priced if isinstance(e, dict) and e.get("source")}
    if sources:
        yield "Prices of the run", _join_some(sorted(sources))


def _find_time(records: Any) -> str | None:
    """Return when the newest of the files was last written."""
    given = records if isinstance(records, list | tuple) else [records]
    paths = [Path(each) for each in given if isinstance(each, str | Path)]
    times = [path.stat().st_mtime for path in paths if path.is_file()]
    if not times:
        return None
    return datetime.fromtimestamp(max(times), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _join_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_TASK_FIELDS = ("category", "capability")  # what tells tasks apart
_FEWEST = 2
_MOST_RANKED = 100  # systems that a report ranks
_OF_PAIRS = ("pass_rate", "cost_usd", "latency_mean_ms", "total_tokens_mean")
_MOST_CELLS = 400  # of a breakdown
_BROKEN_DOWN = ("accuracy", "pass_rate", "agent_composite", "cost_usd", "latency_p95_ms")


def make_report(
    data: Any,
    asked: ReportOptions,
    options: Options,
    progress: Progress = lambda _: None,
    gate: GateResult | None = None,
) -> Report:
    """Return the report on the records in `data`, or in the result folder that it names.

    `gate` is a verdict on these records; without one, the policy or the folder gives it.
    """
    folder = find_folder(data)
    records = data if folder is None else str(folder / RECORDS)
    stored_score = None if folder is None else read_json_object(folder / SCORE)
    not_anew = [] if stored_score is None else restore_own(stored_score.get("own_metrics"))
    if folder is not None and asked.policy is None and not options.calibrations:
        options = replace(options, calibrations=_read_calibrations(stored_score or {}))
    if asked.sabotage and asked.policy is None:
        raise UsageError("--sabotage tries a policy", fix="name it: --policy FILE")
    page = ReportPage(asked, options)
    watches, question = [page.watch], None
    if asked.policy is not None:
        from calipers.gates.decide import ask_gate, decide  # noqa: PLC0415 (pydantic)
        from calipers.gates.gate_options import GateOptions  # noqa: PLC0415

        question = ask_gate(GateOptions(policy=asked.policy), options)
        fields = options.by or SYSTEM
        watches.append(watch_groups(question.table.watch, fields, options.cluster))
    questions = (*page.questions, *(() if question is None else (question.options,)))
    with read_once(
        records,
        questions,
        by=options.by or SYSTEM,
        by_if_few=USUAL_GROUPS,
        watches=watches,
        progress=progress,
    ) as read:
        if question is not None:
            question = replace(question, options=replace(question.options, by=page.by))
            read.measure([page.options, question.options])
            gate = decide(question, read.score(question.options))
            if asked.sabotage:
                from calipers.gates.sabotage.trials import try_sabotage  # noqa: PLC0415 (if asked)

                gate = try_sabotage(records, question, gate)
        elif gate is None and folder is not None and (stored := read_json_object(folder / GATE)):
            from calipers.gates.result import read_gate  # noqa: PLC0415 (only for a verdict)

            gate = read_gate(stored)
        report = page.make(read, records, folder, gate)
    return replace(report, notices=(*_note_missing_code(not_anew), *report.notices))


class ReportPage:
    """Collects what a report shows: observes records while they are read, then scores them."""

    def __init__(self, asked: ReportOptions, options: Options) -> None:
        self._asked = asked
        self._options = replace(options, for_report=True)
        self._table = SampleTable(asked.samples)

    @property
    def questions(self) -> tuple[Options, ...]:
        """The options that the records have to be read for, with all that may be grouped by."""
        grouped = replace(self._options, by=self._options.by or SYSTEM)
        outcomes = replace(self._options, metrics=OUTCOMES, for_report=False)
        return self._options, grouped, outcomes

    @property
    def watch(self) -> Watch:
        """What has to be seen of each row."""
        return self._table.watch

    @property
    def by(self) -> tuple[str, ...]:
        """The fields to group by: those asked for, or what tells several systems apart."""
        several = self._table.count_several()
        return self._options.by or tuple(name for name in SYSTEM if name in several)

    @property
    def options(self) -> Options:
        """The options of the score that the page shows, once the records are read."""
        return replace(self._options, by=self.by)

    def make(
        self, read: ReadRecords, records: Any, folder: Path | None, gate: GateResult | None
    ) -> Report:
        """Return the report on records that were read, with this verdict if it is theirs."""
        manifest = None if folder is None else read_json_object(folder / MANIFEST)
        options = self.options
        score = read.score(options)
        errors = sum(group.errors for group in score.groups)
        stale = tuple(_note_stale(gate, score.records, errors))
        gate = None if stale else gate
        lacks = None
        if gate is None and manifest is not None:
            lacks = explain_incomplete(manifest, score.records, errors)
        n_tasks = read.count_tasks()
        ranking, said = _rank_groups(read, score, options, n_tasks, gate)
        pair = None if ranking is None else _compare_two(read, score, options, ranking)
        return Report(
            title=self._asked.title or make_title(self._table, score, manifest, n_tasks),
            facts=dict(list_report_facts(score, self._table, manifest, records, n_tasks)),
            score=score,
            gate=gate,
            incomplete=lacks,
            ranking=ranking,
            pair=pair,
            breakdowns=dict(_list_breakdowns(read, score, self._table.count_several(), options)),
            tasks=self._table.list_hardest(self.by),
            n_tasks=n_tasks,
            answers=self._table.list_answers(self.by),
            failures=tuple(self._table.list_failures()),
            samples=self._table.choose_samples(),
            kinds=self._table.count_kinds(),
            notices=(*stale, *score.notices, *said),
        )


def _rank_groups(
    read: ReadRecords, score: Score, options: Options, n_tasks: int, gate: GateResult | None
) -> tuple[Ranking | None, tuple[str, ...]]:
    """Return the groups of a score, ranked, and what to say of it; None if nothing can be ranked.

    That is so for fewer than two groups and for more than 100, for records without ids, where less
    than half of the tasks are common to all, and with no main metric that is a mean over tasks.
    """
    if not _FEWEST <= len(score.groups) <= _MOST_RANKED:
        return None, ()
    main = put_blocking_first(MAIN_METRICS, gate)
    name = next((each for each in main if _has_several(score, each)), None)
    if name is None or metric_named(name).averaged is None:
        return None, ()
    metric = metric_named(name)
    rows = read.task_rows(metric, options)
    if rows is None:
        return None, (f"{NOT_RANKED}: not every record has an id",)
    keys = sort_keys(rows.rows[GROUP].unique(), options.by)
    systems = Systems(rows=rows, by=options.by, keys=keys)
    settled = [settle_metric(metric, [rows])]
    try:
        ranking = rank_systems(systems, settled, replace(options, notices=()), RankOptions())
    except UsageError as error:
        return None, (f"{NOT_RANKED}: {error.message}",)
    common = ranking.metrics[0].n_tasks
    if common < _FEWEST or 2 * common < n_tasks:
        few = f"all of them have only {common:,} of {n_tasks:,} tasks (calipers rank)"
        return None, (f"{NOT_RANKED}: {few}",)
    return ranking, ranking.notices


def _compare_two(
    read: ReadRecords, score: Score, options: Options, ranking: Ranking
) -> Ranking | None:
    """Return two systems compared by cost, time and the like, task by task; None for more."""
    if len(score.groups) != _FEWEST:
        return None
    found: list[MetricRanking] = []
    for name in _OF_PAIRS:
        if not _has_several(score, name) or metric_named(name).averaged is None:
            continue
        rows = read.task_rows(metric_named(name), options)
        if rows is None:
            continue
        keys = sort_keys(rows.rows[GROUP].unique(), options.by)
        systems = Systems(rows=rows, by=options.by, keys=keys)
        settled = [settle_metric(metric_named(name), [rows])]
        with suppress(UsageError):
            made = rank_systems(systems, settled, replace(options, notices=()), RankOptions())
            found += made.metrics
    return replace(ranking, metrics=tuple(found)) if found else None


def _has_several(score: Score, name: str) -> bool:
    found = [group.metrics.get(name) for group in score.groups]
    return sum(each is not None and each.value is not None for each in found) >= _FEWEST


def _note_missing_code(names: Sequence[str]) -> Iterator[str]:
    """Say which metrics of the folder's score are not in the report."""
    if names:
        yield (
            f"{', '.join(names)}: measured by code of your own, which a report does not run; "
            "name its file: --plugin FILE.py"
        )


def _note_stale(gate: GateResult | None, records: int, errors: int) -> Iterator[str]:
    """Yield that a stored verdict is about other records than these, and is not shown."""
    if gate is not None and (gate.records, gate.errors) != (records, errors):
        yield (
            f"{GATE} was decided on {gate.records:,} records, {gate.errors:,} of them failed; now "
            f"there are {records:,} and {errors:,}: run calipers run or calipers gate again"
        )


def _read_calibrations(score: Mapping[str, Any]) -> tuple[Calibration, ...]:
    """Return the calibrations that the run was corrected by, if all their files exist."""
    settings = score.get("settings")
    files = settings.get("calibrations") if isinstance(settings, dict) else None
    paths = [Path(str(each)) for each in files] if isinstance(files, list) else []
    try:
        return read_calibration_files(paths) if all(path.is_file() for path in paths) else ()
    except (CalipersError, OSError, ValueError):
        return ()


def _list_breakdowns(
    read: ReadRecords, score: Score, several: Mapping[str, int], options: Options
) -> Iterator[tuple[str, Score]]:
    """Yield the few most important metrics, by each field that takes several values."""
    names = [
        name for name in _BROKEN_DOWN if any(_has_value(group, name) for group in score.groups)
    ]
    for field in (*_TASK_FIELDS, *SYSTEM) if names else ():
        if field in several and field not in options.by:
            few = several[field] * len(score.groups) <= _MOST_CELLS
            by = (field, *(options.by if few else ()))
            asked = replace(options, by=by, metrics=tuple(names), for_report=False)
            yield field, read.score(asked)


def _has_value(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None and isfinite(found.value)


@declare_signature("report", ReportOptions)
def report(
    data: Any,
    output: str | Path | None = None,
    *,
    progress: Progress = ignore_progress,
    **options: Unpack[ReportKeywords],
) -> Report:
    """Show records, or a result folder, on one page: verdict, metrics, figures, failures, samples.

    Args:
        data: Records, as `score` takes them, or the result folder of a run.
        output: A file for the page, HTML or, if it ends in .md, Markdown.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md.

    Returns:
        The score, the verdict, what failed, and samples to read.

    >>> told = report([{"id": "a", "answer": "4", "target": "5"}])
    >>> told.failures[0].what, told.failures[0].ids
    ('wrong', ('a',))
    """
    asked, others = split_own_options("report", ReportOptions, options)
    chosen = resolve_options("report", others, data, policy=asked.policy)
    if asked.bundle is not None:
        check_folder(asked.bundle, "--bundle")
    made = make_report(data, asked, replace(chosen, figures=None), progress)
    if chosen.figures is not None:
        made.save_figures(chosen.figures)
    if asked.bundle is not None:
        made.save_bundle(asked.bundle)
    if output is not None:
        made.save(output)
    return made
