"""From data, or a result folder, to a report: measure, decide, collect failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.comparisons.options.rank import RankOptions
from calipers.comparisons.ranked_systems import MAIN_METRICS, Systems
from calipers.comparisons.ranking import rank_systems
from calipers.comparisons.rankings import Ranking
from calipers.engines.watching import watch_groups
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.stored import restore_own
from calipers.records.result_folder import (
    GATE,
    MANIFEST,
    RECORDS,
    SCORE,
    explain_incomplete,
    find_folder,
    read_stored,
)
from calipers.records.sinks import Watch
from calipers.runs.options import ReportOptions
from calipers.runs.report_data import NOT_RANKED, Report
from calipers.runs.report_facts import SYSTEM, list_facts, make_title
from calipers.runs.samples import FIELDS, OUTCOMES, SampleTable
from calipers.scores.calibration import Calibration, read_all
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.scores.read_once import ReadRecords, read_once
from calipers.scores.results import Group, Score
from calipers.scores.score import Progress
from calipers.scores.tasks import settle_metric
from calipers.support.errors import CalipersError, UsageError

if TYPE_CHECKING:
    from calipers.gates.result import GateResult

_PARTS = ("category", "capability")  # what tells tasks apart
_FEWEST = 2
_MOST_RANKED = 100  # systems that a report ranks
_MOST_CELLS = 400  # of a breakdown
_BROKEN_DOWN = ("accuracy", "pass_rate", "agent_composite", "cost_usd", "latency_p95_ms")


def report_data(
    data: Any, asked: ReportOptions, options: Options, progress: Progress = lambda _: None
) -> Report:
    """Return the report on the records in `data`, or in the result folder that it names."""
    folder = find_folder(data)
    records = data if folder is None else str(folder / RECORDS)
    stored_score = None if folder is None else read_stored(folder / SCORE)
    not_anew = [] if stored_score is None else restore_own(stored_score.get("own_metrics"))
    if folder is not None and asked.policy is None and not options.calibrations:
        options = replace(options, calibrations=_read_calibrations(stored_score or {}))
    page = ReportPage(asked, options)
    watches, question = [page.watch], None
    if asked.policy is not None:
        from calipers.gates.decide import ask_gate, decide  # noqa: PLC0415 (pydantic)
        from calipers.gates.options import GateOptions  # noqa: PLC0415

        question = ask_gate(GateOptions(policy=asked.policy), options)
        fields = options.by or SYSTEM
        watches.append(watch_groups(question.table.watch, fields, options.cluster))
    questions = (*page.questions, *(() if question is None else (question.options,)))
    with read_once(
        records,
        questions,
        by=options.by or SYSTEM,
        by_if_few=FIELDS,
        watches=watches,
        progress=progress,
    ) as read:
        gate = None
        if question is not None:
            question = replace(question, options=replace(question.options, by=page.by))
            read.measure([page.options, question.options])
            gate = decide(question, read.score(question.options))
        elif folder is not None and (stored := read_stored(folder / GATE)):
            from calipers.gates.reading import read_gate  # noqa: PLC0415 (only for a verdict)

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
        manifest = None if folder is None else read_stored(folder / MANIFEST)
        options = self.options
        score = read.score(options)
        errors = sum(group.errors for group in score.groups)
        stale = tuple(_note_stale(gate, score.records, errors))
        gate = None if stale else gate
        lacks = None
        if gate is None and manifest is not None:
            lacks = explain_incomplete(manifest, score.records, errors)
        n_tasks = read.count_tasks()
        ranking, said = _rank_groups(read, score, options, n_tasks)
        return Report(
            title=self._asked.title or make_title(self._table, score, manifest, n_tasks),
            facts=dict(list_facts(score, self._table, manifest, records, n_tasks)),
            score=score,
            gate=gate,
            incomplete=lacks,
            ranking=ranking,
            breakdowns=dict(_list_breakdowns(read, score, self._table.count_several(), options)),
            tasks=self._table.list_hardest(self.by),
            n_tasks=n_tasks,
            failures=tuple(self._table.list_failures()),
            samples=self._table.choose_samples(),
            kinds=self._table.count_kinds(),
            notices=(*stale, *score.notices, *said),
        )


def _rank_groups(
    read: ReadRecords, score: Score, options: Options, n_tasks: int
) -> tuple[Ranking | None, tuple[str, ...]]:
    """Return the groups of a score, ranked, and what to say of it; None if nothing can be ranked.

    That is so for fewer than two groups and for more than 100, for records without ids, where less
    than half of the tasks are common to all, and with no main metric that is a mean over tasks.
    """
    if not _FEWEST <= len(score.groups) <= _MOST_RANKED:
        return None, ()
    name = next((each for each in MAIN_METRICS if _has_several(score, each)), None)
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
        return read_all(paths) if all(path.is_file() for path in paths) else ()
    except (CalipersError, OSError, ValueError):
        return ()


def _list_breakdowns(
    read: ReadRecords, score: Score, several: Mapping[str, int], options: Options
) -> Iterator[tuple[str, Score]]:
    """Yield the few most important metrics, by each field that takes several values."""
    names = [
        name for name in _BROKEN_DOWN if any(_has_value(group, name) for group in score.groups)
    ]
    for field in (*_PARTS, *SYSTEM) if names else ():
        if field in several and field not in options.by:
            few = several[field] * len(score.groups) <= _MOST_CELLS
            by = (field, *(options.by if few else ()))
            asked = replace(options, by=by, metrics=tuple(names), for_report=False)
            yield field, read.score(asked)


def _has_value(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None and isfinite(found.value)
