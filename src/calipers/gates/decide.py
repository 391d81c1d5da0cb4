"""Decide whether records meet a policy: measure them, apply its rules, update the baseline.

`gate` is the public function; `decide` turns a measured score into a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.gates.baselines import Recorded
from calipers.gates.gate_options import GateOptions
from calipers.gates.licences import Licences, note_licences
from calipers.gates.policy import EXAMPLE, Judges, Policy, read_policy
from calipers.gates.policy_fields import PASS_RATE, find_metric
from calipers.gates.result import Check, Early, GateResult, combine_verdicts
from calipers.gates.rule_kind import Given, MeasuredRun, RuleChecker
from calipers.gates.rules import baseline_rule
from calipers.gates.rules.composite_rule import Composite
from calipers.gates.rules.threshold_rules import Progressive
from calipers.gates.scenario_table import ScenarioTable
from calipers.gates.sequential_checks import settle_checks
from calipers.gates.threshold_test import Verdict
from calipers.gates.undecided import UNDECIDED_FIX, explain_undecided
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.means import weigh_tasks
from calipers.metrics.provenance import SYSTEM, list_metric_fields, list_sources
from calipers.records.completeness import list_missing
from calipers.records.fields import REPORTED
from calipers.records.trusted_fields import find_trusted_fields, find_untrusted
from calipers.scores.calibration import Calibration, read_calibration_files, use_corrected
from calipers.scores.notices import describe_difference
from calipers.scores.options import Options
from calipers.scores.resolve_options import (
    declare_signature,
    group_by_system,
    resolve_options,
    split_own_options,
)
from calipers.scores.result import Score
from calipers.scores.score import Progress, score_data
from calipers.support.errors import UsageError
from calipers.support.field_paths import split_root
from calipers.support.lazy_numpy import np
from calipers.support.names import find_look_alikes, find_plurals, show_difference
from calipers.support.options import ignore_progress

if TYPE_CHECKING:
    from calipers.support.keywords import GateKeywords

ACCURACY = "accuracy"
_LISTED = 12  # categories in a notice


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
    if not asked.sabotage:
        return decide_data(data, question, progress)
    from calipers.gates.sabotage.trials import open_again, try_sabotage  # noqa: PLC0415 (only here)

    sources = open_again(data, question)
    return try_sabotage(sources, question, decide_data(sources, question), progress)


def decide_data(
    data: Any, question: GateQuestion, progress: Progress = lambda _: None
) -> GateResult:
    """Measure the records in `data` and decide on them."""
    return decide(question, score_data(data, question.options, progress, question.table.watch))


def ask_gate(asked: GateOptions, options: Options) -> GateQuestion:
    """Return what has to be measured for a policy; raises where it cannot decide anything."""
    source = str(asked.policy) if isinstance(asked.policy, str | Path) else "policy"
    read = read_policy(asked.policy)
    if not (read.decides or asked.against or asked.save_baseline):
        raise UsageError(f"{source}: it has no rules, so nothing can fail", fix=EXAMPLE)
    path = baseline_rule.find_baseline(read, asked)
    baseline = baseline_rule.read_recorded(path, asked)
    given = Given(release=asked.release, recorded=baseline)
    # The pass rate and accuracy tell how scenarios ended.
    names = tuple(dict.fromkeys((*read.list_metrics(given), PASS_RATE, ACCURACY)))
    calibrations = read_calibration_files(read.judges.calibrations)
    weight = options.weight or read.weight
    options = replace(options, metrics=names, who_judged=True, licences=calibrations, weight=weight)
    options = replace(options, guarantee=read.evidence == "guarantee")
    if read.judges.corrected:
        options = replace(options, calibrations=calibrations)
    return GateQuestion(
        source=source,
        policy=read,
        asked=asked,
        options=options,
        given=given,
        path=path,
        calibrations=calibrations,
        table=make_table(read, options, given, asked),
    )


_FEWEST_CATEGORIES = 3  # that tell how far others lie apart
_SMALL = 30  # scenarios of a category, of which the value is mostly luck


def _note_small_categories(run: MeasuredRun, checks: Sequence[Check]) -> Iterator[str]:
    """Yield what the categories' pass rates are when read together; no check goes by it."""
    own = [
        (check.name, check.value, check.n)
        for check in checks
        if check.level == "category" and check.by == run.group.by and check.value is not None
    ]
    smallest = min((n for *_, n in own), default=0)
    if len(own) < _FEWEST_CATEGORIES or not 0 < smallest < _SMALL:
        return
    from calipers.statistics.slices import shrink  # noqa: PLC0415 (loads NumPy)

    values, sizes = (np.array([each[at] for each in own], dtype=np.float64) for at in (1, 2))
    shrunken = shrink(values, sizes, values * (1 - values))
    told = ", ".join(
        f"{name} {100 * drawn:.0f} %" for (name, *_), drawn in zip(own, shrunken, strict=True)
    )
    yield f"small categories read together (shrunken, for information only): {told}"


