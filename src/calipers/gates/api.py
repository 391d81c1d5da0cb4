"""Decide whether records meet a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from calipers.gates.options import GateOptions
from calipers.scores.choices import declare_signature, read_options, take_own
from calipers.scores.score import Progress
from calipers.support.arguments import ignore_progress

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.support.keywords import GateKeywords


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
    from calipers.gates.decide import gate_data  # noqa: PLC0415 (loads pydantic)

    asked, others = take_own("gate", GateOptions, options)
    chosen = read_options("gate", others, data, policy=asked.policy)
    return gate_data(data, asked, chosen, progress)
