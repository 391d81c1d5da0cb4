"""What a user can ask of `compare`, and not of `score`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from calipers.support.options import flag, option
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What a user can ask of a comparison."""

    unpaired: bool = flag("Treat the runs as independent samples: rank tests, Cliff's delta.")
    between: str | None = option(
        None,
        "Compare the parts of one file, one per value of FIELD.",
        group="selection",
        metavar="FIELD",
    )
    attribute: bool = flag("Split the change: model, scorer, tasks added and removed.")
    base_normalize: Literal["numeric", "text"] | None = option(
        None, "With --attribute: how the base's answers were compared when it was scored."
    )
    flips: Path | None = option(
        None, "Write the tasks that flipped to a .jsonl file.", group="output"
    )
    margin: float | str | None = option(
        None,
        "Test whether CANDIDATE is worse by more than M, in the metric's unit (0.02, 2%), and "
        "whether both are equivalent.",
        metavar="M",
    )
    take_flips: "Callable[[pl.DataFrame], object] | None" = None  # is given them, of two runs
    to_first: bool = False  # each side with the first alone, instead of all pairs
    flip_signs: bool = True  # also give the p-value of flipped signs, however many tasks differ
