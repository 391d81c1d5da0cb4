"""Plans: what is measured for the options of a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.engines.per_task import same_input
from calipers.engines.plan import Plan
from calipers.metrics import metric_named, metrics_of
from calipers.metrics.answers.normalize import check_extraction
from calipers.metrics.calibration.stated import Stated, declare_bin
from calipers.metrics.cost.efficiency import latency_ms, total_tokens
from calipers.metrics.cost.tiers import DESCRIBED, MEDIANS, TIER, composite_score
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.judged.who import declare_judged_by
from calipers.metrics.reasoning.cot_shape import check_shape, cot_tokens
from calipers.metrics.reasoning.tokens import check_tokenizer
from calipers.metrics.scenarios.weighted import WEIGHTED_BY
from calipers.metrics.text.semantic_similarity import forget_failures
from calipers.records.sources import Source
from calipers.scores.options import Options
from calipers.scores.own import (
    find_confidences,
    find_scores,
    list_whole_fields,
    refuse_texts,
    refuse_unnamed,
)
from calipers.support.errors import UsageError

_SPREAD = (latency_ms, total_tokens, cot_tokens)  # whose distributions are drawn


def plan_of(options: Options, sources: Sequence[Source] = ()) -> Plan:
    """Return the plan of what the options ask for; with it go the scores that the sources bring.

    Raises:
        UsageError: A metric, a profile or the tokenizer is not known.
    """
    check_tokenizer(options.settings.tokenizer)
    check_extraction(options.settings)
    check_shape(options.settings)
    forget_failures()
    chosen = [metric_named(name) for name in options.metrics] or metrics_of(options.profile)
    if options.metrics:
        refuse_texts(chosen, sources, options.map)
        refuse_unnamed(chosen, sources, options.map)
    else:
        chosen += find_confidences(sources, options.map, options.profile)
        chosen += find_scores(sources) if options.profile is None else []
    if not chosen:
        raise UsageError(
            f"the profile {options.profile} has no metrics yet", fix="see: calipers metrics"
        )
    features = {feature for metric in chosen for feature in metric.features}
    drawn = options.profile is not None or options.figures is not None or options.for_report
    tiers = options.profile == "tiers" or (drawn and not options.profile and TIER in options.by)
    return Plan(
        tuple(dict.fromkeys(chosen)),
        tuple(dict.fromkeys(options.by)),
        options.settings,
        also_watched=tuple(options.map),
        only_present=not (options.profile or options.metrics),
        described=DESCRIBED if tiers else (),
        medians=MEDIANS if tiers else (),
        binned=(composite_score,) if tiers else (),
        widely_binned=tuple(each for each in _SPREAD if drawn and each in features),
        reliability=drawn and declare_bin(Stated()) in features,
        per_task=tiers or options.for_report or options.per_task is not None,
        of_tasks=() if options.per_task is None else (same_input,),
        cluster=options.cluster,
        confidence=options.confidence,
        resamples=options.resamples,
        seed=options.seed,
        tallied=tuple(_list_tallied(options)),
        whole=list_whole_fields(chosen, sources, options.map),
    )


def _list_tallied(options: Options) -> Iterator[Feature]:
    """Yield the features that are counted text by text: who judged, and what weights apply to."""
    if options.calibrations or options.who_judged:
        yield declare_judged_by([each.records for each in options.calibrations or options.licences])
    if options.settings.case_weights is not None:
        yield from WEIGHTED_BY.values()
