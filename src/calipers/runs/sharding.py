"""A part of a suite's tasks, for one of several processes or machines that share a run."""

from __future__ import annotations

import re
from dataclasses import replace

from calipers.records.tasks import Tasks
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
_EXAMPLE = "for example --shard 2/8, the second of eight"


@dataclass(frozen=True, slots=True)
class Shard:
    """The I-th of N parts, counted from 1: every N-th task of the data."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read I/N, or raise UsageError."""
        match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(f"--shard {text}: not I/N with I from 1 to N", fix=_EXAMPLE)
        return cls(int(match[1]), int(match[2]))

    def select(self, tasks: Tasks) -> Tasks:
        """Return the tasks of this shard, in the order of the data."""
        own = tasks.tasks[self.number - 1 :: self.of]
        if not own:
            raise UsageError(
                f"--shard {self}: there are {len(tasks)} tasks, and none for this shard",
                fix=f"at most {len(tasks)} shards",
            )
        return replace(tasks, tasks=own)

    def divide_usd(self, budget: float | None) -> float | None:
        """Return this shard's part of a sum of money."""
        return None if budget is None else budget / self.of

    def divide_calls(self, budget: int | None) -> int | None:
        """Return this shard's part of a number of calls; the parts of all add up to it.

        >>> [Shard(number, 3).divide_calls(10) for number in (1, 2, 3)]
        [4, 3, 3]
        """
        if budget is None:
            return None
        each, more = divmod(budget, self.of)
        return each + (self.number <= more)


WHOLE = Shard(1, 1)