def make_table(policy: Policy, options: Options, given: Given, asked: GateOptions) -> ScenarioTable:
    """Return an empty table of scenarios, to be filled while the records are measured."""
    return ScenarioTable(
        map(metric_named, options.metrics),
        clustered=options.cluster is not None,
        counts_failures=options.settings.errors == "fail",
        named=policy.scenarios,
        optional=policy.optional,
        keeps_values=_is_kept(given, asked),
    )


def _is_kept(given: Given, asked: GateOptions) -> bool:
    """Return True if values of scenarios are compared with a baseline, or may be kept as one."""
    return given.recorded is not None or baseline_rule.is_recording_asked(asked)


def decide(question: GateQuestion, score: Score) -> GateResult:
    """Decide on a score that was measured with the question's options, its table watching."""
    read, asked, options = question.policy, question.asked, question.options
    given, baseline = question.given, question.given.recorded
    _refuse_own_word(question, score)
    groups = _measure_runs(question, score)
    ran = [group for group in groups if group.ran]
    now = Recorded(groups=tuple(group.now for group in ran) if _is_kept(given, asked) else ())
    judges = [RuleChecker(run=run, given=given) for run in ran]
    checks = tuple(check for judge in judges for check in _check_rules(judge, asked.early))
    ended_early = asked.early is not None and asked.early.stopped  # what is missing was not called
    moved = () if ended_early else tuple(baseline_rule.find_changes(baseline, now))
    saved = asked.save_baseline is not None
    counts = _count_categories(groups)
    categories = read.list_categories(given)
    misspelt = _find_misspelt(counts, categories)
    look_alikes = tuple(_note_misspelt(counts, misspelt))
    others = {name: counts[name] for name in counts.keys() - categories - misspelt.keys()}
    is_covered = not categories or read.covers_all(given)
    # How many calls each file has records of; unknown where some call has several.
    calls = {e.path: None if score.repeated else e.rows + e.skipped for e in score.inputs}
    incomplete = tuple(
        dict.fromkeys(
            (
                *asked.incomplete,
                *(() if ended_early else list_missing(calls)),
                *_explain_incomplete(score),
                *score.recorded_twice,
                *(line for judge in judges for line in _note_uneven(judge, checks)),
                *explain_undecided(checks),
                *(look_alikes if categories else ()),
                *(_explain_stated(score, question, checks) if read.stated != "ignore" else ()),
                *(() if saved else _note_unchecked(ran, checks)),
                *baseline_rule.note_uncompared(baseline, now, asked),
                *(() if saved else baseline_rule.note_missing_tasks(baseline, moved, many=True)),
                *(
                    ()
                    if saved or ended_early
                    else baseline_rule.note_lost_groups(baseline, score.groups)
                ),
            )
        )
    )
    verdict = combine_verdicts(checks, complete=not incomplete)
    kept = baseline_rule.keep_baseline(question, now, "incomplete" if incomplete else verdict)
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
            *(line for line in score.notices if not line.startswith(score.recorded_twice)),
            *dict.fromkeys(line for group in groups for line in group.scenarios.note_pooled()),
            *(line for run in ran for line in _note_small_categories(run, checks)),
            *(() if categories else look_alikes),
            *_note_plurals(others, categories),
            *(() if is_covered else _note_uncovered(others)),
            *note_licences(checks),
            *_list_notes(checks, read.judges),
            *dict.fromkeys(line for run in ran for line in _note_unfailing(run, checks)),
            *baseline_rule.note_unrecorded(question, now),
            *baseline_rule.note_missing_tasks(baseline, moved, many=False),
            *kept,
        ),
        seed=options.seed,
        early=asked.early,
        flagged=sum(group.flagged or 0 for group in score.groups),
    )


