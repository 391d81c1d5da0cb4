"""From data to a score: choose the metrics, run an engine, turn totals into values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from calipers.calibrations import Calibration
from calipers.correcting import judges_of, with_judges
from calipers.engines.outcome import Outcome
from calipers.engines.per_task import FLAKY, ID, PASSES, REPEATED_TASKS, TASKS, VERDICTS
from calipers.engines.plan import Plan
from calipers.engines.totals import ERRORS, RECORDS, REPEATED, GroupTotals
from calipers.errors import DataError, UsageError, nearest
from calipers.frontier import cost_frontier
from calipers.metrics import Metric, metric_named, metrics_of
from calipers.metrics.agent_composite import composite_notices
from calipers.metrics.calibration import confidence_bin
from calipers.metrics.coordination import message_notices
from calipers.metrics.cost import price_notices
from calipers.metrics.declaration import GROUP, Settings, Totals
from calipers.metrics.description import described
from calipers.metrics.judged import judged_notices
from calipers.metrics.judges import judged_by
from calipers.metrics.semantic import forget_failures
from calipers.metrics.similarity import similarity_notices
from calipers.metrics.tiers import DESCRIBED, composite_score
from calipers.metrics.token_efficiency import quality_notice
from calipers.metrics.tokens import check_tokenizer
from calipers.metrics.tool_use import tool_notices
from calipers.picturing import SPREAD, histograms_of, reliability_of_group
from calipers.records import FIELDS
from calipers.results import (
    ALL_FAILED,
    FlakyTask,
    Frontier,
    Group,
    Input,
    Measured,
    PerTask,
    Score,
    need_figures,
)
from calipers.sinks import Watch, check_folder, open_sinks
from calipers.sources import Source, Wanted, open_sources
from calipers.stats.intervals import Interval
from calipers.task_file import TaskFile, open_task_file
from calipers.tiering import TIER, compared_tiers, grade

HASHED_UP_TO = 64 << 20
_SHOWN_NAMES = 12  # of the data's fields in a notice

ENGINES = ("polars", "spark")

Progress = Callable[[float], None]


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
    who_judged: bool = False  # whether each group says who made its judged values

    def __post_init__(self) -> None:
        _check_settings(self.settings)
        if not 0 < self.confidence < 1:
            raise UsageError(
                f"--confidence {self.confidence:g}: not between 0 and 1", fix="for example 0.95"
            )
        if self.resamples < 0 or self.seed < 0:
            raise UsageError("--resamples and --seed are whole numbers from 0 on", fix="leave out")
        if self.on_bad not in ("stop", "skip"):
            raise UsageError(f"--on-bad {self.on_bad}: no such way", fix="stop or skip")
        if self.bad_rows is not None and self.on_bad != "skip":
            raise UsageError("--bad-rows needs --on-bad skip", fix="add --on-bad skip")
        if self.engine not in ENGINES:
            raise UsageError(f"no engine is called {self.engine}", fix=" or ".join(ENGINES))
        for name in self.renames:
            if name not in FIELDS:
                raise UsageError(
                    f"--map {name}=…: the record has no field {name}", fix=nearest(name, FIELDS)
                )

    def plan(self) -> Plan:
        """What to measure: the metrics named, or those of the profile, or all there are."""
        check_tokenizer(self.settings.tokenizer)
        forget_failures()
        chosen = [metric_named(name) for name in self.metrics] or metrics_of(self.profile)
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
            binned=(composite_score,) if tiers else (),
            widely_binned=tuple(each for each in SPREAD if drawn and each in features),
            reliability=drawn and confidence_bin in features,
            per_task=tiers or self.for_report or self.per_task is not None,
            cluster=self.cluster,
            confidence=self.confidence,
            resamples=self.resamples,
            seed=self.seed,
            tallied=judged_by if self.calibrations or self.who_judged else None,
        )


def _check_settings(settings: Settings) -> None:
    if settings.bins < 1:
        raise UsageError("--bins must be at least 1", fix="10 is what the literature uses")
    if settings.normalize not in ("numeric", "text"):
        raise UsageError(f"--normalize {settings.normalize}: no such way", fix="numeric or text")
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
    if settings.missing not in ("zero", "renormalize"):
        raise UsageError(f"--missing {settings.missing}: no such way", fix="zero or renormalize")
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


def score_data(
    data: Any, options: Options, progress: Progress = lambda _: None, watch: Watch | None = None
) -> Score:
    """Measure the records in `data`; somebody may watch the rows on their way."""
    if options.figures is not None:
        need_figures("--figures")
        check_folder(options.figures, "--figures")
    sources = open_sources(data)
    plan = plan_for(sources, options)
    plan = replace(plan, seen=_seen(sources, options) if options.per_sample else None)
    if watch is not None:
        plan = replace(plan, kept=watch.kept, sampled=watch.columns)
    with open_task_file(options.per_task) as tasks:
        outcome = run_engine(sources, plan, options, progress, tasks, watch)
        if any(reading.rows for reading in outcome.readings):
            check_fields(outcome.present, plan, sources, options.renames)
        _check_ids(outcome, options)
        if tasks is not None:
            tasks.write(sorted_keys(outcome.groups, plan.by))
    groups = _groups(outcome, plan, options)
    settings = options.settings
    return Score(
        groups=tuple(groups),
        tiers=tuple(compared_tiers(groups, options.baseline)) if plan.described else (),
        per_task=_per_task(outcome, plan, options.per_task) if plan.per_task else None,
        frontier=_frontier(outcome, plan),
        inputs=tuple(_inputs(sources, outcome, hash_all=options.hash_inputs)),
        settings={
            **asdict(settings),
            "prices": settings.prices and settings.prices.source,
            "case_weights": settings.case_weights and settings.case_weights.to_dict(),
            "optimal_tools": settings.optimal_tools and settings.optimal_tools.source,
            "weights": settings.weights and settings.weights.to_dict(),
            "confidence": options.confidence,
            "cluster": options.cluster,
            "resamples": options.resamples,
            **_calibrated(options),
        },
        notices=(*_notices(outcome, options), *_nothing_measured(groups, sources)),
        seed=options.seed,
    )


def plan_for(sources: Sequence[Source], options: Options) -> Plan:
    """What is asked for; a column of answers that are all null says that none was given."""
    return replace(options.plan(), also_present=_seen(sources, options) & {"answer"})


def _calibrated(options: Options) -> dict[str, Any]:
    files = dict.fromkeys(each.source for each in options.calibrations)
    return {"calibrations": list(files)} if files else {}


def _seen(sources: Sequence[Source], options: Options) -> frozenset[str]:
    columns = {column for source in sources for column in source.columns()}
    ours = (name for name, theirs in options.renames.items() if theirs in columns)
    return frozenset((*columns, *ours))


def run_engine(
    sources: Sequence[Source],
    plan: Plan,
    options: Options,
    progress: Progress,
    tasks: TaskFile | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """The engine asked for, over all sources."""
    if options.engine == "spark":
        from calipers.engines.spark import run  # noqa: PLC0415 (an extra)
    else:
        from calipers.engines.polars import run  # noqa: PLC0415 (only the engine in use)
    wanted = Wanted(plan.fields, options.renames)
    with open_sinks(
        samples=options.per_sample,
        tasks=None if tasks is None else tasks.add,
        bad_rows=options.bad_rows,
        skip_bad=options.on_bad == "skip",
        progress=progress,
        watch=watch,
    ) as sinks:
        return run(sources, wanted, plan, sinks)


def _total(groups: GroupTotals, name: str) -> int:
    return int(sum(totals.get(name, 0) for totals in groups.values()))


def check_fields(
    present: Collection[str], plan: Plan, sources: Sequence[Source], renames: Mapping[str, str]
) -> None:
    """A field to group by or to rename that no record has is a mistake, not an empty group."""
    asked = {name: f"--by {name}" for name in plan.by}
    asked |= {} if plan.cluster is None else {plan.cluster: f"--cluster {plan.cluster}"}
    asked |= {name: f"--map {name}={theirs}" for name, theirs in renames.items()}
    for name, option in asked.items():
        if name in plan.watched and name not in present:
            columns = {column for source in sources for column in source.columns()}
            theirs = renames.get(name, name)
            raise UsageError(
                f"{option}: no record has a value in {theirs}", fix=nearest(theirs, columns)
            )


def _check_ids(outcome: Outcome, options: Options) -> None:
    records, with_id = _total(outcome.groups, RECORDS), outcome.having["id"]
    if 0 < with_id < records:
        raise DataError(
            f"{records - with_id} of {records} records have no id, the others have one",
            fix="give every record an id, or name the field that holds it: --map id=NAME",
        )
    if records and not with_id and options.per_task is not None:
        raise UsageError(
            "--per-task: no record has an id, so none is known to be of the same task",
            fix="name the field that tells tasks apart: --map id=NAME",
        )


def _notices(outcome: Outcome, options: Options) -> Iterator[str]:
    records = _total(outcome.groups, RECORDS)
    if records and "id" not in outcome.present:
        yield "no record has an id: rows are numbered, each a task of its own"
    if repeated := _total(outcome.groups, REPEATED):
        yield (
            f"{repeated} records repeat the id, model, tier and run of another; "
            "they count as further runs"
        )
    if skipped := sum(reading.skipped for reading in outcome.readings):
        yield f"{skipped} bad rows were left out"
    yield from price_notices(outcome.groups.values(), options.settings)
    if "token_efficiency" in options.metrics or options.profile:
        yield from quality_notice(outcome.groups.values())
    yield from tool_notices(outcome.groups.values(), options.settings)
    yield from message_notices(outcome.groups.values())
    yield from judged_notices(outcome.groups.values())
    yield from composite_notices(outcome.groups.values(), options.settings)
    yield from similarity_notices(outcome.groups.values(), options.settings)


def _nothing_measured(groups: Sequence[Group], sources: Sequence[Source]) -> Iterator[str]:
    """Why a table is empty: mostly fields under names of the user's own."""
    if any(group.metrics for group in groups) or all(g.records == g.errors for g in groups):
        return
    names = sorted({column for source in sources for column in source.columns()})
    shown = f"{', '.join(names[:_SHOWN_NAMES])}{', …' if len(names) > _SHOWN_NAMES else ''}"
    yield (
        f"no metric finds the fields it needs among {shown or 'none'}: "
        "name them with --map FIELD=NAME; calipers metrics says what each needs"
    )


