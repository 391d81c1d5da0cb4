"""`baseline`: how much worse than a recorded run a run may be.

The rule itself, which file it compares with, what has changed since, and what is recorded
afterwards. The format of the file is in `gates/baselines.py`, the test in `gates/regressions.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, PlainValidator

from calipers.gates.baselines import (
    RECORD_FIRST,
    Recorded,
    compare_scenarios,
    list_tolerances,
    ratchet,
    read_baseline,
    write_baseline,
)
from calipers.gates.policy_fields import (
    Description,
    SchemaOf,
    find_metric,
    make_metric_schema,
    read_by_name,
)
from calipers.gates.result import Changes, Check
from calipers.gates.rule_kind import Given, RuleChecker, RuleKind
from calipers.gates.rules.threshold_rules import list_categories
from calipers.gates.sequential_checks import Demand, PlannedGroup
from calipers.metrics.thresholds import parse_margin, read_scale
from calipers.support.errors import UsageError
from calipers.support.strict_model import StrictModel

if TYPE_CHECKING:
    from calipers.gates.decide import GateQuestion
    from calipers.gates.gate_options import GateOptions
    from calipers.gates.policy import Policy
    from calipers.scores.result import Group

_AT_THE_END = "compared with the baseline task by task, at the end"


def _read_margins(table: Any) -> dict[str, float]:
    """Return margins by metric, each in the metric's unit."""

    def read_margin(name: str, value: Any) -> tuple[str, float]:
        metric = find_metric(name)
        if metric.better is None:
            raise UsageError(
                f"{name}: neither direction is better", fix="leave it out of the margins"
            )
        return metric.name, parse_margin(value, read_scale(metric))

    return dict(read_by_name(table, read_margin).values())


Margins = Annotated[
    Mapping[str, float],
    PlainValidator(_read_margins),
    SchemaOf(lambda: make_metric_schema({"type": ["number", "string"]})),
]


class Baseline(RuleKind, StrictModel):
    """How much worse than a recorded run is acceptable; a negative margin requires improvement."""

    key: ClassVar[str] = "baseline"
    may_be_null: ClassVar[bool] = True

    description: Description = None
    file: str | None = Field(
        default=None,
        description="The recorded run, relative to the policy; --against overrides it.",
    )
    required: bool = Field(
        default=True,
        description="false: if no baseline is given yet, the other rules decide alone.",
    )
    margins: Margins = Field(
        default_factory=dict,
        description="Margins by metric; without any, every recorded metric, with a margin of 0.",
    )

    @classmethod
    def make_default(cls) -> Self:
        """Return one without margins, which holds where --against names a baseline."""
        return cls()

    @property
    def needs_baseline(self) -> bool:
        return self.required

    def move_to(self, folder: Path) -> Self:
        if self.file is None:
            return self
        return self.model_copy(update={"file": str(folder / self.file)})

    def list_categories(self, given: Given) -> Iterable[str]:
        return list_categories(self.list_blocking(given))

    def list_blocking(self, given: Given) -> Iterable[str]:
        recorded = () if given.recorded is None else given.recorded.groups
        return self.margins or {name for group in recorded for name in group.metrics}

    def list_metrics(self, given: Given) -> Iterable[str]:
        recorded = () if given.recorded is None else given.recorded.groups
        return (*self.margins, *(name for group in recorded for name in group.metrics))

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield a check per metric that the policy, or the baseline by itself, holds to."""
        before = judge.before
        if before is None:
            return
        from calipers.gates.regressions import check_regression  # noqa: PLC0415 (only where asked for)

        for name, margin in list_tolerances(before, self.margins).items():
            yield check_regression(judge, before, name, margin)

    def list_demands(self, ahead: PlannedGroup) -> Iterator[Demand]:
        for name in () if ahead.before is None else list_tolerances(ahead.before, self.margins):
            yield Demand(name=name, why_not=_AT_THE_END)


_NAMED = 5  # groups in a sentence
_MANY = 0.1  # share of the baseline's tasks: a run that lacks more does not pass


def find_baseline(policy: Policy, asked: GateOptions) -> Path | None:
    """Return the baseline to compare the run with: the one asked for, otherwise the policy's.

    None where there is none yet and the policy does not require one. Raises UsageError where the
    policy or an option needs one, and none is named.
    """
    written = policy.find(Baseline)
    if asked.against is not None:
        return asked.against
    is_required = any(rule.needs_baseline for rule in policy.written)
    if written is not None and written.file is not None:
        path = Path(written.file)
        return path if is_required or path.exists() else None
    if asked.ratchet:
        raise UsageError("--ratchet needs a baseline to raise", fix="name it: --against FILE")
    if is_required and asked.save_baseline is None:
        raise UsageError(
            "the policy compares runs with a baseline, but none is given",
            fix="--against FILE, or baseline: {file: …} in the policy, or required: false there; "
            f"{RECORD_FIRST}",
        )
    return None


def read_recorded(path: Path | None, asked: GateOptions) -> Recorded | None:
    """Return the baseline in a file; None where there is none yet because it is to be saved."""
    if path is None or (asked.save_baseline is not None and not path.exists()):
        return None
    return read_baseline(path)


def find_changes(before: Recorded | None, now: Recorded) -> Iterator[Changes]:
    """Yield how each group's scenarios differ from the baseline's."""
    for group in now.groups:
        if before is not None and (recorded := before.group(group.by)) is not None:
            yield compare_scenarios(recorded, group)


def note_uncompared(before: Recorded | None, now: Recorded, asked: GateOptions) -> Iterator[str]:
    """Report that a baseline was given and holds no group of this run."""
    if before is None or not now.groups or asked.save_baseline is not None:
        return
    if all(before.group(group.by) is None for group in now.groups):
        fields = dict.fromkeys(name for group in before.groups for name in group.by)
        how = " ".join(f"--by {name}" for name in fields) or "no --by"
        yield f"nothing was compared with the baseline, which was recorded with {how}"


def note_lost_groups(before: Recorded | None, seen: Sequence[Group]) -> Iterator[str]:
    """Report the baseline's groups that this run lacks: a system removed, renamed or not run.

    Groups by other fields than the run's are not lost: `note_uncompared` reports those.
    """
    if before is None or not seen:
        return
    fields = {frozenset(group.by) for group in seen}  # in whichever order --by names them
    there = {frozenset(group.by.items()) for group in seen}
    lost = [
        group.by
        for group in before.groups
        if frozenset(group.by) in fields and frozenset(group.by.items()) not in there
    ]
    if not lost:
        return
    recorded = {frozenset(group.by.items()) for group in before.groups}
    new = [group.by for group in seen if frozenset(group.by.items()) not in recorded]
    renamed = f" (the baseline does not hold {_name_groups(new)})" if new else ""
    yield (
        f"the baseline holds {_name_groups(lost)}, of which this run has no record{renamed}; if "
        "this is on purpose, record it again: --save-baseline FILE"
    )


def _name_groups(keys: Sequence[Mapping[str, Any]]) -> str:
    names = [", ".join(map(str, by.values())) or "the whole" for by in keys[:_NAMED]]
    more = len(keys) - len(names)
    return "; ".join(names) + (f"; and {more:,} more" if more else "")


def note_unrecorded(question: GateQuestion, now: Recorded) -> Iterator[str]:
    """Report the groups that the baseline does not hold, or that the policy's does not exist."""
    before, written = question.given.recorded, question.policy.find(Baseline)
    for group in now.groups:
        if before is not None and before.group(group.by) is None:
            shown = ", ".join(map(str, group.by.values())) or "the whole"
            yield f"not in the baseline, so not compared with it: {shown}"
    if before is None and written is not None and question.asked.save_baseline is None:
        what = f"there is no {written.file}" if written.file else "no baseline is given"
        yield f"{what}, so the run was not compared with a baseline; {RECORD_FIRST}"


