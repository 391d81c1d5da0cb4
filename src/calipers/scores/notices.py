"""Notices about the data behind a score, and about the evidence behind its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, sqrt
from pathlib import Path

from calipers.engines.codes import OTHERS
from calipers.engines.outcome import TEXT, Outcome
from calipers.engines.totals import RECORDS, REPEATED, TRUNCATED_REPLIES
from calipers.metrics import Metric
from calipers.metrics.agents.composite import note_composite
from calipers.metrics.cost.cost import note_prices
from calipers.metrics.cost.token_efficiency import note_quality
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.intervals import read_clusters
from calipers.metrics.judged.judgments import flag_notice
from calipers.metrics.judged.rubrics import note_bad_scores
from calipers.metrics.scenarios.passing import note_overruled
from calipers.metrics.scenarios.weighted import WEIGHTED_BY
from calipers.metrics.text.similarity import note_similarity
from calipers.metrics.traces.coordination import note_messages
from calipers.metrics.traces.tool_use import note_tools
from calipers.records.batch import note_bad_rows
from calipers.records.foreign import recognize_tool, suggest_maps
from calipers.records.logs import Log, log_notices
from calipers.records.reading import get_reading
from calipers.records.sources import Source
from calipers.records.unfinished import explain_unfinished
from calipers.scores.options import Options
from calipers.scores.results import Group
from calipers.support.errors import DataError, nearest

_SHOWN_NAMES = 12  # of the data's fields
_LONGEST = 40  # characters of a name
_HALF = 0.5  # clusters worth less than this share of their number differ widely
_LONG_TAIL = 2.0  # standard deviations per mean: a few values decide it
_ENOUGH = 100.0  # rows for each squared standard deviation per mean, from which on they do not


def list_notices(sources: Sequence[Source], outcome: Outcome, options: Options) -> Iterator[str]:
    """Yield notices about the data; those of metrics come from their declarations."""
    yield from options.notices
    yield from log_notices(sources)
    for source, reading in zip(sources, outcome.readings, strict=True):
        lacking = explain_unfinished(Path(source.name), reading.rows + reading.skipped)
        yield from (f"{source.name}: {lack}" for lack in lacking)
    records = outcome.sum_groups(RECORDS)
    if records and "id" not in outcome.present:
        yield "no record has an id: rows are numbered, each a task of its own"
    if repeated := outcome.sum_groups(REPEATED):
        yield (
            f"{repeated} records repeat the id, model, tier and run of another; "
            "they count as further runs"
        )
    if truncated := int(outcome.sum_groups(TRUNCATED_REPLIES)):
        replies = "reply was" if truncated == 1 else "replies were"
        yield (
            f"{truncated:,} {replies} truncated (finish_reason is length) and stay in the metrics: "
            "raise max_tokens to let them end"
        )
    if skipped := sum(reading.skipped for reading in outcome.readings):
        yield note_bad_rows(skipped)
    groups = outcome.groups.values()
    yield from _note_hidden(sources, options)
    yield from _note_not_resampled(outcome)
    yield from note_prices(groups, options.settings)
    if "token_efficiency" in options.metrics or options.profile:
        yield from note_quality(groups)
    yield from note_tools(groups, options.settings)
    yield from note_messages(groups)
    yield from _note_unused_weights(outcome, options)
    yield from _note_unhashed(options)
    yield from note_overruled(groups)
    yield from note_bad_scores(groups)
    yield from flag_notice(groups)
    yield from note_composite(groups, options.settings)
    yield from note_similarity(groups, options.settings)


def _note_hidden(sources: Sequence[Source], options: Options) -> Iterator[str]:
    """Yield the fields of the records that are not read since another is mapped to their name."""
    mapped = {name: theirs for name, theirs in options.map.items() if name != theirs}
    columns = set(_list_columns(sources)) if mapped else set()
    for name in sorted(columns & mapped.keys() - {*mapped.values()}):
        yield f"--map {name}={mapped[name]}: the records' own field {name} is not read"


def _note_unused_weights(outcome: Outcome, options: Options) -> Iterator[str]:
    """Yield weights for categories and capabilities that no record has."""
    weights = options.settings.case_weights
    if weights is None or not outcome.sum_groups(RECORDS):
        return
    for field, named in (("category", weights.by_category), ("capability", weights.by_capability)):
        found = set(outcome.tallies[WEIGHTED_BY[field].name][TEXT])
        for name in named if OTHERS not in found else ():
            if name not in found:
                fix = nearest(name, found) if found else f"no record has a {field}"
                yield f"weights.by_{field}: no record is of the {field} {name!r}; {fix}"


def _note_unhashed(options: Options) -> Iterator[str]:
    """Yield the calibrations that may have been made from the records being scored."""
    known = options.calibrations or options.licences
    if not known:
        return
    from calipers.scores.calibration import CALIBRATE  # noqa: PLC0415 (whoever knows one has it)

    for source in dict.fromkeys(each.source for each in known if each.n and not each.records):
        yield (
            f"{source or 'the calibration'} has no hashes of its records, so that it is unknown "
            f"whether these are among them: make it again: {CALIBRATE}"
        )


def refuse_unmeasured(groups: Sequence[Group], sources: Sequence[Source]) -> None:
    """Raise DataError where records were read and no metric finds the fields it needs."""
    if not _is_unmeasured(groups):
        return
    columns = _list_columns(sources)
    logs = [source.format.name for source in sources if isinstance(source, Log)]
    tool = f"a log of {logs[0]}" if logs else recognize_tool(columns)
    maps = suggest_maps(columns)
    told = f"; this looks like {tool}" if tool else ""
    if logs and get_reading().source is not None:
        told = f"; it was read as {tool}, as --source says"
    raise DataError(
        f"{', '.join(source.name for source in sources[:3])}{', …' if sources[3:] else ''}: "
        f"nothing can be measured, no metric finds its fields among "
        f"{_format_columns(columns)}{told}",
        fix=f"say which fields are the record's: {' '.join(maps) or '--map FIELD=NAME'}; "
        "calipers metrics says what each metric needs",
    )


def _note_not_resampled(outcome: Outcome) -> Iterator[str]:
    """Yield whose intervals are closed forms although resampling was asked for, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in outcome.refused.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield f"--resamples: closed-form interval of {', '.join(names)} in some groups: {why}"


