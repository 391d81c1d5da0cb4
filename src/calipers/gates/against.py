"""A run against its baseline: which file to read, what has changed, and what to record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.gates.baselines import (
    RECORD_FIRST,
    Recorded,
    list_changes,
    ratchet,
    read_baseline,
    write_baseline,
)
from calipers.gates.regressions import has_gained
from calipers.gates.result import Changes
from calipers.gates.rules.baseline import Baseline
from calipers.support.errors import UsageError

if TYPE_CHECKING:
    from calipers.gates.decide import GateQuestion
    from calipers.gates.options import GateOptions
    from calipers.gates.policy import Policy

_MANY = 0.1  # share of the baseline's tasks: a run that lacks more does not pass


def find_baseline(policy: Policy, asked: GateOptions) -> Path | None:
    """Return the baseline to compare the run with: the one asked for, otherwise the policy's.

    None where there is none yet and the policy does not require one. Raises UsageError where the
    policy or an option needs one, and none is named.
    """
    written = policy.find(Baseline)
    if asked.against is not None:
        return asked.against
    is_required = written is not None and written.required
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
            yield list_changes(recorded, group)


def tell_uncompared(before: Recorded | None, now: Recorded, asked: GateOptions) -> Iterator[str]:
    """Report that a baseline was given and holds no group of this run."""
    if before is None or not now.groups or asked.save_baseline is not None:
        return
    if all(before.group(group.by) is None for group in now.groups):
        fields = dict.fromkeys(name for group in before.groups for name in group.by)
        how = " ".join(f"--by {name}" for name in fields) or "no --by"
        yield f"nothing was compared with the baseline, which was recorded with {how}"


def tell_unrecorded(question: GateQuestion, now: Recorded) -> Iterator[str]:
    """Report the groups that the baseline does not hold, or that the policy's does not exist."""
    before, written = question.given.recorded, question.policy.find(Baseline)
    for group in now.groups:
        if before is not None and before.group(group.by) is None:
            shown = ", ".join(map(str, group.by.values())) or "the whole"
            yield f"not in the baseline, so not compared with it: {shown}"
    if before is None and written is not None and question.asked.save_baseline is None:
        what = f"there is no {written.file}" if written.file else "no baseline is given"
        yield f"{what}, so the run was not compared with a baseline; {RECORD_FIRST}"


def tell_gone(before: Recorded | None, moved: Sequence[Changes], *, many: bool) -> Iterator[str]:
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


def keep_baseline(question: GateQuestion, now: Recorded, verdict: str) -> list[str]:
    """Record the run, or raise the baseline, as asked; say what was done, or why not."""
    asked, before, path = question.asked, question.given.recorded, question.path
    if verdict == "incomplete":
        skipped = asked.save_baseline is not None or asked.ratchet
        return ["the run is incomplete: the baseline stays as it is"] if skipped else []
    said = []
    if asked.save_baseline is not None:
        write_baseline(asked.save_baseline, now)
        said.append(f"baseline saved: {asked.save_baseline}")
    if asked.ratchet and verdict == "pass" and before is not None and path is not None:
        gained = partial(has_gained, confidence=question.options.confidence)
        raised, metrics = ratchet(before, now, gained)
        if raised.to_dict() != before.to_dict():
            write_baseline(path, raised)
        what = f"raised: {', '.join(metrics)}" if metrics else "nothing to raise"
        said.append(f"{path}: {what}")
    return said
