"""Estimate of a suite: calls, tokens and dollars, from its prompts and the price list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.runs.plan import CallPlace, CallPlan
from calipers.systems.budget import limit_output
from calipers.systems.estimate import SuiteEstimate, SystemEstimate, estimate_tokens
from calipers.systems.pricing import Pricing, find_pricing


def estimate_suite(plan: CallPlan, prices: Sequence[Pricing | None]) -> SuiteEstimate:
    """Count the calls, and price those of models."""
    found = (
        _estimate_model(plan, at, prices[at])
        if system.model is not None
        else SystemEstimate(name=system.name, calls=plan.per_system)
        for at, system in enumerate(plan.suite.systems)
    )
    return SuiteEstimate(systems=(*found, *_estimate_user(plan), *_estimate_judges(plan)))


def _estimate_user(plan: CallPlan) -> Iterator[SystemEstimate]:
    """Yield the calls of the simulated user, at most: its turns, and whether its goal is met."""
    if (spec := plan.suite.user) is not None:
        pricing = find_pricing(spec)
        yield SystemEstimate(
            name="simulated user, at most",
            calls=plan.calls * (spec.max_turns + 1),
            price=None if pricing is None else pricing.source,
        )


def _estimate_judges(plan: CallPlan) -> Iterator[SystemEstimate]:
    """Yield the calls of each judge's models; what they will read is not known yet."""
    for judge in plan.suite.judges:
        for at, model in enumerate(judge.models):
            pricing = find_pricing(model)
            yield SystemEstimate(
                name=f"{model.model}, where unsure" if at else f"{judge.name} (judge)",
                calls=plan.calls * judge.samples,
                price=None if pricing is None else pricing.source,
            )


def _estimate_model(plan: CallPlan, system: int, pricing: Pricing | None) -> SystemEstimate:
    tokens = output = 0
    bounded = True
    for tier in range(max(1, len(plan.suite.tiers))):
        settings = plan.merge_settings(system, CallPlace(0, tier, 1))
        most = limit_output(settings)
        bounded = bounded and most is not None
        output += (most or 0) * len(plan.tasks)
        for task in range(len(plan.tasks)):
            tokens += estimate_tokens(plan.fill_prompt(CallPlace(task, tier, 1)))
    tokens, output = tokens * plan.suite.runs, output * plan.suite.runs
    return SystemEstimate(
        name=plan.suite.systems[system].name,
        calls=plan.per_system,
        input_tokens=tokens,
        output_tokens=output if bounded else None,
        input_usd=None if pricing is None else _price_calls(pricing, tokens, 0, plan.per_system),
        most_usd=_price_calls(pricing, tokens, output, plan.per_system)
        if pricing and bounded
        else None,
        price=None if pricing is None else pricing.source,
    )


def _price_calls(pricing: Pricing, tokens: int, output: int, calls: int) -> float:
    """Return the cost, priced call by call: long prompts may cost more per token."""
    return pricing.price_tokens(input=tokens / calls, output=output / calls) * calls
