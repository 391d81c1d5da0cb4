"""How records are read: options of every command that reads them, each declared here alone.

A field that `option` makes is an option of the commands that it names and a keyword in Python.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from calipers.support.errors import UsageError
from calipers.support.options import option
from calipers.support.quick_dataclasses import dataclass

MEASURING = ("score", "gate", "compare", "rank", "report", "explain", "power")

_READING = (*MEASURING, "agree", "convert", "doctor", "read", "judge", "view")
_ON_SPARK = ("score", "gate", "compare", "rank", "report", "explain", "convert")

_option = partial(option, group="input")


def _parse_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise UsageError(f"--map {pair}: not FIELD=NAME", fix="for example --map answer=output")
        found[name.strip()] = theirs.strip()
    return found


def _choose_master(address: str | None) -> str | None:
    if address is None:
        return None
    from calipers.records.spark.master import choose_master  # noqa: PLC0415 (an extra)

    return choose_master(address)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Everything a user can ask of reading."""

    map: Mapping[str, str] = _option(
        {},
        "Read the record's FIELD from the data's NAME (repeatable).",
        metavar="FIELD=NAME",
        parse=_parse_pairs,
        commands=(*_READING, "audit"),
    )
    source: str | None = _option(
        None,
        "Read the files as logs of NAME, whatever is in them; `records` reads none as a log.",
        metavar="NAME",
        commands=_READING,
    )
    join: Path | None = _option(
        None,
        "Add the fields of the tasks in FILE, such as targets, to the records.",
        metavar="FILE",
        commands=_READING,
    )
    on: str | None = _option(
        None,
        "With --join: the field that is the same in record and task [id]; "
        "RECORD=TASK if they call it differently.",
        metavar="FIELD",
        commands=_READING,
    )
    on_bad: Literal["stop", "skip"] = _option(
        "stop",
        "Stop at the first bad row, or leave bad rows out and count them.",
        commands=(*MEASURING, "audit", "convert", "judge"),
    )
    bad_rows: Path | None = _option(
        None,
        "With --on-bad skip: write the bad rows and their reasons to a .jsonl file.",
        commands=("score", "convert"),
    )
    engine: str | None = _option(
        None,  # Spark for its own tables
        "Run on this machine, or on a Spark cluster: the same numbers; Spark's tables stay there.",
        kind="choice",
        choices=("polars", "spark"),
        python="str | None",
        commands=_ON_SPARK,
    )
    spark_master: str | None = _option(
        None,
        "Start Spark on a cluster: spark://HOST:PORT, yarn, k8s://URL, local[N], or sc://HOST.",
        metavar="URL",
        read=_choose_master,
        commands=_ON_SPARK,
    )

    def __post_init__(self) -> None:
        if self.bad_rows is not None and self.on_bad != "skip":
            raise UsageError("--bad-rows needs --on-bad skip", fix="add --on-bad skip")
