"""What a user can ask of `doctor`, and not of `score`."""

from calipers.support.options import flag
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """What a user can ask of an examination."""

    strict: bool = flag("Exit with 1 where a problem or a warning was found.", group="output")
