"""What a kind of finding is: a name, and what finds it in the facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.results import Finding


class FindingKind(ABC):
    """Something that can be wrong with records. List a new one in this folder's `__init__`.

    A false alarm is worse than silence: a kind yields nothing where there are few records, and
    nothing that chance or a usual way to work explains.
    """

    name: ClassVar[str]

    @abstractmethod
    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield what looks wrong, mostly once per system."""


def share_of(count: int, of: int) -> str:
    """Return a count with its share in words.

    >>> share_of(3, 120)
    '3 of 120 (2.5 %)'
    """
    return f"{count:,} of {of:,} ({100 * count / of:.2g} %)" if count < of else f"all {of:,}"
