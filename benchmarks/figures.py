"""What is measured: figures with their bars, and costs of a command at a size; their table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

from benchmarks.processes import Run

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
        """Return the figure as JSON has it."""
        return {
            "name": self.name,
            "value": None if isnan(self.value) else self.value,
            "unit": self.unit,
            "bar": None if self.bar is None else self._limit(self.bar),
            "verdict": self.verdict.lower(),
            "detail": self.detail,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the figure as the table has it."""
        bar = "" if self.bar is None else self._limit(self.bar)
        return self.name, self._shown(self.value), bar, self.verdict, self.detail

    def _limit(self, bar: Bar) -> str:
        return f"{'≥' if bar.at_least else '≤'} {self._shown(bar.limit)}"

    def _shown(self, value: float) -> str:
        digits = ".3g" if abs(value) < 100 else ",.0f"
        return f"{value:{digits}}{'' if self.unit == TIMES else ' '}{self.unit}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a command takes at a size: a cell of a table of commands and sizes."""

    command: str
    over: str  # what the size counts: rows, groups, …
    size: int
    cpu_seconds: float
    seconds: float
    peak_mb: float
    finished: bool  # within the limit of a process

    is_missed = False  # a cost has no bar

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as JSON has it."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }

    def cells(self) -> tuple[str, ...]:
        """Return the cost as the table has it."""
        took = f"{self.cpu_seconds:.2f} s" if self.finished else "not in time"
        name = f"{self.command}, {self.size:,} {self.over}"
        return (
            name,
            took,
            "",
            "report",
            f"{self.seconds:.2f} s by the clock, {self.peak_mb:,.0f} MB",
        )


def cost_of(run: Run, command: str, over: str, size: int) -> Cost:
    """Return what a process took as the cost of a command."""
    return Cost(
        command=command,
        over=over,
        size=size,
        cpu_seconds=run.cpu_seconds,
        seconds=run.seconds,
        peak_mb=run.peak_mb,
        finished=run.finished,
    )


def table(figures: Iterable[Figure | Cost]) -> str:
    """Return all figures, a line each."""
    rows = [("figure", "measured", "bar", "verdict", ""), *(each.cells() for each in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(
            (*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1])
        )
        for row in rows
    )


def versus(a: Run, b: Run) -> str:
    """Show the two sides of a ratio: of processors, by the clock, and in memory."""
    return (
        f"{a.cpu_seconds:.2f} s / {b.cpu_seconds:.2f} s, by the clock {a.seconds:.2f} s / "
        f"{b.seconds:.2f} s, {a.peak_mb:,.0f} MB / {b.peak_mb:,.0f} MB"
    )
