"""Notices about the data behind a score, its evidence, and the figures that logs state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Protocol

from calipers.engines.group_codes import OTHERS
from calipers.engines.group_totals import allow_unknown, list_blocks
from calipers.engines.outcome import TEXT, Outcome
from calipers.engines.totals import RECORDS, REPEATED, TRUNCATED_REPLIES
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.interval_methods import OfMean, read_clusters, read_skewness
from calipers.metrics.families.agents import note_composite
from calipers.metrics.families.cost import note_prices
from calipers.metrics.families.efficiency import note_quality
from calipers.metrics.families.judged import note_bad_scores, note_flags
from calipers.metrics.families.scenario_scores import WEIGHTED_BY
from calipers.metrics.families.scenarios import note_overruled
from calipers.metrics.families.text import note_similarity
from calipers.metrics.families.traces import note_messages, note_tools
from calipers.records.batch import Source, format_bad_rows, format_nulled
from calipers.records.column_hints import recognize_tool, suggest_maps
from calipers.records.completeness import explain_missing
from calipers.records.logs.log import Figure, Log, LogReader, log_notices, read_figures
from calipers.records.readers.joins import WideTable
from calipers.records.reading_options import get_reading_choices
from calipers.records.rows import list_names
from calipers.scores.options import Options
from calipers.scores.result import Group, Input, Measured, StatedFigure
from calipers.statistics.elementwise import is_anywhere, is_one, power
from calipers.support.errors import DataError, nearest
from calipers.support.lazy_numpy import np

Values = tuple[Any, ...]  # of the fields that records are grouped by
ByGroup = Mapping[Values, Mapping[str, Measured]]


class MeasureAlone(Protocol):
    """Measures some metrics of some sources alone, in the groups that these fields make."""

    def __call__(
        self,
        about: Sequence[Source],
        names: Sequence[str],
        by: tuple[str, ...] = (),
        setting: tuple[str, Any] | None = None,
    ) -> ByGroup:
        """Return the metrics of each group, by the values of its fields."""
        ...


_SHOWN = 3  # logs, each on a line
_FIGURES = 6  # of a log, those that differ first
_CLOSE = 1e-6  # relative; what is written in full differs by less


def add_stated(
    sources: Sequence[Source],
    inputs: Sequence[Input],
    names: Collection[str],
    ours: Mapping[tuple[str, ...], ByGroup],
    measure_alone: MeasureAlone,
) -> tuple[Input, ...]:
    """Return the inputs with the figures that their logs state, beside ours of these names.

    `ours` has our values by the fields that records are grouped by, where there is one log; what it
    has not is measured alone. A figure about all logs of a folder stands at the first of them.
    """
    places = [_find_place(source) for source in sources]
    stated: list[list[StatedFigure]] = [[] for _ in sources]
    noted: set[tuple[Path, str]] = set()
    for number, source in enumerate(sources):
        asked: dict[_About, list[tuple[Figure, str | None]]] = {}
        for figure in read_figures(source):
            if figure.folder is None or (figure.folder, figure.name) not in noted:
                about = figure.folder, tuple(name for name, _ in figure.by)
                asked.setdefault(about, []).append((figure, _choose_name(figure, names)))
        for (folder, by), figures in asked.items():
            inside = [] if folder is None else _list_inside(folder, sources, places)
            about_all = inside or [source]
            common = list(dict.fromkeys(name for _, name in figures if name is not None))
            found = ours.get(by) or (measure_alone(about_all, common, by) if common else {})
            for figure, name in figures:
                values = tuple(value for _, value in figure.by)
                measured = None if name is None else found.get(values, {}).get(name)
                compared = _compare(figure, name, measured)
                if figure.setting is not None and compared.equal is False and name is not None:
                    like = measure_alone(about_all, [name], by, figure.setting).get(values, {})
                    compared = _explain_setting(compared, figure.setting, like.get(name))
                stated[number].append(compared)
            noted |= {(folder, figure.name) for figure, _ in figures if folder is not None}
    for place, together in _list_together(sources):
        about_all = [source for source in sources if _find_format(source) == place.format]
        chosen = [(figure, _choose_name(figure, names)) for figure in together]
        common = list(dict.fromkeys(name for _, name in chosen if name is not None))
        is_all = len(about_all) == len(sources)
        found = (ours.get(()) if is_all else None) or (
            measure_alone(about_all, common) if common else {}
        )
        stated[sources.index(place.first)] += [
            _compare(
                figure,
                name,
                None if name is None else found.get((), {}).get(name),
                len(about_all),
            )
            for figure, name in chosen
        ]
    return tuple(
        replace(source, stated=tuple(figures))
        for source, figures in zip(inputs, stated, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Together:
    """The logs of one tool among some sources, and the first of them."""

    format: LogReader
    first: Source


def _find_format(source: Source) -> LogReader | None:
    log = getattr(source, "inner", source)
    return log.format if isinstance(log, Log) else None


def _list_together(sources: Sequence[Source]) -> Iterator[tuple[_Together, list[Figure]]]:
    """Yield the figures that all logs of a tool state together."""
    by_format: dict[LogReader, list[Source]] = {}
    for source in sources:
        if (of := _find_format(source)) is not None:
            by_format.setdefault(of, []).append(source)
    for of, same in by_format.items():
        paths = [path for path in map(_find_place, same) if path is not None]
        if figures := list(of.together(paths)):
            yield _Together(of, same[0]), figures


_About = tuple[Path | None, tuple[str, ...]]  # the folder and the fields that figures are about


def _explain_setting(
    stated: StatedFigure, setting: tuple[str, Any], like: Measured | None
) -> StatedFigure:
    """Return the figure with the setting that gives theirs, if it does."""
    if like is None or like.value is None or not _is_close(like.value, stated.value):
        return stated
    name, value = setting
    return replace(stated, reason=f"{stated.reason}; --set {name}={value} gives theirs")


def _find_place(source: Source) -> Path | None:
    log = getattr(source, "inner", source)  # of a joined one
    return Path(log.path).absolute() if isinstance(log, Log) and log.path is not None else None


def _list_inside(
    folder: Path, sources: Sequence[Source], places: Sequence[Path | None]
) -> list[Source]:
    return [
        source
        for source, place in zip(sources, places, strict=True)
        if place is not None and place.is_relative_to(folder)
    ]


def _choose_name(figure: Figure, measured: Collection[str]) -> str | None:
    """Return the name under which the metric was measured, if it was."""
    spellings = (spelling for name in figure.ours for spelling in (name, f"mean({name})"))
    return next((name for name in spellings if name in measured), None)


def _compare(
    figure: Figure, name: str | None, ours: Measured | None, logs: int = 1
) -> StatedFigure:
    stated = StatedFigure(
        name=figure.name,
        value=figure.value,
        n=figure.n,
        ours=name or next(iter(figure.ours), None),
        about=figure.ours,
        reason=figure.reason,
        leads=figure.leads,
        logs=logs,
    )
    if ours is None:
        return stated
    is_equal = ours.value is not None and _is_close(ours.value, figure.value)
    reason = figure.reason or _explain_counts(figure, ours)
    return replace(stated, measured=ours.value, equal=is_equal, reason="" if is_equal else reason)


def _is_close(ours: float, theirs: float) -> bool:
    return isclose(ours, theirs, rel_tol=_CLOSE, abs_tol=_CLOSE)


def _explain_counts(figure: Figure, ours: Measured) -> str:
    if figure.n is None or figure.n == ours.n:
        return ""
    return f"it is of {figure.n:,} samples, ours of {ours.n:,}"


def note_stated(inputs: Iterable[Input]) -> Iterator[str]:
    """Yield the figures that a log states otherwise than they are measured here."""
    differing: dict[tuple[str, str | None], list[str]] = {}
    for source in inputs:
        for figure in source.stated:
            if figure.equal is False and not (figure.leads and figure.measured is None):
                line = f"{_name_logs(source, figure)}: {describe_difference(figure)}"
                differing.setdefault((figure.name, figure.ours), []).append(line)
    for (name, ours), lines in differing.items():
        yield from lines[:_SHOWN]
        if (more := len(lines) - _SHOWN) > 0:
            logs = "another log states" if more == 1 else f"{more:,} other logs state"
            yield f"{logs} {name} otherwise than {ours} is here too"


def _name_logs(given: Input, figure: StatedFigure) -> str:
    return given.path if figure.logs == 1 else f"{figure.logs:,} logs of {given.format}"


def describe_leading(inputs: Sequence[Input]) -> Iterator[str]:
    """Yield the verdicts of tools on all of their logs, beside ours; they stand before ours."""
    for each in inputs:
        leading = [figure for figure in each.stated if figure.leads]
        if leading:
            many = leading[0].logs
            of = f"{many:,} logs of {each.format} state" if many > 1 else f"{each.format} states"
            yield f"{of} of themselves (ours in brackets): {', '.join(map(_show_beside, leading))}"


def _show_beside(figure: StatedFigure) -> str:
    ours = "" if figure.ours is None else f" ({figure.ours} {_show_ours(figure)})"
    return f"{figure.name} {figure.value:.4g}{ours}"


def _show_ours(figure: StatedFigure) -> str:
    return "without a value" if figure.measured is None else f"{figure.measured:.4g}"


def describe_difference(figure: StatedFigure) -> str:
    """Return how a log's own figure differs from ours, with the reason where it is known."""
    ours = "has no value" if figure.measured is None else f"is {figure.measured:.6g}"
    why = f": {figure.reason}" if figure.reason else ""
    who = "the log states" if figure.logs == 1 else "they state"
    return f"{who} {figure.name} {figure.value:.6g}, {figure.ours} {ours} here{why}"


