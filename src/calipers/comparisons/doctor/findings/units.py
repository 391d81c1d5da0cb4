"""Costs and times that look as if they were in another unit."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import (
    COMPLETION,
    COST,
    DURATION,
    LATENCY,
    PROMPT,
    Facts,
)
from calipers.comparisons.doctor.findings.kind import FindingKind
from calipers.comparisons.doctor.results import Finding

_ENOUGH = 10
_DEAREST, _CHEAPEST = 2_000.0, 0.001  # USD per million tokens
_FASTEST = 20_000.0  # tokens per second: faster is no model's pace
_THOUSAND = (500.0, 2_000.0)


class Units(FindingKind):
    """Costs per token that no model has, and latencies that are seconds."""

    name = "units"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield odd costs, and times that contradict the tokens or each other."""
        yield from self._check_costs(facts)
        yield from self._check_times(facts)

    def _check_costs(self, facts: Facts) -> Iterator[Finding]:
        tokens = pl.col(PROMPT).fill_null(0) + pl.col(COMPLETION).fill_null(0)
        known = facts.ended.filter((pl.col(COST) > 0) & (tokens > 0))
        if known.height < _ENOUGH:
            return
        price = known.select(pl.col(COST) / tokens * 1e6).to_series().median()
        if not isinstance(price, float) or _CHEAPEST <= price <= _DEAREST:
            return
        unit = "cents or millionths of a dollar" if price > _DEAREST else "thousands of dollars"
        says = f"cost_usd comes to {price:,.3g} USD per million tokens (median): is it in {unit}?"
        yield self._make_finding(facts, known, says, "give the cost in US dollars")

    def _check_times(self, facts: Facts) -> Iterator[Finding]:
        both = facts.ended.filter((pl.col(LATENCY) > 0) & (pl.col(DURATION) > 0))
        if both.height >= _ENOUGH:
            ratio = both.select(pl.col(DURATION) * 1000 / pl.col(LATENCY)).to_series().median()
            if isinstance(ratio, float) and _THOUSAND[0] <= ratio <= _THOUSAND[1]:
                says = "duration_seconds is about 1000 times latency_ms: one is in the other's unit"
                fix = "give latency_ms in milliseconds, duration_seconds in seconds"
                yield self._make_finding(facts, both, says, fix)
                return
        spoken = facts.ended.filter((pl.col(LATENCY) > 0) & (pl.col(COMPLETION) > 0))
        if spoken.height >= _ENOUGH:
            pace = spoken.select(pl.col(COMPLETION) * 1000 / pl.col(LATENCY)).to_series().median()
            if isinstance(pace, float) and pace > _FASTEST:
                says = f"{pace:,.0f} completion tokens per second (median): latency_ms looks like "
                says += "seconds"
                yield self._make_finding(facts, spoken, says, "give latency_ms in milliseconds")

    def _make_finding(self, facts: Facts, rows: pl.DataFrame, says: str, fix: str) -> Finding:
        return Finding(
            kind=self.name,
            severity="warning",
            says=says,
            fix=fix,
            count=rows.height,
            of=facts.ended.height,
            examples=facts.examples(rows),
        )