def note_missing_tasks(
    before: Recorded | None, moved: Sequence[Changes], *, many: bool
) -> Iterator[str]:
    """Report how many of the baseline's tasks this run lacks, if they are many, or if few."""
    for change in moved:
        recorded = None if before is None else before.group(change.by)
        gone = change.removed.count
        if recorded is None or not gone:
            continue
        tasks = len(recorded.scenarios)
        if (gone >= _MANY * tasks) == many:
            of = f" ({', '.join(map(str, change.by.values()))})" if change.by else ""
            yield (
                f"{gone:,} of {tasks:,} tasks of the baseline are not in this run{of}; "
                "if they were taken out on purpose, record it again: --save-baseline FILE"
            )


def is_recording_asked(asked: GateOptions) -> bool:
    """Return True if the run may be kept as a baseline."""
    return asked.ratchet or bool(asked.save_baseline or asked.save_on_pass)


def keep_baseline(question: GateQuestion, now: Recorded, verdict: str) -> list[str]:
    """Record the run, or raise the baseline, as asked and if it passes; say what was done."""
    asked, before, path = question.asked, question.given.recorded, question.path
    target = asked.save_baseline or asked.save_on_pass
    if verdict != "pass":
        return list(_explain_unsaved(asked, path, verdict)) if target or asked.ratchet else []
    now = replace(now, origin=_describe_origin(asked))
    notices = []
    if target is not None:
        write_baseline(target, now)
        notices.append(f"baseline saved: {target}")
    if asked.ratchet and before is not None and path is not None:
        from calipers.gates.regressions import has_gained  # noqa: PLC0415 (only where asked for)

        gained = partial(has_gained, confidence=question.options.confidence)
        raised, metrics = ratchet(before, now, gained)
        if replace(raised, origin=before.origin).to_dict() != before.to_dict():
            write_baseline(path, raised)
        what = f"raised: {', '.join(metrics)}" if metrics else "nothing to raise"
        notices.append(f"{path}: {what}")
    return notices


def _explain_unsaved(asked: GateOptions, path: Path | None, verdict: str) -> Iterator[str]:
    """Yield why no baseline is written, and how to record one that is worse on purpose."""
    if verdict == "incomplete":
        yield "the run is incomplete: the baseline stays as it is"
    elif asked.save_baseline is not None:
        how = f"; to accept it on purpose, remove {path} first" if path is not None else ""
        yield f"{asked.save_baseline}: not saved, since only a run that passes is recorded{how}"


def _describe_origin(asked: GateOptions) -> dict[str, str]:
    """Return what a baseline is made of: the commit and the build, and hashes of the files."""
    env = os.environ
    known = {
        "commit": env.get("GITHUB_SHA") or env.get("CI_COMMIT_SHA"),
        "build": env.get("GITHUB_RUN_ID") or env.get("CI_PIPELINE_ID"),
        "suite": _hash_file(asked.suite),
        "policy": _hash_file(asked.policy),
    }
    return {key: value for key, value in known.items() if value}


def _hash_file(path: Any) -> str | None:
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, TypeError):  # a policy that is given as a mapping
        return None