def _per_task(outcome: Outcome, plan: Plan, path: Path | None) -> PerTask | None:
    """How many tasks there are and how many are flaky; None where no record has an id."""
    tasks = _total(outcome.groups, TASKS)
    if path is None and not tasks:
        return None
    keys = sorted_keys(outcome.groups, plan.by)
    found = () if outcome.flakiest is None else outcome.flakiest.iter_rows(named=True)
    return PerTask(
        tasks=tasks,
        repeated=_total(outcome.groups, REPEATED_TASKS),
        flaky=_total(outcome.groups, FLAKY),
        flakiest=tuple(
            FlakyTask(by=keys[row[GROUP]], id=row[ID], passes=row[PASSES], runs=row[VERDICTS])
            for row in found
        ),
        path=None if path is None else str(path),
    )


def _frontier(outcome: Outcome, plan: Plan) -> Frontier | None:
    if outcome.attempts is None or not outcome.attempts.height:
        return None
    return cost_frontier(outcome.attempts, sorted_keys(outcome.groups, plan.by), plan.confidence)


def _groups(outcome: Outcome, plan: Plan, options: Options) -> list[Group]:
    metrics = plan.present(outcome.present).metrics
    keys = sorted_keys(outcome.groups, plan.by)
    groups = [
        _group(key, outcome.groups[text], metrics, plan, outcome.intervals.get(text, {}))
        for text, key in keys.items()
    ]
    if plan.tallied is not None and outcome.tally is not None:
        judges = judges_of(outcome.tally)
        groups = [
            with_judges(
                replace(group, judges=judges.get(text, ())),
                outcome.groups[text],
                options.calibrations,
                plan.confidence,
            )
            for text, group in zip(keys, groups, strict=True)
        ]
    hidden = {
        metric.name
        for metric in metrics
        if metric.name not in options.metrics
        and (metric.optional == "unless named" or (metric.optional and not options.profile))
        and all(group.metrics[metric.name].value is None for group in groups)
    }
    return [
        replace(
            group,
            metrics={name: each for name, each in group.metrics.items() if name not in hidden},
        )
        for group in groups
    ]


