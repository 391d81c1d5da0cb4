"""What is measured: metrics, the user's own fields, the success threshold.

The threshold of task success is a number, or "as similar as two people are": `FILE:Q` reads pairs
of texts that people wrote about the same thing and takes the Q-quantile of their output similarity,
measured as the answers will be: same model, same rule for missing parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import polars as pl

from calipers.engines.per_task import same_input
from calipers.engines.plan import Plan
from calipers.engines.read_rows import measure_batches
from calipers.metrics import metric_named, metrics_of
from calipers.metrics.declare.declaration import Feature, Metric
from calipers.metrics.families.answers import check_extraction
from calipers.metrics.families.calibration import StatedConfidence, declare_bin
from calipers.metrics.families.cost import DESCRIBED, MEDIANS, TIER, composite_score
from calipers.metrics.families.efficiency import latency_ms, total_tokens
from calipers.metrics.families.judged import declare_criterion, label_criterion, list_criteria
from calipers.metrics.families.reasoning import check_shape, cot_tokens
from calipers.metrics.families.scenario_scores import WEIGHTED_BY
from calipers.metrics.families.text import forget_failures, output_similarity, semantic_reason
from calipers.metrics.lookup import OF_CONFIDENCE
from calipers.metrics.provenance import WORDS, declare_judged_by
from calipers.metrics.text_counts import check_tokenizer
from calipers.metrics.user_defined import parse_metric
from calipers.records.batch import Source, Wanted
from calipers.records.fields import FIELDS, PROB_CORRECT, REPORTED, Kind
from calipers.records.reading_options import read_with
from calipers.records.rows import list_confidences, list_field_kinds
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.support.errors import DataError, UsageError, nearest, quote_name
from calipers.support.field_paths import split_root

_SCORE = "score_"
_MOST_SCORES = 100
_JUDGMENTS = "judgments"
_FIRST = 200  # records of a table that are looked at


def find_scores(sources: Sequence[Source]) -> list[Metric]:
    """Return a metric for each numeric score of a log, under the score's name."""
    kinds_by_name: dict[str, set[str]] = {}
    for source in sources:
        for name, kinds in list_field_kinds(source).items():
            if name.startswith(_SCORE) and name.isprintable():
                kinds_by_name.setdefault(name, set()).update(kinds)
    numeric = [name for name, kinds in kinds_by_name.items() if kinds and "text" not in kinds]
    metrics = map(parse_metric, sorted(numeric)[:_MOST_SCORES])
    return [metric for metric in metrics if metric is not None]


def find_confidences(
    sources: Sequence[Source], field_map: Mapping[str, str], profile: str | None
) -> list[Metric]:
    """Return the profile's metrics of each stated confidence that has a name in the records."""
    names = sorted({name for source in sources for name in list_confidences(source, field_map)})
    metrics = [
        declare(StatedConfidence(name))
        for name in names[:_MOST_SCORES]
        for declare in OF_CONFIDENCE.values()
    ]
    return [metric for metric in metrics if profile is None or profile in metric.profiles]


def find_criteria(sources: Sequence[Source], field_map: Mapping[str, str]) -> list[Metric]:
    """Return a metric for each criterion that judges gave numbers for, by the first records."""
    field = field_map.get(_JUDGMENTS, _JUDGMENTS)
    found: dict[str, None] = {}
    for source in sources:
        if hasattr(source, "criteria"):  # an index knows them
            found |= dict.fromkeys(source.criteria)
        elif field in source.columns():
            found |= dict.fromkeys(list_criteria(_peek(source, field)))
    return list(map(declare_criterion, list(found)[:_MOST_SCORES]))


def _peek(source: Source, field: str) -> list[Any]:
    """Return a field of the first records."""
    if hasattr(source, "read_first_rows"):
        return [row.get(field) for row in source.read_first_rows()]
    if hasattr(source, "frames"):
        frame, _ = next(source.frames(_FIRST), (pl.DataFrame({field: []}), 1.0))
        return frame[field].to_list()
    return []


