"""What comes out for a pair of texts."""

from __future__ import annotations

from typing import NamedTuple

Pair = tuple[str, str]  # answer and reference


class Match(NamedTuple):
    """How far each side of a pair is found in the other."""

    precision: float
    recall: float
    cut: bool = False  # whether only the beginning of a text took part

    @property
    def f1(self) -> float:
        """The harmonic mean; 0 where nothing was found.

        >>> Match(0.5, 1.0).f1
        0.6666666666666666
        """
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0
