"""What the tasks of a score are worth as items of a test, in counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FEWEST_SYSTEMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """What the tasks are worth as items of a test: counts over different ids."""

    tasks: int
    systems: int
    nobody: int
    everybody: int
    duplicates: int
    examples: tuple[tuple[str, str], ...]  # some duplicates, and what each is one of

    @property
    def reason(self) -> str | None:
        """Why no task has a discrimination; None where there are systems enough."""
        if self.systems >= FEWEST_SYSTEMS:
            return None
        return f"discrimination needs {FEWEST_SYSTEMS} systems or more, here {self.systems}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the items."""
        return {
            "tasks": self.tasks,
            "systems": self.systems,
            "solved_by_nobody": self.nobody,
            "solved_by_everybody": self.everybody,
            "duplicates": self.duplicates,
            "reason": self.reason,
        }
