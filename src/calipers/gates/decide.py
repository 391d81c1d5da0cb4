"""From data and a policy to a verdict: measure, apply the policy, update the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.gates import against
from calipers.gates.baselines import Recorded
from calipers.gates.licences import Licences, note_licences
from calipers.gates.options import GateOptions
from calipers.gates.policy import EXAMPLE, Judges, Policy, read_policy
from calipers.gates.policy_values import PASS_RATE
from calipers.gates.result import Check, Early, GateResult, combine_verdicts
from calipers.gates.rule_check import Given, Judge, MeasuredRun
from calipers.gates.rules.thresholds import Progressive
from calipers.gates.scenario_table import ScenarioTable
from calipers.gates.sequential import settle_checks
from calipers.gates.undecided import HOW, explain_undecided
from calipers.gates.verdicts import Verdict
from calipers.metrics import metric_named
from calipers.records.unfinished import list_unfinished
from calipers.scores.calibration import Calibration, read_all
from calipers.scores.correction import use_corrected
from calipers.scores.options import Options
from calipers.scores.results import Score
from calipers.scores.score import Progress, score_data
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """What a policy asks of records: what to measure, and which scenarios to watch."""

    source: str  # of the policy
    policy: Policy
    asked: GateOptions
    options: Options
    given: Given  # the release, and the baseline
    path: Path | None  # of the baseline
    calibrations: tuple[Calibration, ...]
    table: ScenarioTable


def gate_data(
    data: Any, asked: GateOptions, options: Options, progress: Progress = lambda _: None
) -> GateResult:
    """Decide on the records in `data`."""
    question = ask_gate(asked, options)
    score = score_data(data, question.options, progress, question.table.watch)
    return decide(question, score)


def ask_gate(asked: GateOptions, options: Options) -> GateQuestion:
    """Return what has to be measured for a policy; raises where it cannot decide anything."""
    source = str(asked.policy) if isinstance(asked.policy, str | Path) else "policy"
    read = read_policy(asked.policy)
    if not (read.decides or asked.against or asked.save_baseline):
        raise UsageError(f"{source}: it has no rules, so nothing can fail", fix=EXAMPLE)
    path = against.find_baseline(read, asked)
    baseline = against.read_recorded(path, asked)
    given = Given(release=asked.release, recorded=baseline)
    # The pass rate and accuracy tell how scenarios ended.
    names = tuple(dict.fromkeys((*read.list_metrics(given), PASS_RATE, ACCURACY)))
    calibrations = read_all(read.judges.calibrations)
    options = replace(options, metrics=names, who_judged=True, licences=calibrations)
    if read.judges.corrected:
        options = replace(options, calibrations=calibrations)
    table = ScenarioTable(
        map(metric_named, names),
        clustered=options.cluster is not None,
        named=read.scenarios,
        optional=read.optional,
    )
    return GateQuestion(
        source=source,
        policy=read,
        asked=asked,
        options=options,
        given=given,
        path=path,
        calibrations=calibrations,
        table=table,
    )


def decide(question: GateQuestion, score: Score) -> GateResult:
    """Decide on a score that was measured with the question's options, its table watching."""
    read, asked, options = question.policy, question.asked, question.options
    given, baseline = question.given, question.given.recorded
    beside = question.table.split_groups(score.groups, options.by)
    groups = [
        MeasuredRun(
            group=use_corrected(group) if read.judges.corrected else group,
            scenarios=scenarios,
            options=options,
            policy=read,
        )
        for group, scenarios in zip(score.groups, beside, strict=True)
    ]
    ran = [each for each in groups if each.ran]
    now = Recorded(groups=tuple(each.now for each in ran))
    judges = (Judge(run=run, given=given) for run in ran)
    checks = tuple(check for judge in judges for check in _check_rules(judge, asked.early))
    ended_early = asked.early is not None and asked.early.stopped  # what is missing was not called
    moved = () if ended_early else tuple(against.find_changes(baseline, now))
    saved = asked.save_baseline is not None
    # How many calls each file has records of; unknown where some call has several.
    calls = {e.path: None if score.repeated else e.rows + e.skipped for e in score.inputs}
    incomplete = tuple(
        dict.fromkeys(
            (
                *asked.incomplete,
                *(() if ended_early else list_unfinished(calls)),
                *_explain_incomplete(score),
                *explain_undecided(checks),
                *_note_misspelt(groups, read, given),
                *(() if saved else _note_unchecked(ran, checks)),
                *against.tell_uncompared(baseline, now, asked),
                *(() if saved else against.tell_gone(baseline, moved, many=True)),
            )
        )
    )
    verdict = combine_verdicts(checks, complete=not incomplete)
    kept = against.keep_baseline(question, now, "incomplete" if incomplete else verdict)
    progressive = read.find(Progressive)
    return GateResult(
        verdict=verdict,
        checks=checks,
        records=score.records,
        errors=sum(group.errors for group in score.groups),
        incomplete=incomplete,
        evidence=read.evidence,
        confidence=options.confidence,
        policy=question.source,
        inputs=score.inputs,
        release=asked.release or (progressive.release if progressive else None),
        changes=moved,
        notices=(
            *score.notices,
            *dict.fromkeys(line for each in groups for line in each.scenarios.note_pooled()),
            *note_licences(checks),
            *_list_notes(checks, read.judges),
            *against.tell_unrecorded(question, now),
            *against.tell_gone(baseline, moved, many=False),
            *kept,
        ),
        seed=options.seed,
        early=asked.early,
        flagged=sum(group.flagged or 0 for group in score.groups),
    )


