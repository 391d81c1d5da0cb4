"""What a user can ask of a score, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Literal

from calipers.engines.plan import Plan
from calipers.metrics import metric_named, metrics_of
from calipers.metrics.calibration.confidence import confidence_bin
from calipers.metrics.cost.tiers import DESCRIBED, MEDIANS, TIER, composite_score
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
from calipers.metrics.judged.who import judged_by
from calipers.metrics.reasoning.tokens import check_tokenizer
from calipers.metrics.scenarios.weighted import WEIGHTED_BY
from calipers.metrics.text.semantic_similarity import forget_failures
from calipers.records.fields import FIELDS
from calipers.records.sinks import check_folder
from calipers.records.sources import Source
from calipers.scores.calibration import Calibration
from calipers.scores.figure_data import SPREAD
from calipers.scores.own import refuse_texts, scores_in, whole_fields
from calipers.support.errors import UsageError, check_confidence, nearest

ENGINES = ("polars", "spark")

_WAYS = {
    "normalize": ("numeric", "text"),
    "judge_cost": ("apart", "included"),
    "missing": ("zero", "renormalize"),
    "errors": ("exclude", "fail"),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything a user can ask of a score."""

    by: tuple[str, ...] = ()
    profile: str | None = None
    metrics: tuple[str, ...] = ()
    engine: str = "polars"
    renames: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    on_bad: Literal["stop", "skip"] = "stop"
    bad_rows: Path | None = None
    per_sample: Path | None = None
    per_task: Path | None = None
    figures: Path | None = None
    for_report: bool = False  # with all that figures and lists of tasks need
    hash_inputs: bool = False
    cluster: str | None = None
    baseline: str = "T0"
    confidence: float = 0.95
    resamples: int = 0
    seed: int = 0
    calibrations: tuple[Calibration, ...] = ()  # of judges: judged means are corrected by them
    licences: tuple[Calibration, ...] = ()  # the same of a gate that does not correct
    must_measure: bool = False  # whether records of which nothing can be measured are an error
    who_judged: bool = False  # whether each group says who made its judged values
    tasks: Literal["sampled", "fixed"] = "sampled"  # fixed: only the noise of runs counts
    weight: Literal["task", "row"] | None = None  # None: as the command does by itself

    def __post_init__(self) -> None:
        _check_settings(self.settings)
        check_confidence(self.confidence)
        if self.resamples < 0 or self.seed < 0:
            raise UsageError("--resamples and --seed are whole numbers from 0 on", fix="leave out")
        _check_way("--on-bad", self.on_bad, ("stop", "skip"))
        _check_way("--tasks", self.tasks, ("sampled", "fixed"))
        if self.tasks == "fixed" and (self.cluster is not None or self.resamples):
            raise UsageError(
                "--tasks fixed: only the runs of a task vary, no clusters and no resamples",
                fix="leave --cluster and --resamples out",
            )
        if self.weight is not None:
            _check_way("--weight", self.weight, ("task", "row"))
        if self.weight == "task" and self.calibrations:
            raise UsageError(
                "--weight task: a judge is corrected over rows, not over tasks",
                fix="leave --weight or --calibration out",
            )
        if self.bad_rows is not None and self.on_bad != "skip":
            raise UsageError("--bad-rows needs --on-bad skip", fix="add --on-bad skip")
        if self.engine not in ENGINES:
            raise UsageError(f"no engine is called {self.engine}", fix=" or ".join(ENGINES))
        for name in self.renames:
            if name not in FIELDS:
                raise UsageError(
                    f"--map {name}=…: the record has no field {name}", fix=nearest(name, FIELDS)
                )

    def plan(self, sources: Sequence[Source] = ()) -> Plan:
        """What to measure: the metrics named, or those of the profile, or all there are.

        With these go the scores that the sources bring.
        """
        check_tokenizer(self.settings.tokenizer)
        forget_failures()
        chosen = [metric_named(name) for name in self.metrics] or metrics_of(self.profile)
        if self.metrics:
            refuse_texts(chosen, sources, self.renames)
        elif self.profile is None:
            chosen += scores_in(sources)
        if not chosen:
            raise UsageError(
                f"the profile {self.profile} has no metrics yet", fix="see: calipers metrics"
            )
        features = {feature for metric in chosen for feature in metric.features}
        drawn = self.profile is not None or self.figures is not None or self.for_report
        tiers = self.profile == "tiers" or (drawn and not self.profile and TIER in self.by)
        return Plan(
            tuple(dict.fromkeys(chosen)),
            tuple(dict.fromkeys(self.by)),
            self.settings,
            also_watched=tuple(self.renames),
            only_present=not (self.profile or self.metrics),
            described=DESCRIBED if tiers else (),
            medians=MEDIANS if tiers else (),
            binned=(composite_score,) if tiers else (),
            widely_binned=tuple(each for each in SPREAD if drawn and each in features),
            reliability=drawn and confidence_bin in features,
            per_task=tiers or self.for_report or self.per_task is not None,
            cluster=self.cluster,
            confidence=self.confidence,
            resamples=self.resamples,
            seed=self.seed,
            tallied=tuple(self._tallied()),
            whole=whole_fields(chosen, sources, self.renames),
        )

    def _tallied(self) -> Iterator[Feature]:
        """What is counted text by text: who judged, and what weights are for."""
        if self.calibrations or self.who_judged:
            yield judged_by([each.records for each in self.calibrations or self.licences])
        if self.settings.case_weights is not None:
            yield from WEIGHTED_BY.values()


def _check_way(option: str, given: str, ways: Sequence[str]) -> None:
    if given not in ways:
        raise UsageError(f"{option} {given}: no such way", fix=" or ".join(ways))


def _check_settings(settings: Settings) -> None:
    if settings.bins < 1:
        raise UsageError("--bins must be at least 1", fix="10 is what the literature uses")
    for name, ways in _WAYS.items():
        _check_way(f"--{name.replace('_', '-')}", getattr(settings, name), ways)
    if not 0 < settings.pass_score <= 1:
        raise UsageError(
            f"--pass-score {settings.pass_score:g}: not above 0 and at most 1",
            fix="1 asks for every expected behavior, 0.5 for half of them",
        )
    if not (isfinite(settings.latency_budget_ms) and settings.latency_budget_ms > 0):
        raise UsageError(
            f"--latency-budget {settings.latency_budget_ms:g}: not a time",
            fix="milliseconds above 0, for example 5000",
        )
    if not settings.semantic_model:
        raise UsageError(
            "--semantic-model: an empty name", fix="a model's name, its folder, or lexical"
        )
    if settings.semantic_cache is not None:
        check_folder(Path(settings.semantic_cache), "--semantic-cache")
    if not 0 <= settings.success_threshold <= 1:
        raise UsageError(
            f"--success-threshold {settings.success_threshold:g}: outside [0, 1]",
            fix="0.8 is the default; FILE:0.5 is the median similarity of the pairs in FILE",
        )
    weights = (settings.pass_weight, settings.impl_weight)
    if not all(isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights):
        raise UsageError(
            "--pass-weight and --impl-weight must not be negative, nor both 0",
            fix="0.5 and 0.5 count both alike",
        )
