"""Decide whether records meet a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from calipers.scores.choices import read_options
from calipers.scores.score import Progress
from calipers.scores.signatures import declare_signature
from calipers.support.arguments import as_path_if_any, ignore_progress

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.scores.choices import PolicyLike
    from calipers.scores.keywords import GateKeywords


@declare_signature("gate")
def gate(
    data: Any,
    *,
    policy: PolicyLike,
    release: str | None = None,
    against: str | Path | None = None,
    save_baseline: str | Path | None = None,
    ratchet: bool = False,
    progress: Progress = ignore_progress,
    **options: Unpack[GateKeywords],
) -> GateResult:
    """Decide on records: check every rule of a policy, with the reason where it is not met.

    Args:
        data: Records, as `score` takes them.
        policy: A YAML or JSON file, or the same as a mapping.
        release: The release whose progressive thresholds apply.
        against: A baseline that `save_baseline` recorded: the run must not be worse by more than
            the policy's margins.
        save_baseline: A file to record this run in as a baseline.
        ratchet: Raise the baseline where a run that passes is significantly better.
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
    from calipers.gates.decide import GateOptions, gate_data  # noqa: PLC0415 (loads pydantic)

    asked = GateOptions(
        release=release,
        against=as_path_if_any("against", against),
        save_baseline=as_path_if_any("save_baseline", save_baseline),
        ratchet=ratchet,
    )
    chosen = read_options("gate", options, data, policy=policy)
    return gate_data(data, policy, asked, chosen, progress)
