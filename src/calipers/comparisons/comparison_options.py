"""The options of `compare`, `rank`, `power`, `agree` and `doctor` that `score` does not have.

A field made by `option` is an option on the command line and a keyword in Python. Nothing heavy is
imported here: `--help` reads it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from calipers.support.errors import UsageError
from calipers.support.options import flag, option, split_names

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class AgreeOptions:
    """The fields that hold raters, ratings and units; without a unit, each row is one."""

    raters: tuple[str, ...] = option(
        (),
        "Columns with one rater's ratings each, or names of judges; by default all judges.",
        parse=split_names,
        metavar="A,B,…",
    )
    unit: tuple[str, ...] = option(
        (),
        "The fields that identify what was rated; by default each row is one unit.",
        parse=split_names,
        metavar="FIELD,…",
    )
    value: str | None = option(
        None,
        "Which rating: weighted_score (the default), passed or scores.NAME of judgments; "
        "a column with --rater-field.",
        metavar="FIELD",
    )
    rater_field: str | None = option(
        None, "A row per rating: the rater is in FIELD.", metavar="FIELD"
    )
    level: Literal["nominal", "ordinal", "interval"] = option(
        "interval",
        "Type of the ratings: labels, ranks or numbers. Measures that need more are left out.",
    )
    cluster: tuple[str, ...] = option(
        (),
        "Treat units that share FIELD as dependent; by default the runs of an id.",
        parse=split_names,
        metavar="FIELD,…",
    )
    seed: int = option(0, "Recorded in the output; nothing is resampled.")

    def __post_init__(self) -> None:
        if len(self.raters) == 1 or len(set(self.raters)) < len(self.raters):
            raise UsageError(
                f"--raters {','.join(self.raters)}: agreement is between different raters",
                fix="name two or more, each once: --raters human,judge",
            )
        if self.rater_field is not None and not (self.value and self.unit):
            raise UsageError(
                "--rater-field needs --value and --unit",
                fix="for a row per rating: --rater-field judge --value score --unit id,run",
            )


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What a user can ask of a comparison."""

    unpaired: bool = flag("Treat the runs as independent samples: Welch's t, Cliff's delta.")
    between: str | None = option(
        None,
        "Compare the parts of one file, one per value of FIELD.",
        group="selection",
        metavar="FIELD",
    )
    base: str | None = option(
        None,
        "With --between: the value of FIELD that is the base; each of the others is compared "
        "with it alone.",
        group="selection",
        metavar="VALUE",
        may_be_empty=True,
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


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """What a user can ask of an examination."""

    strict: bool = flag("Exit with 1 where a problem or a warning was found.", group="output")


def _parse_numbers(texts: tuple[str, ...]) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(word) for word in split_names(texts)}))
    except ValueError:
        raise UsageError(
            f"--runs {','.join(texts)}: not whole numbers", fix="for example --runs 1,2,4"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOptions:
    """What a comparison should see, and how surely."""

    delta: float | None = option(
        None,
        "The difference to detect; by default 0.05, or 5 % of a value outside [0, 1].",
        metavar="D",
        above=0,
        fix="a number above 0 in the metric's unit, for example 0.05",
    )
    power: float = option(0.8, "Probability of detecting the difference.", metavar="P")
    confidence: float = option(
        0.95,
        "Confidence level of the test that is planned.",
        metavar="C",
        above=0,
        below=1,
        fix="for example 0.95",
    )
    correlation: float = option(
        0.5,  # Miller found 0.3 to 0.7 between the question scores of strong models
        "Correlation of the two systems' task scores, without CANDIDATE.",
        metavar="R",
        at_least=-1,
        below=1,
        fix="for example 0.5; between strong models 0.3 to 0.7 was found",
    )
    runs: tuple[int, ...] = option(
        (1, 2, 4, 8, 16),
        "Runs of each task to plan for (repeatable).",
        metavar="K,…",
        parse=_parse_numbers,
    )
    width: float | None = option(
        None,
        "Also plan for an interval of the value that is W wide, from low to high.",
        metavar="W",
        above=0,
        fix="a number above 0 in the metric's unit, from low to high, for example 0.1",
    )

    def __post_init__(self) -> None:
        chance = 1 - self.confidence
        if not chance < self.power < 1:
            raise UsageError(
                f"--power {self.power:g}: not between {chance:.3g}, which chance reaches, and 1",
                fix="for example 0.8",
            )
        if not self.runs or min(self.runs) < 1:
            raise UsageError(
                f"--runs {','.join(map(str, self.runs))}: a task is run once or more",
                fix="for example --runs 1,2,4",
            )


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
