"""The systems of a report ranked by their main metric, from records that were read already."""

from __future__ import annotations

from dataclasses import replace

from calipers.comparisons.options.rank import RankOptions
from calipers.comparisons.ranked_systems import MAIN_METRICS, Systems
from calipers.comparisons.ranking import rank_systems
from calipers.comparisons.rankings import Ranking
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import GROUP
from calipers.runs.report_data import NOT_RANKED
from calipers.scores.keys import sort_keys
from calipers.scores.options import Options
from calipers.scores.read_once import ReadRecords
from calipers.scores.results import Score
from calipers.scores.tasks import settle_metric
from calipers.support.errors import UsageError

_FEWEST = 2
_MOST = 100  # systems that a report ranks


def rank_groups(
    read: ReadRecords, score: Score, options: Options, n_tasks: int
) -> tuple[Ranking | None, tuple[str, ...]]:
    """Return the groups of a score, ranked, and what to say of it; None if nothing can be ranked.

    That is so for fewer than two groups and for more than 100, for records without ids, where less
    than half of the tasks are common to all, and with no main metric that is a mean over tasks.
    """
    if not _FEWEST <= len(score.groups) <= _MOST:
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