def describe_stated(inputs: Sequence[Input]) -> Iterator[str]:
    """Yield the figures that logs state about the same things as ours, beside ours."""
    known = [
        (source, figures)
        for source in inputs
        if (figures := [f for f in source.stated if f.equal is not None and not f.leads])
    ]
    known.sort(key=lambda pair: all(figure.equal for figure in pair[1]))
    for source, figures in known[:_SHOWN]:
        differing_first = sorted(figures, key=lambda f: bool(f.equal))
        shown = map(_show_beside, differing_first[:_FIGURES])
        more = f" and {len(figures) - _FIGURES} more" if len(figures) > _FIGURES else ""
        yield f"{Path(source.path).name} states (ours in brackets): {', '.join(shown)}{more}"
    if others := [figures for _, figures in known[_SHOWN:]]:
        differing = sum(not figure.equal for figures in others for figure in figures)
        logs = "1 more log states" if len(others) == 1 else f"{len(others):,} more logs state"
        yield f"{logs} their own figures: {differing or 'none'} of them differ from ours"


_SHOWN_FILES = 3
_SHOWN_NAMES = 12  # of the data's fields
_LONGEST = 40  # characters of a name
_HALF = 0.5  # clusters worth less than this share of their number differ widely
_FEW_FOR_SKEWNESS = 25.0  # values for each squared skewness: with fewer, a few decide the mean
_BEYOND_CHANCE = 2 * 6**0.5  # two standard errors of the skewness of n normal values, times √n


