"""Values with their intervals; a null has its reason. Nothing heavy is imported here."""

from __future__ import annotations

from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval, and how many units stand behind it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    n: int
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected(Estimate):
    """A judged mean without the judge's error; n counts the records that people rated as well."""

    assumes: str | None = None  # what has to hold for it
    overlap: int = 0  # of the rated records, those among the judged ones
