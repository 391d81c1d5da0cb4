"""From data and a policy to a verdict: measure, hold against the policy, keep the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.gates.baseline_files import RECORD_FIRST, read_baseline, write_baseline
from calipers.gates.baselines import HasGained, Recorded, RecordedGroup, changes, ratcheted
from calipers.gates.checks import PASS_RATE, checks_of
from calipers.gates.early import Early
from calipers.gates.flagged import flagged_notice
from calipers.gates.licences import licence_notice
from calipers.gates.policy import EXAMPLE, SAFETY, Policy, read_policy
from calipers.gates.regressions import has_gained
from calipers.gates.result import Changes, Check, GateResult, verdict_of
from calipers.gates.rule_check import Judge, MeasuredRun
from calipers.gates.rules import FINAL_SCORE
from calipers.gates.scenario_table import ScenarioGroup, ScenarioTable
from calipers.gates.sequential import settled
from calipers.gates.undecided import HOW, undecided_reasons
from calipers.metrics import metric_named
from calipers.metrics.scenarios.passing import ADVERSARIAL
from calipers.records.unfinished import unfinished_files
from calipers.scores.calibration import Calibration, read_all
from calipers.scores.correction import correct_part, without_error
from calipers.scores.options import Options
from calipers.scores.results import Group, Score
from calipers.scores.score import Progress, score_data
from calipers.support.errors import UsageError

ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What a user can ask of a gate beside the policy."""

    release: str | None = None
    against: Path | None = None
    save_baseline: Path | None = None
    ratchet: bool = False
    latency_budget_ms: float | None = None  # goes before the policy's
    incomplete: tuple[str, ...] = ()  # why the records are not the whole run
    early: Early | None = None  # of a run that may end as soon as it is decided


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A group of the score, and its scenarios."""

    group: Group
    scenarios: ScenarioGroup

    @property
    def ran(self) -> bool:
        """Say whether any call came to an end."""
        return self.group.records > self.group.errors

    def recorded(self, metrics: Sequence[str]) -> RecordedGroup:
        """What a baseline keeps of it."""
        values = {name: self.group.metrics[name].value for name in metrics}
        stderrs = {name: self.group.metrics[name].stderr for name in metrics}
        return RecordedGroup(
            by=self.group.by,
            metrics={n: v for n, v in values.items() if v is not None and isfinite(v)},
            stderrs={n: v for n, v in stderrs.items() if v is not None and isfinite(v)},
            tasks=self.scenarios.task_values(),
            **self.scenarios.outcomes(),
        )


def gate_data(
    data: Any,
    policy: str | Path | Mapping[str, Any] | Policy,
    asked: GateOptions,
    options: Options,
    progress: Progress = lambda _: None,
) -> GateResult:
    """Decide on the records in `data`."""
    source = str(policy) if isinstance(policy, str | Path) else "policy"
    read = read_policy(policy)
    if not (read.decides or asked.against or asked.save_baseline):
        raise UsageError(f"{source}: it has no rules, so nothing can fail", fix=EXAMPLE)
    path = _baseline_path(read, asked)
    saving = asked.save_baseline is not None  # for the first time, perhaps
    baseline = None if path is None or (saving and not path.exists()) else read_baseline(path)
    names = _metrics(read, asked.release, baseline)
    settings = read.applied(options.settings)
    if asked.latency_budget_ms is not None:
        settings = replace(settings, latency_budget_ms=asked.latency_budget_ms)
    calibrations = read_all(read.judges.calibrations)
    options = replace(options, metrics=names, settings=settings, who_judged=True)
    options = replace(options, licences=calibrations)
    if read.judges.corrected:
        options = replace(options, calibrations=calibrations)
    table = ScenarioTable(
        map(metric_named, names),
        clustered=options.cluster is not None,
        required=read.required_scenarios.ids,
        optional=read.optional_scenarios.ids,
    )
    score = score_data(data, options, progress, table.watch)
    beside = table.beside(score.groups, options.by)
    groups = [
        _Measured(
            group=without_error(group) if read.judges.corrected else group, scenarios=scenarios
        )
        for group, scenarios in zip(score.groups, beside, strict=True)
    ]
    now = Recorded(groups=tuple(each.recorded(names) for each in groups if each.ran))
    checks = tuple(_checks(groups, read, asked, (baseline, now), options, calibrations))
    ended_early = asked.early is not None and asked.early.stopped  # the rest has not gone
    incomplete = tuple(
        dict.fromkeys(
            (
                *asked.incomplete,
                *(() if ended_early else unfinished_files(each.path for each in score.inputs)),
                *_incomplete(score),
                *undecided_reasons(checks),
                *_misspelt(groups, read, asked.release),
                *_unchecked(groups, checks, asked),
                *_uncompared(baseline, now, asked),
            )
        )
    )
    moved = () if ended_early else tuple(_changes(baseline, now))
    verdict = verdict_of(checks, complete=not incomplete)
    gained = partial(has_gained, confidence=options.confidence)
    decided = verdict if not incomplete else "incomplete"
    kept = _kept_baseline(now, baseline, path, asked, decided, gained)
    return GateResult(
        verdict=verdict,
        checks=checks,
        records=score.records,
        errors=sum(group.errors for group in score.groups),
        incomplete=incomplete,
        evidence=read.evidence,
        confidence=options.confidence,
        policy=source,
        inputs=score.inputs,
        release=read.release(asked.release),
        changes=moved,
        notices=(
            *score.notices,
            *_pooled(groups),
            *licence_notice(checks),
            *flagged_notice(checks, read.judges.flagged),
            *_left_out(checks),
            *_advice(checks),
            *_unrecorded(baseline, now),
            *_gone(moved),
            *kept,
        ),
        seed=options.seed,
        early=asked.early,
        flagged=sum(group.flagged or 0 for group in score.groups),
    )


def _metrics(policy: Policy, release: str | None, baseline: Recorded | None) -> tuple[str, ...]:
    """What has to be measured; the pass rate and accuracy tell how scenarios ended."""
    recorded = () if baseline is None else (n for g in baseline.groups for n in g.metrics)
    return tuple(dict.fromkeys((*policy.metrics(release), *recorded, PASS_RATE, ACCURACY)))


def _checks(
    groups: Sequence[_Measured],
    policy: Policy,
    asked: GateOptions,
    recorded: tuple[Recorded | None, Recorded],  # the baseline, and this run
    options: Options,
    calibrations: tuple[Calibration, ...],
) -> Iterator[Check]:
    """The checks of every group; where nothing ran, nothing is judged."""
    baseline, now = recorded
    named = (*policy.required_scenarios.ids, *policy.optional_scenarios.ids)
    for each in groups:
        if not each.ran:
            continue
        run = MeasuredRun(
            by=each.group.by,
            records=each.group.records,
            errors=each.group.errors,
            scenarios=each.scenarios.count,
            metrics=each.group.metrics,
            categories=each.scenarios.categories(
                options.confidence,
                correct_part(each.group.judges, calibrations, options.confidence)
                if policy.judges.corrected
                else None,
            ),
            named=each.scenarios.named(named),
            failing=each.scenarios.failing,
            undecided=each.scenarios.undecided,
            latency_budget_ms=options.settings.latency_budget_ms,
            confidence=options.confidence,
            judges=each.group.judges,
            calibrations=calibrations,
            flagged=each.scenarios.flagged(),
            all_flagged=each.group.flagged or 0,
        )
        judge = Judge(run=run, policy=policy)
        settle = iter if asked.early is None else partial(settled, early=asked.early)
        yield from checks_of(
            judge,
            release=asked.release,
            baseline=None if baseline is None else baseline.group(each.group.by),
            now=now.group(each.group.by),
            clusters=each.scenarios.clusters() if options.cluster else None,
            settle=settle,
        )


def _incomplete(score: Score) -> Iterator[str]:
    """Why a run is not the whole run."""
    errors = sum(group.errors for group in score.groups)
    if not score.records:
        yield "there are no records"
    else:
        for each in score.inputs:
            if not (each.rows or each.skipped):
                yield f"{each.path}: there are no records"
    if errors:
        yield f"{errors:,} of {score.records:,} calls failed"
    if skipped := sum(each.skipped for each in score.inputs):
        yield f"bad rows left out: {skipped:,}"


def _pooled(groups: Sequence[_Measured]) -> Iterator[str]:
    yield from dict.fromkeys(line for each in groups for line in each.scenarios.pooled())


def _misspelt(groups: Sequence[_Measured], policy: Policy, release: str | None) -> Iterator[str]:
    """Say which categories are spelled almost like one that a blocking rule is about."""
    blocking = {*policy.thresholds.blocking, *policy.row(release)}
    blocking.update(() if policy.composite is None else policy.composite.metrics())
    asked = {*policy.pass_criteria.by_category}
    asked.update({ADVERSARIAL} if blocking & {SAFETY, FINAL_SCORE} else ())
    found = Counter[tuple[str, str]]()
    for category in sorted(asked):
        for each in groups:
            for name, runs in each.scenarios.alike(category).items():
                found[category, name] += runs
    for (category, name), runs in found.items():
        count = f"{runs:,} record{'' if runs == 1 else 's'}"
        yield f"{count} of the category {name!r} do not count as {category!r}: spell it the same"


def _unchecked(
    groups: Sequence[_Measured], checks: Sequence[Check], asked: GateOptions
) -> Iterator[str]:
    """Say which groups nothing was demanded of: no check is no pass."""
    checked = {tuple(check.by.items()) for check in checks}
    for each in groups if asked.save_baseline is None else ():
        if each.ran and tuple(each.group.by.items()) not in checked:
            shown = ", ".join(map(str, each.group.by.values())) or "the records"
            yield f"no check applies to {shown}"


def _left_out(checks: Sequence[Check]) -> Iterator[str]:
    """Say which checks that block rest on a part of the records, where that may be."""
    yield from dict.fromkeys(
        f"{check.name}: {check.missing:,} of {check.n + check.missing:,} records have no value "
        "and are left out"
        for check in checks
        if check.level != "warning" and check.n and check.missing and not check.undecided.count
    )


def _advice(checks: Sequence[Check]) -> Iterator[str]:
    """Say what to do about undecided records, and when nothing can fail."""
    if any(check.level != "warning" and check.undecided.count for check in checks):
        yield f"undecided records: {HOW}"
    if checks and all(check.level == "warning" for check in checks):
        yield "the policy only warns: nothing in it can fail the gate"


def _baseline_path(policy: Policy, asked: GateOptions) -> Path | None:
    """The file to hold the run against: the one asked for, else the policy's."""
    named = policy.baseline and policy.baseline.file
    path = asked.against or (Path(named) if named else None)
    if path is not None:
        return path
    if asked.ratchet:
        raise UsageError("--ratchet needs a baseline to raise", fix="name it: --against FILE")
    if policy.baseline is not None and asked.save_baseline is None:
        raise UsageError(
            "the policy compares runs with a baseline, but none is given",
            fix=f"--against FILE, or baseline: {{file: …}} in the policy; {RECORD_FIRST}",
        )
    return None