def find_asked(
    names: Sequence[str], sources: Sequence[Source], field_map: Mapping[str, str]
) -> list[Metric]:
    """Return the metrics of these names; a criterion of the judges may be named by itself."""
    criteria: dict[str, Metric] | None = None
    found: list[Metric] = []
    for name in names:
        try:
            found.append(metric_named(name))
        except UsageError:
            if criteria is None:
                known = find_criteria(sources, field_map)
                criteria = {each.name: each for each in known}
            if label_criterion(name) not in criteria:
                raise
            found.append(criteria[label_criterion(name)])
    return found


def list_whole_fields(
    metrics: Sequence[Metric], sources: Sequence[Source], field_map: Mapping[str, str]
) -> tuple[str, ...]:
    """Return all fields of the records if a metric is a function of them; else none."""
    if not any(feature.of_record for metric in metrics for feature in metric.features):
        return ()
    from calipers.records.convert import list_fields, look_through  # noqa: PLC0415

    known = look_through(list(sources))
    return tuple(dict.fromkeys(name for source in known for name in list_fields(source, field_map)))


def refuse_texts(
    metrics: Sequence[Metric], sources: Sequence[Source], field_map: Mapping[str, str]
) -> None:
    """Raise UsageError where a field to be measured holds text in every source that has it."""
    known = [list_field_kinds(source) for source in sources]
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
    names = {name for given in sources for name in list_confidences(given, field_map)}
    if not names or any(list_field_kinds(source).get(theirs) for source in sources):
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
            known = _find_numeric(sources)
            fix = nearest(theirs, known)
            if f"{REPORTED}.{theirs}" in known:
                root = split_root(theirs)[0]
                fix = f"the system reports it of itself: trust: [{root}] in the suite lets it count"
            raise UsageError(
                f"{quote_name(metric.name)}: no record has a value in {quote_name(theirs)}", fix=fix
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
        for name, kinds in list_field_kinds(source).items()
        if "text" not in kinds
        and (name not in FIELDS or FIELDS[name].kind in (Kind.NUMBER, Kind.BOOLEAN, Kind.SCALAR))
    }


_SPREAD = (latency_ms, total_tokens, cot_tokens)  # whose distributions are drawn


def make_score_plan(options: Options, sources: Sequence[Source] = ()) -> Plan:
    """Return the plan of what the options ask for; with it go the scores that the sources bring.

    Raises:
        UsageError: A metric, a profile or the tokenizer is not known.
    """
    check_tokenizer(options.settings.tokenizer)
    check_extraction(options.settings)
    check_shape(options.settings)
    forget_failures()
    asked = find_asked(options.metrics, sources, options.map)
    chosen = asked or metrics_of(options.profile)
    if options.metrics:
        refuse_texts(chosen, sources, options.map)
        refuse_unnamed(chosen, sources, options.map)
    else:
        chosen += find_confidences(sources, options.map, options.profile)
        if options.profile is None:
            chosen += [*find_scores(sources), *find_criteria(sources, options.map)]
    if not chosen:
        raise UsageError(
            f"the profile {options.profile} has no metrics yet", fix="see: calipers metrics"
        )
    features = {feature for metric in chosen for feature in metric.features}
    drawn = options.profile is not None or options.figures is not None or options.for_report
    checks = options.settings.checks
    tiers = options.profile == "tiers" or (drawn and not options.profile and TIER in options.by)
    return Plan(
        tuple(dict.fromkeys(chosen)),
        tuple(dict.fromkeys(options.by)),
        options.settings,
        also_watched=(*options.map, *(checks.task_fields if checks else ())),
        only_present=not (options.profile or options.metrics),
        described=DESCRIBED if tiers else (),
        medians=MEDIANS if tiers else (),
        binned=(composite_score,) if tiers else (),
        widely_binned=tuple(spread for spread in _SPREAD if drawn and spread in features),
        reliability=drawn and declare_bin(StatedConfidence()) in features,
        per_task=tiers or options.for_report or options.per_task is not None,
        of_tasks=() if options.per_task is None else (same_input,),
        cluster=options.cluster,
        confidence=options.confidence,
        resamples=options.resamples,
        seed=options.seed,
        nulls_outside=options.on_bad == "null",
        tallied=tuple(_list_tallied(options)),
        whole=list_whole_fields(chosen, sources, options.map),
    )


