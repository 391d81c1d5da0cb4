"""A judged mean without the judge's error, as it stands in a score."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A judged mean without the judge's error; a null has its reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    n: int  # records that people rated as well
    reason: str | None = None
    assumes: str | None = None  # what has to hold for it
    overlap: int = 0  # of the rated records, those among the judged ones

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")
