"""A figure: a measured ratio, its bar, and whether it is met; and the table of them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.contest import Run

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Bar:
    """The least or the most that a figure may be."""

    limit: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        """Whether a value is on the good side."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table; without a bar it only reports."""

    name: str
    value: float
    unit: str = TIMES
    bar: Bar | None = None
    binding: bool = True  # not with fewer rows than the bar is set for
    detail: str = ""

    @property
    def verdict(self) -> str:
        """How the value stands to the bar; in parentheses where that does not count."""
        if self.bar is None:
            return "report"
        word = "pass" if self.bar.is_met(self.value) else "MISS"
        return word if self.binding else f"({word.lower()})"

    @property
    def is_missed(self) -> bool:
        """Whether the bar counts and the value is on its wrong side."""
        return self.binding and self.bar is not None and not self.bar.is_met(self.value)

    def to_dict(self) -> dict[str, Any]:
        """Give the figure as JSON has it."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "bar": None if self.bar is None else self._limit(self.bar),
            "verdict": self.verdict.lower(),
            "detail": self.detail,
        }

    def cells(self) -> tuple[str, ...]:
        """Give the figure as the table has it."""
        bar = "" if self.bar is None else self._limit(self.bar)
        return self.name, self._shown(self.value), bar, self.verdict, self.detail

    def _limit(self, bar: Bar) -> str:
        return f"{'≥' if bar.at_least else '≤'} {self._shown(bar.limit)}"

    def _shown(self, value: float) -> str:
        digits = ".3g" if abs(value) < 100 else ",.0f"
        return f"{value:{digits}}{'' if self.unit == TIMES else ' '}{self.unit}".rstrip()


def table(figures: Iterable[Figure]) -> str:
    """All figures, a line each."""
    rows = [("figure", "measured", "bar", "verdict", ""), *(each.cells() for each in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(
            (*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1])
        )
        for row in rows
    )


def versus(a: Run, b: Run) -> str:
    """Show the two times behind a ratio; processor time stays put where others keep it busy."""
    return (
        f"{a.seconds:.2f} s / {b.seconds:.2f} s, "
        f"of processors {a.cpu_seconds:.2f} s / {b.cpu_seconds:.2f} s"
    )