def list_notices(sources: Sequence[Source], outcome: Outcome, options: Options) -> Iterator[str]:
    """Yield notices about the data; those of metrics come from their declarations."""
    yield from options.notices
    yield from log_notices(sources)
    for source, reading in zip(sources, outcome.readings, strict=True):
        lacking = explain_missing(Path(source.name), reading.rows + reading.skipped)
        yield from (f"{source.name}: {lack}" for lack in lacking)
    records = outcome.sum_groups(RECORDS)
    if records and "id" not in outcome.present:
        yield "no record has an id: rows are numbered, each a task of its own"
    if repeated := outcome.sum_groups(REPEATED):
        yield (
            f"{repeated} records repeat the id, model, tier and run of another; "
            f"they count as further runs{_name_files(sources)}"
        )
    if truncated := int(outcome.sum_groups(TRUNCATED_REPLIES)):
        replies = "reply was" if truncated == 1 else "replies were"
        yield (
            f"{truncated:,} {replies} truncated (finish_reason is length) and stay in the metrics: "
            "raise max_tokens to let them end"
        )
    if skipped := sum(reading.skipped for reading in outcome.readings):
        yield format_bad_rows(skipped)
    if nulled := sum(reading.nulled for reading in outcome.readings):
        yield format_nulled(nulled)
    groups = list_blocks(outcome.groups)
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
    yield from note_flags(groups)
    asked = options.profile == "agents" or "agent_composite" in options.metrics
    yield from note_composite(groups, options.settings, asked=asked)
    yield from note_similarity(groups, options.settings)


def _name_files(sources: Sequence[Source]) -> str:
    """Return the files that are read together, where there are several."""
    names = [source.name for source in sources if source.path is not None]
    if len(names) < 2:  # noqa: PLR2004
        return ""
    more = ", …" if len(names) > _SHOWN_FILES else ""
    return f" ({', '.join(names[:_SHOWN_FILES])}{more} together)"


def _note_hidden(sources: Sequence[Source], options: Options) -> Iterator[str]:
    """Yield the fields of the records that are not read since another is mapped to their name."""
    mapped = {name: theirs for name, theirs in options.map.items() if name != theirs}
    own = (source.inner if isinstance(source, WideTable) else source for source in sources)
    columns = set(_list_columns([*own])) if mapped else set()  # a wide table numbers its rows
    for name in sorted(columns & mapped.keys() - {*mapped.values()}):
        yield f"--map {name}={mapped[name]}: the records' own field {name} is not read"