def sorted_keys(groups: Iterable[str], by: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each group's fields, from the text that stands for it, in the order to show them."""
    keys: dict[str, dict[str, Any]] = {text: json.loads(text) for text in groups}
    whole = [name for name in by if _all_whole(key[name] for key in keys.values())]
    for key in keys.values():
        key |= {name: int(key[name]) for name in whole if isinstance(key[name], float)}
    return dict(sorted(keys.items(), key=lambda item: [_sort_key(item[1][name]) for name in by]))


def _all_whole(values: Iterable[Any]) -> bool:
    """Say whether all of a field's numbers are whole, so that 1.0 may be shown as 1."""
    numbers = [value for value in values if isinstance(value, float)]
    return bool(numbers) and all(value.is_integer() for value in numbers)


def _sort_key(value: Any) -> tuple[int, float, str]:
    """Numbers by size, then texts, nulls last."""
    if value is None:
        return 2, 0.0, ""
    return (1, 0.0, value) if isinstance(value, str) else (0, value, "")


def _group(
    by: Mapping[str, Any],
    totals: Totals,
    metrics: Sequence[Metric],
    plan: Plan,
    resampled: Mapping[str, Interval],
) -> Group:
    records, errors = int(totals[RECORDS]), int(totals[ERRORS])
    statistics = {feature.name: described(feature.name, totals) for feature in plan.described}
    composite = statistics.get("composite_score")
    return Group(
        by=by,
        records=records,
        errors=errors,
        metrics={
            metric.name: _measured(
                metric, totals, records - errors, plan.confidence, resampled.get(metric.name)
            )
            for metric in metrics
        },
        statistics=statistics if plan.described else None,
        grade=None if composite is None else grade(composite["median"]),
        histograms=histograms_of(totals, plan),
        reliability=tuple(reliability_of_group(totals, plan)) if plan.reliability else (),
    )


def _measured(
    metric: Metric, totals: Totals, called: int, confidence: float, resampled: Interval | None
) -> Measured:
    n = int(totals.get(metric.rows, 0))
    about = called if metric.about is None else int(totals.get(metric.about, 0))
    extras = {
        name: extra(totals) if callable(extra) else int(totals.get(extra, 0) or 0)
        for name, extra in metric.extras.items()
    }
    refused = metric.refused(totals) if metric.refused else None
    if not n or refused:
        reason = (refused or metric.empty) if called else ALL_FAILED
        return Measured(value=None, n=0, missing=about, reason=reason, extras=extras)
    value = float(metric.value(totals))
    around = resampled or metric.interval.interval(value, totals, confidence)
    method = metric.interval.name if resampled is None else "BCa bootstrap"
    known = around.low is not None or around.high is not None
    return Measured(
        value=value,
        n=n,
        missing=about - (n if metric.used is None else int(totals[metric.used])),
        low=_within(metric, around.low),
        high=_within(metric, around.high),
        stderr=around.stderr,
        interval=method if known else None,
        extras=extras,
    )


def _within(metric: Metric, bound: float | None) -> float | None:
    """No bound where the metric cannot be."""
    low, high = metric.range
    return None if bound is None else float(min(high, max(low, bound)))


def _inputs(sources: Sequence[Source], outcome: Outcome, *, hash_all: bool) -> Iterator[Input]:
    for source, reading in zip(sources, outcome.readings, strict=True):
        yield Input(
            path=source.name,
            rows=reading.rows,
            sha256=_sha256(source.path, hash_all=hash_all),
            skipped=reading.skipped,
        )


def _sha256(path: str | None, *, hash_all: bool) -> str | None:
    if path is None or not (hash_all or Path(path).stat().st_size <= HASHED_UP_TO):
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