def _refuse_own_word(question: GateQuestion, score: Score) -> None:
    """Raise UsageError where a rule, or a check, goes by what a system said of itself in a run."""
    options = question.options
    measured = (f for metric in map(metric_named, options.metrics) for f in metric.features)
    checks = options.settings.checks
    fields = [name for feature in measured for name in feature.fields]
    fields += () if checks is None else checks.compared_fields
    answer, target = (options.map.get(name, name) for name in ("answer", "target"))
    if answer == target and "target" in fields:
        raise UsageError(
            f"--map: answer and target are both read from {target}: nothing is compared",
            fix="map one of them to another column: --map answer=COLUMN",
        )
    theirs = [options.map.get(name, name) for name in fields]
    name = find_untrusted((source.path for source in score.inputs), theirs)
    if name is not None:
        root = split_root(name.removeprefix(f"{REPORTED}."))[0]
        raise UsageError(
            f"{question.source}: {name} is a system's own word about itself, and decides nothing",
            fix=f"trust: [{root}] in the suite lets it count; run it again with --fresh",
        )


def record_run(question: GateQuestion, score: Score) -> Recorded:
    """Return what a baseline would keep of a score."""
    groups = _measure_runs(question, score)
    return Recorded(groups=tuple(group.now for group in groups if group.ran))


def _measure_runs(question: GateQuestion, score: Score) -> list[MeasuredRun]:
    """Return each group of a score beside its scenarios."""
    read, options = question.policy, question.options
    beside = question.table.split_groups(score, options.by)
    own_word = find_trusted_fields(source.path for source in score.inputs)
    return [
        MeasuredRun(
            group=use_corrected(group) if read.judges.corrected else group,
            scenarios=scenarios,
            options=options,
            policy=read,
            own_word=own_word,
        )
        for group, scenarios in zip(score.groups, beside, strict=True)
    ]


def _explain_incomplete(score: Score) -> Iterator[str]:
    errors = sum(group.errors for group in score.groups)
    if not score.records:
        yield "there are no records"
    else:
        for source in score.inputs:
            if not (source.rows or source.skipped):
                yield f"{source.path}: there are no records"
    if errors:
        yield f"{errors:,} of {score.records:,} calls failed"
    if skipped := sum(source.skipped for source in score.inputs):
        yield f"bad rows left out: {skipped:,}"
    if nulled := sum(each.nulled for each in score.inputs):
        yield f"values outside their range, made null: {nulled:,}"


def _note_uneven(judge: RuleChecker, checks: Sequence[Check]) -> Iterator[str]:
    """Say which task has so many rows that it decides checks in which every row counts alike."""
    run = judge.run
    heaviest = run.scenarios.find_heaviest()
    ours = [check for check in checks if check.by == run.group.by and _is_over_rows(check, run)]
    unreached = [check.name for check in ours if not _can_weigh_tasks(check, judge)]
    decided = unreached if run.options.weight == "task" else [check.name for check in ours]
    if heaviest is None or not decided:
        return
    scenario, rows, median = heaviest
    of = f" of {', '.join(map(str, run.group.by.values()))}" if run.group.by else ""
    fixes = []
    if len(decided) > len(unreached):
        fixes.append("weight: task in the policy counts every task alike")
    if unreached:
        fixes.append(
            f"weight: task does not reach {', '.join(dict.fromkeys(unreached))}, no mean over "
            "rows: give every task about as many rows"
        )
    yield (
        f"the task {scenario}{of} has {rows:,} rows, the median task {median:g}: it decides "
        f"{', '.join(dict.fromkeys(decided))}; {'; '.join(fixes)}"
    )


