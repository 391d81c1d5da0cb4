"""What a user can ask of `gate`, and not of `score`.

A field that `option` makes is an option of the command line and a keyword in Python.
"""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.support.options import flag, option

if TYPE_CHECKING:
    from calipers.gates.result import Early


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The policy, and what a user can ask of a gate beside it."""

    policy: Any = option(
        MISSING,
        "The policy to decide by, YAML or JSON; `calipers init` writes one to start from.",
        group="input",
        metavar="FILE",
        python="PolicyLike",
    )
    release: str | None = option(
        None,
        "Apply the progressive thresholds of release NAME.",
        group="selection",
        metavar="NAME",
    )
    against: Path | None = option(
        None,
        "Compare with the baseline in FILE: no worse by more than the policy's margins.",
        group="input",
    )
    save_baseline: Path | None = option(
        None, "Record this run as a baseline, if it passes.", group="output"
    )
    ratchet: bool = flag(
        "Raise the baseline where a run that passes is significantly better.", group="output"
    )
    sabotage: bool = flag(
        "Break the records on purpose, in doses, and list which damage the gate does not notice.",
        group="output",
    )
    save_on_pass: Path | None = None  # the same, for a run that needs an earlier one all the same
    suite: Path | None = None  # that made the records, as the baseline tells
    incomplete: tuple[str, ...] = ()  # why the records are not the whole run
    early: "Early | None" = None  # of a run that may end as soon as it is decided
