"""What a user can ask of `power`, and not of `score`."""

from calipers.support.errors import UsageError
from calipers.support.options import option, split_names
from calipers.support.quick_dataclasses import dataclass


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