def _list_tallied(options: Options) -> Iterator[Feature]:
    """Yield the features that are counted text by text: who decided, and what weights apply to."""
    if options.calibrations or options.who_judged:
        yield declare_judged_by(
            [calibration.records for calibration in options.calibrations or options.licences]
        )
    if options.who_judged:
        yield WORDS
    if options.settings.case_weights is not None:
        yield from WEIGHTED_BY.values()


PAIRS = ({"answer": "answer", "reference": "reference"}, {"answer": "text1", "reference": "text2"})

_FORMS = "a number such as 0.8, or FILE:Q such as pairs.jsonl:0.5 for the median of its pairs"


def set_threshold(options: Options, given: float | str) -> Options:
    """Return the options with the threshold asked for, measured if a file of pairs is named."""
    try:
        number = float(given)
    except ValueError:
        return _measure_threshold(options, str(given))
    return replace(options, settings=replace(options.settings, success_threshold=number))


def _measure_threshold(options: Options, given: str) -> Options:
    path, _, share = given.rpartition(":")
    if not path:
        raise UsageError(
            f"--set success_threshold={given}: neither a number nor FILE:Q", fix=_FORMS
        )
    quantile = _parse_quantile(given, share)
    values, reason = _measure_similarities(path, options)
    known = values.drop_nulls().sort()
    if not len(known):
        raise UsageError(
            f"--set success_threshold={given}: no pair has an output similarity"
            + (f": {reason}" if reason else ""),
            fix="--set missing=renormalize does without the semantic part"
            if reason
            else "give records with answer and reference, or text1 and text2",
        )
    position = max(1, ceil(quantile * len(known)))  # nearest rank
    left_out = f", {values.null_count()} left out" if values.null_count() else ""
    settings = replace(
        options.settings,
        success_threshold=known[position - 1],
        threshold_from=f"quantile {share} of the output similarity of {len(known)} pairs "
        f"in {path}{left_out}",
    )
    return replace(options, settings=settings)


def _parse_quantile(given: str, share: str) -> Fraction:
    """Return the exact quantile, so that a rank does not depend on decimal rounding."""
    try:
        quantile = Fraction(share)
    except (ValueError, ZeroDivisionError):
        quantile = Fraction(-1)
    if not 0 <= quantile <= 1:
        raise UsageError(
            f"--set success_threshold={given}: {share or 'nothing'} is not a quantile from 0 to 1",
            fix=_FORMS,
        )
    return quantile


def _measure_similarities(path: str, options: Options) -> tuple[pl.Series, str | None]:
    """Return the output similarity of every pair, and why some have none."""
    columns = (output_similarity.name, semantic_reason.name)
    tables = [pl.DataFrame(schema={name: pl.Null() for name in columns})]
    with read_with():  # how the records are read says nothing of this file
        sources = open_sources(path)
    for source in sources:
        field_map = _find_names(source, options.map)
        asked = Options(metrics=(output_similarity.name,), map=field_map, settings=options.settings)
        plan = asked.plan()
        chunks = source.chunks(Wanted(plan.fields, field_map))
        for batch in measure_batches(chunks, plan, columns=columns):
            if batch.bad:
                raise batch.bad[0].make_error()
            tables.append(batch.rows)
    rows = pl.concat(tables, how="vertical_relaxed")
    reason = rows[semantic_reason.name].drop_nulls()
    return rows[output_similarity.name].cast(pl.Float64), reason[0] if len(reason) else None


def _find_names(source: Source, field_map: Mapping[str, str]) -> dict[str, str]:
    """Return the file's names of the two texts: those of records, or of pairs of reviews."""
    columns = source.columns()
    asked = {name: field_map.get(name, name) for name in ("answer", "reference")}
    for names in (asked, *PAIRS):
        if all(theirs in columns for theirs in names.values()):
            return dict(names)
    raise DataError(
        f"{source.name}: no pairs of texts: neither answer and reference nor text1 and text2",
        fix=f"its columns are: {', '.join(columns[:8]) or 'none'}",
    )
