"""Metrics of the data's own fields: scores and named confidences, and the errors about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from calipers.metrics.calibration.stated import Stated
from calipers.metrics.declare.declaration import Metric
from calipers.metrics.lookup import OF_CONFIDENCE
from calipers.metrics.own.statistics import parse_metric
from calipers.records.fields import FIELDS, PROB_CORRECT, Kind
from calipers.records.kinds import list_confidences, list_kinds
from calipers.records.sources import Source
from calipers.support.errors import UsageError, nearest

_SCORE = "score_"
_MOST_SCORES = 100


def find_scores(sources: Sequence[Source]) -> list[Metric]:
    """Return a metric for each numeric score of a log, under the score's name."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for name, kinds in list_kinds(source).items():
            if name.startswith(_SCORE) and name.isprintable():
                found.setdefault(name, set()).update(kinds)
    numeric = [name for name, kinds in found.items() if kinds and "text" not in kinds]
    metrics = map(parse_metric, sorted(numeric)[:_MOST_SCORES])
    return [metric for metric in metrics if metric is not None]


def find_confidences(
    sources: Sequence[Source], field_map: Mapping[str, str], profile: str | None
) -> list[Metric]:
    """Return the profile's metrics of each stated confidence that has a name in the records."""
    names = sorted({name for each in sources for name in list_confidences(each, field_map)})
    metrics = [
        declare(Stated(name)) for name in names[:_MOST_SCORES] for declare in OF_CONFIDENCE.values()
    ]
    return [metric for metric in metrics if profile is None or profile in metric.profiles]


def list_whole_fields(
    metrics: Sequence[Metric], sources: Sequence[Source], field_map: Mapping[str, str]
) -> tuple[str, ...]:
    """Return all fields of the records if a metric is a function of them; else none."""
    if not any(each.of_record for metric in metrics for each in metric.features):
        return ()
    from calipers.records.convert import list_fields, look_through  # noqa: PLC0415

    known = look_through(list(sources))
    return tuple(dict.fromkeys(name for each in known for name in list_fields(each, field_map)))


def refuse_texts(
    metrics: Sequence[Metric], sources: Sequence[Source], field_map: Mapping[str, str]
) -> None:
    """Raise UsageError where a field to be measured holds text in every source that has it."""
    known = [list_kinds(source) for source in sources]
    for metric, field in _list_measured(metrics):
        theirs = field_map.get(field, field)
        held = [kinds for fields in known if (kinds := fields.get(theirs))]
        if held and all(kinds == {"text"} for kinds in held):
            raise UsageError(
                f"{metric.name}: {theirs} holds text, not numbers",
                fix=nearest(theirs, _find_numeric(sources) - {theirs}),
            )


def refuse_unnamed(
    metrics: Sequence[Metric], sources: Sequence[Source], field_map: Mapping[str, str]
) -> None:
    """Raise UsageError where a metric of the one confidence is asked for, and all have names."""
    theirs = field_map.get(PROB_CORRECT, PROB_CORRECT)
    names = {name for each in sources for name in list_confidences(each, field_map)}
    if not names or any(list_kinds(source).get(theirs) for source in sources):
        return
    for metric in metrics:
        if PROB_CORRECT in metric.needs:
            raise UsageError(
                f"{metric.name}: {theirs} holds confidences with names",
                fix=", ".join(f"{metric.name}({name})" for name in sorted(names)),
            )


def refuse_absent(
    metrics: Sequence[Metric],
    present: Collection[str],
    sources: Sequence[Source],
    field_map: Mapping[str, str],
) -> None:
    """Raise UsageError where no record has a value in a field that was asked for by name."""
    for metric, field in _list_measured(metrics):
        if field not in present:
            theirs = field_map.get(field, field)
            raise UsageError(
                f"{metric.name}: no record has a value in {theirs}",
                fix=nearest(theirs, _find_numeric(sources)),
            )


def _list_measured(metrics: Sequence[Metric]) -> list[tuple[Metric, str]]:
    return [
        (metric, field)
        for metric in metrics
        for feature in metric.features
        for field in feature.numbers
    ]


def _find_numeric(sources: Sequence[Source]) -> set[str]:
    """Return the fields that can be measured: numbers, or true and false."""
    return {
        name
        for source in sources
        for name, kinds in list_kinds(source).items()
        if "text" not in kinds
        and (name not in FIELDS or FIELDS[name].kind in (Kind.NUMBER, Kind.BOOLEAN, Kind.SCALAR))
    }
