"""What a user can ask of `rank`, and not of `score`."""

from typing import Literal

from calipers.support.errors import UsageError
from calipers.support.options import flag, option
from calipers.support.quick_dataclasses import dataclass

AUTO = "auto"  # a category where there is one, else every task


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """What a user can ask of a ranking."""

    better: Literal["higher", "lower"] | None = option(
        None, "Which values are better, for metrics that do not say so, such as mean(FIELD)."
    )
    tasks: str | bool = option(
        False,  # noqa: FBT003 (the default)
        "Add a column per value of FIELD, a field of the tasks: category or id, for example. "
        "Without FIELD (in Python: True), per category where tasks have one, otherwise per task.",
        group="output",
        metavar="[FIELD]",
        bare=AUTO,
    )
    bradley_terry: bool = flag("Add each system's strength by its wins on common tasks.")
    unpaired: bool = flag(
        "Treat the systems as independent samples, each with all of its own tasks."
    )

    def __post_init__(self) -> None:
        if self.unpaired and (self.tasks or self.bradley_terry):
            raise UsageError(
                "--unpaired compares no tasks, which --tasks and --bradley-terry need",
                fix="leave one of them out",
            )
