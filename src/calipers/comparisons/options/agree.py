"""What a user can ask of `agree`, and not of `score`."""

from typing import Literal

from calipers.support.errors import UsageError
from calipers.support.options import option, split_names
from calipers.support.quick_dataclasses import dataclass


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