def _is_over_rows(check: Check, run: MeasuredRun) -> bool:
    """Return True if a check blocks on a value in which every row counts alike."""
    if check.name in run.options.metrics and metric_named(check.name).used is not None:
        return False  # a mean over tasks
    return check.level in ("category", "composite", "baseline") or (
        check.level == "blocking" and check.name in run.options.metrics
    )


def _can_weigh_tasks(check: Check, judge: RuleChecker) -> bool:
    """Return True if all that a check over rows is made of can be a mean over tasks instead."""
    if check.level == "category":
        return True
    [rule] = (rule for rule in judge.run.policy.rules if check.source.split(".")[0] == rule.key)
    if isinstance(rule, Composite):
        parts: Iterable[str] = rule.list_parts()
    else:
        parts = rule.list_measures(check, judge.given)
    metrics = map(metric_named, parts)
    return all(metric.used is not None or weigh_tasks(metric) is not None for metric in metrics)


def _count_categories(groups: Sequence[MeasuredRun]) -> Counter[str | None]:
    counts = Counter[str | None]()
    for group in groups:
        counts.update(group.scenarios.count_categories())
    return counts


def _find_misspelt(counts: Mapping[str | None, int], named: Collection[str]) -> dict[str, str]:
    """Return the categories that look like another one, or like one that the policy names."""
    present = sorted(name for name in counts if name is not None)
    pairs = find_look_alikes((*sorted(named), *present))
    return {
        other: first
        for first, other in pairs
        if other in counts and not {first, other} <= set(named)  # which tells the two apart
    }


def _note_misspelt(counts: Mapping[str | None, int], misspelt: Mapping[str, str]) -> Iterator[str]:
    for name, other in misspelt.items():
        yield (
            f"{_count_records(counts[name])} of the category {name!r} do not count as {other!r}: "
            f"spell it the same ({show_difference(name, other)})"
        )


def _note_plurals(counts: Mapping[str | None, int], named: Collection[str]) -> Iterator[str]:
    others = sorted(filter(None, counts))
    for category, name in find_plurals(others, sorted(named)):
        yield f"{_count_records(counts[name])} of the category {name!r} are not {category!r}"


def _note_uncovered(counts: Mapping[str | None, int]) -> Iterator[str]:
    """Say which categories none of the rules about categories names."""
    most_first = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0] or ""))
    shown = [f"{'none' if name is None else repr(name)} ({count:,})" for name, count in most_first]
    more = f", … ({len(shown)} in all)" if len(shown) > _LISTED else ""
    if shown:
        yield f"records of categories that no rule covers: {', '.join(shown[:_LISTED])}{more}"


def _count_records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _explain_stated(score: Score, question: GateQuestion, checks: Sequence[Check]) -> Iterator[str]:
    """Yield where a log states another value of a metric than a blocking check goes by."""
    metrics = [
        find_metric(name)
        for rule in question.policy.rules
        for check in checks
        if check.level != "warning" and check.source.partition(".")[0] == rule.key
        for name in rule.list_measures(check, question.given)
    ]
    for source in score.inputs:
        for figure in source.stated:
            about = product((figure.ours, *figure.about), metrics)
            if figure.equal is False and any(_is_about(name, metric) for name, metric in about):
                difference = describe_difference(figure)
                yield difference if len(score.inputs) == 1 else f"{source.path}: {difference}"


def _is_about(name: str | None, metric: Metric) -> bool:
    """Return True if a metric is the named one, or one minus it."""
    if name is None or metric.name == name:
        return name is not None
    return metric.averaged is not None and metric.averaged == find_metric(name).averaged


