"""What a user can choose about how metrics are computed, and the settings that come of it.

Every function of the API and every command that measures takes these choices; files that they name
are read here, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from calipers.metrics.agents.weights import read_weights
from calipers.metrics.cost.prices import read_prices
from calipers.metrics.declare.settings import Settings
from calipers.metrics.scenarios.case_weights import CaseWeights
from calipers.metrics.traces.graphs import read_optimal_tools
from calipers.scores.options import Options
from calipers.scores.thresholds import with_threshold

if TYPE_CHECKING:
    from calipers.gates.policy import Policy

    PolicyLike = str | Path | Mapping[str, Any] | Policy

File = str | Path


class Choices(TypedDict, total=False):
    """How metrics are computed; each has a default."""

    normalize: Literal["numeric", "text"]  # compare numbers by value, or answers as text
    bins: int  # of the ECE
    tokenizer: str  # whitespace, a tokenizer.json file, or a name on the hub
    pass_weight: float  # of passing in composite_score
    impl_weight: float  # of impl_rate in it
    prices: File | None  # of models, USD per million tokens
    judge_cost: Literal["apart", "included"]  # what judging cost: a metric, or part of cost_usd
    errors: Literal["exclude", "fail"]  # failed calls: in no metric, or counted as failures
    pass_score: float  # of a scenario, from which on it passed
    positive: str | None  # the label that counts as positive
    latency_budget_ms: float | None  # of final_score
    case_weights: CaseWeights | None  # of scenarios, by category and capability
    optimal_tools: File | None  # which tool a call's context calls for
    start: str | None  # of the way through the tools
    goal: str | None
    weights: File | None  # of the parts of agent_composite
    semantic_model: str  # a name or a folder
    semantic_cache: File | None  # where the model's scores are kept
    missing: Literal["zero", "renormalize"]  # what a null part does to what it is part of
    checks: File | Sequence[Mapping[str, Any]] | Mapping[str, Any] | None  # of replies
    success_threshold: float | str  # a number, or FILE:Q, a quantile of the similarity of pairs


def with_choices(options: Options, choices: Choices, policy: PolicyLike | None = None) -> Options:
    """The options with the settings that were chosen.

    A policy brings the weights of scenarios and the latency budget, where they are not chosen.
    """
    chosen: dict[str, Any] = dict(choices)
    threshold = chosen.pop("success_threshold", None)
    if chosen.get("checks") is not None:
        from calipers.metrics.checks.checks import read_checks  # noqa: PLC0415 (loads pydantic)

        chosen["checks"] = read_checks(chosen["checks"])
    readers = {"prices": read_prices, "optimal_tools": read_optimal_tools, "weights": read_weights}
    for name, read in readers.items():
        if chosen.get(name) is not None:
            chosen[name] = read(chosen[name])
    if chosen.get("semantic_cache") is not None:
        chosen["semantic_cache"] = str(chosen["semantic_cache"])
    beyond = {name: chosen.pop(name, None) for name in ("latency_budget_ms", "case_weights")}
    settings = Settings(**chosen)
    if policy is not None:
        from calipers.gates.policy import read_policy  # noqa: PLC0415 (loads pydantic)

        settings = read_policy(policy).applied(settings)
    given = {name: value for name, value in beyond.items() if value is not None}
    options = replace(options, settings=replace(settings, **given))
    return options if threshold is None else with_threshold(options, threshold)
