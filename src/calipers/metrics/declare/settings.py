"""What a user can choose about how metrics are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from calipers.metrics.agents.weights import AgentWeights
from calipers.metrics.cost.prices import Prices
from calipers.metrics.scenarios.case_weights import CaseWeights
from calipers.metrics.traces.graphs import OptimalTools

if TYPE_CHECKING:
    from calipers.metrics.checks.checks import Checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each choice with its default; the output names them all."""

    normalize: Literal["numeric", "text"] = "numeric"
    bins: int = 10
    tokenizer: str = "whitespace"
    pass_weight: float = 0.5
    impl_weight: float = 0.5
    prices: Prices | None = None
    judge_cost: Literal["apart", "included"] = "apart"
    errors: Literal["exclude", "fail"] = "exclude"  # failed calls: in no metric, or failures
    pass_score: float = 1.0  # of a scenario, from which on it passed
    positive: str | None = None  # the label that counts as positive
    latency_budget_ms: float = 5000.0
    case_weights: CaseWeights | None = None
    optimal_tools: OptimalTools | None = None
    start: str | None = None  # of the way through the tools; else the first call's tool
    goal: str | None = None  # else the last call's
    weights: AgentWeights | None = None  # of the parts of the agents' composite; else P's
    semantic_model: str = "distilbert-base-uncased"
    semantic_cache: str | None = None  # a folder; it saves time and changes no number
    missing: Literal["zero", "renormalize"] = "zero"  # what a null part does to what it is part of
    success_threshold: float = 0.8
    checks: Checks | None = None  # what replies are tested for before anything is measured
    threshold_from: str | None = None  # where the threshold comes from, if it was measured