def _explain_incomplete(score: Score) -> Iterator[str]:
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


def _note_misspelt(groups: Sequence[MeasuredRun], policy: Policy, given: Given) -> Iterator[str]:
    """Say which categories are spelled almost like one that a blocking rule is about."""
    asked = {each for rule in policy.rules for each in rule.list_categories(given)}
    found = Counter[tuple[str, str]]()
    for category in sorted(asked):
        for each in groups:
            for name, runs in each.scenarios.find_similar(category).items():
                found[category, name] += runs
    for (category, name), runs in found.items():
        count = f"{runs:,} record{'' if runs == 1 else 's'}"
        yield f"{count} of the category {name!r} do not count as {category!r}: spell it the same"


def _note_unchecked(ran: Sequence[MeasuredRun], checks: Sequence[Check]) -> Iterator[str]:
    """Say which groups have no check at all, which does not count as a pass."""
    checked = {tuple(check.by.items()) for check in checks}
    for each in ran:
        if tuple(each.group.by.items()) not in checked:
            shown = ", ".join(map(str, each.group.by.values())) or "the records"
            yield f"no check applies to {shown}"


def _list_notes(checks: Sequence[Check], demands: Judges) -> Iterator[str]:
    """Say what to do about flagged and undecided records, and which are left out."""
    if demands.flagged == "warn" and any(check.flagged for check in checks):
        yield (
            "flagged answers: judgments[].flags says what was found; judges: {flagged: fail} in "
            "the policy fails such checks, {flagged: ignore} lets them pass"
        )
    blocking = [check for check in checks if check.level != "warning"]
    yield from dict.fromkeys(
        f"{check.name}: {check.missing:,} of {check.n + check.missing:,} records have no value "
        "and are left out"
        for check in blocking
        if check.n and check.missing and not check.undecided.count
    )
    if any(check.undecided.count for check in blocking):
        yield f"undecided records: {HOW}"
    if checks and not blocking:
        yield "the policy only warns: nothing in it can fail the gate"


def _check_rules(judge: Judge, early: Early | None) -> Iterator[Check]:
    """Yield the checks of a group, in the order of the rules, those that only warn last.

    Checks that rely on judges show the licence, whatever a run that ended early decides.
    """
    run, policy, options = judge.run, judge.run.policy, judge.run.options
    licences = Licences(run.group.judges, options.licences, policy.judges, options.confidence)
    found = [(rule, check) for rule in policy.rules for check in rule.list_checks(judge)]
    found.sort(key=lambda each: each[1].level == "warning")
    checks: Iterable[Check] = (check for _, check in found)
    settled = checks if early is None else settle_checks(checks, early)
    for (rule, _), check in zip(found, settled, strict=True):
        held = _with_undecided(licences.apply(check, rule.list_judged_values(check, run)))
        yield _hold_flagged(held, rule.count_flagged(check, run), policy.judges)


def _with_undecided(check: Check) -> Check:
    """Return the check with how much of it is undecided: then it has failed, or is inconclusive."""
    if check.level == "warning" or not check.undecided.count:
        return check
    verdict: Verdict = "fail" if check.verdict == "fail" else "inconclusive"
    return check.add_reason(str(check.undecided), verdict=verdict)


def _hold_flagged(check: Check, flagged: int, demands: Judges) -> Check:
    """Return the check with the number of flagged answers behind it, and what the policy does.

    A check that only warns never fails; one that failed already does not get better.
    """
    if not flagged:
        return check
    check = replace(check, flagged=flagged)
    if demands.flagged == "ignore":
        return check
    verdict: Verdict = "warn" if check.verdict == "pass" else check.verdict
    if demands.flagged == "fail" and check.level != "warning":
        verdict = "fail"
    answers = "1 judged answer seems" if flagged == 1 else f"{flagged:,} judged answers seem"
    return check.add_reason(f"flagged: {answers} to address the judge", verdict=verdict)
