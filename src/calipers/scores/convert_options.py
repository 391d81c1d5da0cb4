"""The options of `convert`: how records are read, and what of them is written."""

from dataclasses import dataclass
from typing import Literal

from calipers.records.reading_options import ReadingOptions
from calipers.support.options import option


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(ReadingOptions):
    """Everything a user can ask of `convert`."""

    tasks: Literal["failing", "flaky", "flagged"] | None = option(
        None,
        "Write what was asked where records fail, where they pass and fail, or where judgments "
        "have flags: tasks for a suite, each once.",
        group="output",
        commands=("convert",),
    )