def _note_unchecked(ran: Sequence[MeasuredRun], checks: Sequence[Check]) -> Iterator[str]:
    """Say which groups have no check at all, which does not count as a pass."""
    checked = {tuple(check.by.items()) for check in checks}
    for group in ran:
        if tuple(group.group.by.items()) not in checked:
            shown = ", ".join(map(str, group.group.by.values())) or "the records"
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
        if check.n and check.missing and (check.undecided.lacks or not check.undecided.count)
    )
    if any(check.undecided.count and not check.undecided.lacks for check in blocking):
        yield f"undecided records: {UNDECIDED_FIX}"
    if checks and not blocking:
        yield "the policy only warns: nothing in it can fail the gate"


def _note_unfailing(run: MeasuredRun, checks: Iterable[Check]) -> Iterator[str]:
    """Yield which checks every value meets, where the values turn out to be yes or no."""
    for check in checks:
        name, threshold = check.name, check.threshold
        is_share = name in run.group.metrics and run.group.metrics[name].interval == "wilson"
        if threshold is None or check.level != "blocking" or not is_share:
            continue
        if metric_named(name).yes_or_no is not None and all(map(threshold.is_met, (0.0, 1.0))):
            yield f"{name}: every value is yes or no, and both meet {threshold}: it cannot fail"


def _check_rules(judge: RuleChecker, early: Early | None) -> Iterator[Check]:
    """Yield the checks of a group, in the order of the rules, those that only warn last.

    Checks that rely on judges show the licence, whatever a run that ended early decides.
    """
    run, policy, options = judge.run, judge.run.policy, judge.run.options
    licences = Licences(run.group.judges, options.licences, policy.judges, options.confidence)
    checked = [(rule, check) for rule in policy.rules for check in rule.list_checks(judge)]
    checked.sort(key=lambda pair: pair[1].level == "warning")
    checks: Iterable[Check] = (check for _, check in checked)
    settled = checks if early is None else settle_checks(checks, early)
    for (rule, _), settled_check in zip(checked, settled, strict=True):
        check = _add_sources(settled_check, rule.list_measures(settled_check, judge.given), run)
        held = _add_undecided(licences.apply(check, rule.list_judged_values(check, judge)))
        yield _hold_flagged(held, rule.count_flagged(check, judge), policy.judges)


def _add_sources(check: Check, names: Iterable[str], run: MeasuredRun) -> Check:
    """Return the check with whose word it rests on; a system's own is a reason to be shown.

    A check without a value rests on nobody's: there was nothing to decide by.
    """
    if check.value is None:
        return check
    metrics = [find_metric(name) for name in names]
    sources = list_sources(metrics, run.group.words, run.own_word)
    check = replace(check, rests_on=sources)
    named = () if run.own_word is None else run.own_word.trusted
    trusted = [name for name in named if name in list_metric_fields(metrics)]
    if SYSTEM not in sources or not trusted:
        return check
    return check.add_reason(f"by the system's own word (trust: [{', '.join(trusted)}])")


def _add_undecided(check: Check) -> Check:
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


@declare_signature("gate", GateOptions)
def gate(
    data: Any, *, progress: Progress = ignore_progress, **options: Unpack[GateKeywords]
) -> GateResult:
    """Decide on records: check every rule of a policy, with the reason where it is not met.

    Args:
        data: Records, as `score` takes them.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md. What is given here takes precedence over the
            policy's `metric_settings`.

    Returns:
        The verdict and every check.

    Raises:
        TypeError: An argument is of another type, or is not known.
        CalipersError: The policy has a mistake, or the data cannot be read.

    >>> rules = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}
    >>> records = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> decided = gate(records, policy=rules)
    >>> decided.verdict, decided.checks[0].reason.partition(";")[0]
    ('fail', '50 %, required ≥ 90 %')
    """
    asked, others = split_own_options("gate", GateOptions, options)
    chosen = group_by_system(resolve_options("gate", others, data, policy=asked.policy))
    return gate_data(data, asked, chosen, progress)