def explain_empty(groups: Sequence[Group], sources: Sequence[Source]) -> Iterator[str]:
    """Yield why a table is empty: mostly fields under the user's own names."""
    if _is_unmeasured(groups):
        yield (
            f"no metric finds the fields it needs among {_format_columns(_list_columns(sources))}: "
            "name them with --map FIELD=NAME; calipers metrics says what each needs"
        )


def _is_unmeasured(groups: Sequence[Group]) -> bool:
    """Say whether there are records of calls that succeeded, and no metric has a value."""
    return not any(g.metrics for g in groups) and any(g.records > g.errors for g in groups)


def _list_columns(sources: Sequence[Source]) -> list[str]:
    return list(dict.fromkeys(column for source in sources for column in source.columns()))


def _format_columns(columns: Sequence[str]) -> str:
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in columns]
    more = f", … ({len(names)} fields)" if len(names) > _SHOWN_NAMES else ""
    return f"{', '.join(names[:_SHOWN_NAMES])}{more}" if names else "none"


def note_row_weights(metrics: Sequence[Metric]) -> Iterator[str]:
    """Say which metrics count every row alike although tasks are weighed: no means of rows."""
    names = [metric.name for metric in metrics if metric.used is None]
    if names:
        yield (
            f"--weight task: {', '.join(names)}: no mean of rows, so a task counts by its rows here"
        )


def note_evidence(
    outcome: Outcome, metrics: Sequence[Metric], cluster: str | None
) -> Iterator[str]:
    """Yield where clusters differ widely in size, and where few values decide a mean."""
    groups = list(outcome.groups.values())
    if said := _describe_uneven(groups, metrics, cluster):
        yield said
    heavy = [each.name for each in metrics if any(_is_heavy(each, totals) for totals in groups)]
    if heavy:
        yield (
            f"{', '.join(heavy)}: a few large values hold much of the sum; "
            "the interval may hold the true mean less often than it says"
        )


def _describe_uneven(
    groups: Sequence[Totals], metrics: Sequence[Metric], cluster: str | None
) -> str | None:
    """Return a description of the group with the lowest effective number of clusters, or None."""
    names = [each.influence.name for each in metrics if each.influence and not each.influence.per]
    found = (read_clusters(name, totals) for totals in groups for name in names)
    uneven = [each for each in found if each.count > 1 and each.worth < _HALF * each.count]
    if not uneven:
        return None
    worst = min(uneven, key=lambda each: each.worth / each.count)
    what, rows = ("tasks", "runs") if cluster is None else (f"values of {cluster}", "rows")
    return (
        f"the numbers of {rows} differ widely: {worst.count:,} {what} tell as much as "
        f"{worst.worth:.1f} with as many {rows} each would"
    )


def _is_heavy(metric: Metric, totals: Totals) -> bool:
    """Say whether the values of an unbounded mean vary so much that a few decide it."""
    influence = metric.influence
    if influence is None or influence.feature is None or isfinite(metric.range[1]):
        return False
    n = totals.get(influence.rows, 0)
    mean = influence.centre(totals) if n > 1 else 0.0
    if mean <= 0:
        return False
    spread = sqrt(influence.squares(totals) / (n - 1)) / mean  # a mean's square may be no double
    return isfinite(spread) and spread > _LONG_TAIL and n < _ENOUGH * spread * spread
