"""Estimates of calls: their number, tokens and dollars."""

from __future__ import annotations

from calipers.support.quick_dataclasses import dataclass

_BYTES_PER_TOKEN = 4  # of plain English; other texts have fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEstimate:
    """What one system's calls would take."""

    name: str
    calls: int
    input_tokens: int | None = None  # about
    output_tokens: int | None = None  # at most
    input_usd: float | None = None
    most_usd: float | None = None
    price: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEstimate:
    """What a suite would take, from an empty folder."""

    systems: tuple[SystemEstimate, ...]

    @property
    def calls(self) -> int:
        """In all."""
        return sum(each.calls for each in self.systems)


def estimate_tokens(prompt: str) -> int:
    """Return roughly how many tokens a prompt has."""
    return len(prompt.encode()) // _BYTES_PER_TOKEN + 1