def _note_unused_weights(outcome: Outcome, options: Options) -> Iterator[str]:
    """Yield weights for categories and capabilities that no record has."""
    weights = options.settings.case_weights
    if weights is None or not outcome.sum_groups(RECORDS):
        return
    for field, named in (("category", weights.by_category), ("capability", weights.by_capability)):
        fields_seen = set(outcome.tallies[WEIGHTED_BY[field].name][TEXT])
        for name in named if OTHERS not in fields_seen else ():
            if name not in fields_seen:
                fix = nearest(name, fields_seen) if fields_seen else f"no record has a {field}"
                yield f"weights.by_{field}: no record is of the {field} {name!r}; {fix}"


def _note_unhashed(options: Options) -> Iterator[str]:
    """Yield the calibrations that may have been made from the records being scored."""
    known = options.calibrations or options.licences
    if not known:
        return
    from calipers.scores.calibration import CALIBRATE  # noqa: PLC0415 (whoever knows one has it)

    for source in dict.fromkeys(
        counts.source for counts in known if counts.n and not counts.records
    ):
        yield (
            f"{source or 'the calibration'} has no hashes of its records, so that it is unknown "
            f"whether these are among them: make it again: {CALIBRATE}"
        )


def refuse_unmeasured(groups: Sequence[Group], sources: Sequence[Source]) -> None:
    """Raise DataError where records were read and no metric finds the fields it needs."""
    if not _is_unmeasured(groups):
        return
    columns = list(dict.fromkeys(name for source in sources for name in list_names(source)))
    logs = [source.format.name for source in sources if isinstance(source, Log)]
    tool = f"a log of {logs[0]}" if logs else recognize_tool(columns)
    maps = suggest_maps(columns)
    as_tool = f"; this looks like {tool}" if tool else ""
    if logs and get_reading_choices().source is not None:
        as_tool = f"; it was read as {tool}, as --source says"
    raise DataError(
        f"{', '.join(source.name for source in sources[:3])}{', …' if sources[3:] else ''}: "
        f"nothing can be measured, no metric finds its fields among "
        f"{_format_columns(columns)}{as_tool}",
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
    """Return True if there are records of calls that succeeded, and no metric has a value."""
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
    groups = list_blocks(outcome.groups)
    with allow_unknown(outcome.groups):
        notice = _describe_uneven(groups, metrics, cluster)
        heavy = [
            metric.name
            for metric in metrics
            if any(is_anywhere(_is_heavy(metric, totals)) for totals in groups)
        ]
    if notice:
        yield notice
    if heavy:
        yield (
            f"{', '.join(heavy)}: a few large values hold much of the sum; "
            "the interval may hold the true mean less often than it says"
        )


def _describe_uneven(
    groups: Sequence[Totals], metrics: Sequence[Metric], cluster: str | None
) -> str | None:
    """Return a description of the group with the lowest effective number of clusters, or None."""
    names = [
        metric.influence.name for metric in metrics if metric.influence and not metric.influence.per
    ]
    found = (_find_most_uneven(totals, name) for totals in groups for name in names)
    uneven = [each for each in found if each is not None]
    if not uneven:
        return None
    count, worth = min(uneven, key=lambda each: each[1] / each[0])
    what, rows = ("tasks", "runs") if cluster is None else (f"values of {cluster}", "rows")
    return (
        f"the numbers of {rows} differ widely: {count:,} {what} tell as much as "
        f"{worth:.1f} with as many {rows} each would"
    )


def _find_most_uneven(totals: Totals, name: str) -> tuple[int, float] | None:
    """Return how many clusters the most uneven group has, and what they are worth; or None."""
    sizes = read_clusters(name, totals)
    is_uneven = (sizes.count > 1) & (sizes.worth < _HALF * sizes.count)
    if not is_anywhere(is_uneven):
        return None
    if is_one(sizes.count):
        return sizes.count, sizes.worth
    some = np.flatnonzero(is_uneven)
    place = int(some[np.argmin(sizes.worth[some] / sizes.count[some])])
    return int(sizes.count[place]), float(sizes.worth[place])


def _is_heavy(metric: Metric, totals: Totals) -> Any:
    """Return True if the values of an unbounded mean are so skewed that a few decide it.

    Cochran's rule: the mean of n values with skewness g is near enough to normal from 25 g² on. The
    skewness has to be more than chance shows in normal values. Of columns it is one, too.
    """
    interval = metric.interval
    if not isinstance(interval, OfMean) or all(map(isfinite, interval.ends)):
        return False
    worth = read_clusters(interval.spread, totals).worth
    skewness = read_skewness(interval.spread, totals)  # of the mean: g / √n
    is_far = _FEW_FOR_SKEWNESS * power(skewness, 2) > 1
    return is_far & (abs(skewness) * worth > _BEYOND_CHANCE)