def _uncompared(before: Recorded | None, now: Recorded, asked: GateOptions) -> Iterator[str]:
    """Say so where a baseline was given and no group of this run is in it."""
    if before is None or not now.groups or asked.save_baseline is not None:
        return
    if all(before.group(group.by) is None for group in now.groups):
        fields = dict.fromkeys(name for group in before.groups for name in group.by)
        how = " ".join(f"--by {name}" for name in fields) or "no --by"
        yield f"nothing was compared with the baseline, which was recorded with {how}"


def _unrecorded(before: Recorded | None, now: Recorded) -> Iterator[str]:
    """Say which groups the baseline demands nothing of."""
    for group in () if before is None else now.groups:
        if before is not None and before.group(group.by) is None:
            shown = ", ".join(map(str, group.by.values())) or "the whole"
            yield f"not in the baseline, so not compared with it: {shown}"


def _gone(moved: Sequence[Changes]) -> Iterator[str]:
    """Say how many of the baseline's tasks this run lacks."""
    for change in moved:
        if gone := change.removed.count:
            yield (
                f"tasks of the baseline that are not in this run, and nothing is known of: {gone:,}"
                "; where they were taken out on purpose, record it anew: --save-baseline FILE"
            )


def _changes(before: Recorded | None, now: Recorded) -> Iterator[Changes]:
    """How each group's scenarios differ from the baseline's."""
    for group in () if before is None else now.groups:
        recorded = None if before is None else before.group(group.by)
        if recorded is not None:
            yield changes(recorded, group)


def _kept_baseline(
    now: Recorded,
    before: Recorded | None,
    path: Path | None,
    asked: GateOptions,
    verdict: str,
    gained: HasGained,
) -> list[str]:
    """Record the run, or raise the baseline, as asked; say what was done, or why not."""
    if verdict == "incomplete":
        skipped = asked.save_baseline is not None or asked.ratchet
        return ["the run is incomplete: the baseline stays as it is"] if skipped else []
    said = []
    if asked.save_baseline is not None:
        write_baseline(asked.save_baseline, now)
        said.append(f"baseline saved: {asked.save_baseline}")
    if asked.ratchet and verdict == "pass" and before is not None and path is not None:
        raised, metrics = ratcheted(before, now, gained)
        if raised.to_dict() != before.to_dict():
            write_baseline(path, raised)
        what = f"raised: {', '.join(metrics)}" if metrics else "nothing to raise"
        said.append(f"{path}: {what}")
    return said
