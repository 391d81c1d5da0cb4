"""Decide whether records meet a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.scores.choices import Choices, with_choices
from calipers.scores.options import Options
from calipers.scores.score import Progress
from calipers.support.arguments import names, no_progress, path_of

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.scores.choices import PolicyLike


def gate(
    data: Any,
    *,
    policy: PolicyLike,
    release: str | None = None,
    against: str | Path | None = None,
    save_baseline: str | Path | None = None,
    ratchet: bool = False,
    by: str | Sequence[str] = (),
    engine: str = "polars",
    rename: Mapping[str, str] | None = None,
    on_bad: Literal["stop", "skip"] = "stop",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    progress: Progress = no_progress,
    **choices: Unpack[Choices],
) -> GateResult:
    """Decide on records: every demand of a policy, with the reason where it is not met.

    `policy` is a YAML or JSON file, or the same as a mapping. `against` names a baseline that
    `save_baseline` recorded: the run must not be worse by more than the policy's margins. `ratchet`
    raises it where a run that passes is significantly better.

    >>> demands = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}
    >>> records = [{"answer": "4", "target": "4"}, {"answer": "5", "target": "4"}]
    >>> decided = gate(records, policy=demands)
    >>> decided.verdict, decided.checks[0].reason.partition(";")[0]
    ('fail', '50 %, required ≥ 90 %')
    """
    from calipers.gates.decide import GateOptions, gate_data  # noqa: PLC0415 (loads pydantic)

    options = Options(
        by=names(by),
        engine=engine,
        renames=rename or {},
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    asked = GateOptions(
        release=release,
        against=path_of(against),
        save_baseline=path_of(save_baseline),
        ratchet=ratchet,
        latency_budget_ms=choices.get("latency_budget_ms"),
    )
    return gate_data(data, policy, asked, with_choices(options, choices), progress)
