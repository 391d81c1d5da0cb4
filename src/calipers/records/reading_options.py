"""The options of every command that reads records, and how they take effect.

A field of `ReadingOptions` is an option of the commands that it names and a keyword in Python.
Those that concern the files themselves (a forced log reader, tasks to join, columns of answers, a
Spark master) apply to whatever is opened while they are in effect.
"""

import csv
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from calipers.support.errors import UsageError
from calipers.support.options import Option, option, read_options

_REMOTE = "sc://"
_MASTER: ContextVar[str | None] = ContextVar("master", default=None)


def choose_master(address: str) -> str:
    """Remember the cluster that a session is started on: a master's URL, or `sc://…`."""
    _MASTER.set(address)
    return address


def get_master() -> str | None:
    """Return the address that was chosen, or None."""
    return _MASTER.get()


def is_remote(address: str | None) -> bool:
    """Return True if a session is one of Spark Connect: by its address, or by SPARK_REMOTE."""
    return address.startswith(_REMOTE) if address else bool(os.environ.get("SPARK_REMOTE"))


MEASURING = ("score", "gate", "compare", "rank", "report", "explain", "power")

_READING = (*MEASURING, "agree", "convert", "doctor", "read", "judge", "view")
_ON_SPARK = ("score", "gate", "compare", "rank", "report", "explain", "convert")

_option = partial(option, group="input")


def parse_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the pairs FIELD=NAME as a mapping; raise UsageError for anything else."""
    names: dict[str, str] = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise UsageError(f"--map {pair}: not FIELD=NAME", fix="for example --map answer=output")
        # A column's name may begin with a space: only `FIELD = NAME` is layout.
        names[name.strip()] = theirs.strip() if name.endswith(" ") else theirs
    return names


def split_columns(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in texts of names with commas between them; quotes hold a comma together."""
    return tuple(name for row in csv.reader(texts) for name in row if name.strip())


def _choose_master(address: str | None) -> str | None:
    if address is None:
        return None

    return choose_master(address)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Everything a user can ask of reading."""

    map: Mapping[str, str] = _option(
        {},
        "Read the record's FIELD from the data's NAME (repeatable).",
        metavar="FIELD=NAME",
        parse=parse_pairs,
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
    answers: tuple[str, ...] = _option(
        (),
        "A wide table: each of these columns holds the answers of a system, its `model`.",
        parse=split_columns,
        metavar="COLUMN,…",
        commands=(*MEASURING, "convert", "doctor"),
    )
    on_bad: Literal["stop", "skip", "null"] = _option(
        "stop",
        "Stop at the first bad row, leave bad rows out and count them, or make numbers outside "
        "their range null, count them and keep the row.",
        commands=(*MEASURING, "audit", "convert", "judge"),
    )
    bad_rows: Path | None = _option(
        None,
        "With --on-bad skip or null: write the bad rows and their reasons to a .jsonl file.",
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
        for name, theirs in self.map.items() if self.answers else ():
            if name in ("model", "answer") or theirs in (*self.answers, "model", "answer"):
                raise UsageError(
                    f"--map {name}={theirs}: with --answers, the columns are the answers, and "
                    "their names the models",
                    fix="leave one of the two out",
                )
        if self.bad_rows is not None and self.on_bad == "stop":
            raise UsageError("--bad-rows needs --on-bad skip", fix="add --on-bad skip")


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


P = ParamSpec("P")
R = TypeVar("R")

READING_KEYWORDS = ("source", "join", "on", "answers")


@dataclass(frozen=True, slots=True)
class ReadingChoices:
    """The log reader that is forced, the file of tasks to join by a field, columns of answers."""

    source: str | None = None
    join: Path | None = None
    on: str | None = None
    answers: tuple[str, ...] | None = ()  # of a wide table, one for each system

    def __post_init__(self) -> None:
        if self.on is not None and self.join is None:
            raise UsageError(f"--on {self.on} needs --join", fix="name the tasks: --join FILE")

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Read the files that are opened inside, in this thread, in this way."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


DEFAULT_READING = ReadingChoices()
_CURRENT: ContextVar[ReadingChoices] = ContextVar("reading", default=DEFAULT_READING)


def get_reading_choices() -> ReadingChoices:
    """Return how files that are opened now are read."""
    return _CURRENT.get()


def read_with(
    source: str | None = None,
    join: str | Path | None = None,
    on: str | None = None,
    answers: Sequence[str] | None = None,
) -> AbstractContextManager[None]:
    """Read the files that are opened inside by this reader, and join them with these tasks.

    `answers` names the columns of a wide table that hold a system's answers each.

    Without arguments, files are read as what they are.
    """
    tasks = None if join is None else Path(join)
    return ReadingChoices(source, tasks, on, tuple(answers or ())).apply()


def apply_reading(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function read its files as its keywords `source`, `join`, `on` and `answers` say."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        given = {name: options[name] for name in READING_KEYWORDS if options.get(name)}
        if not given:
            return function(*args, **options)
        known = read_options(ReadingOptions, "input")
        with read_with(**{name: known[name].check(value) for name, value in given.items()}):
            return function(*args, **options)

    return call


_ALL_DECLARED = "options"  # keywords that are all declared; of another name, there are more

F = TypeVar("F", bound=Callable[..., Any])


def declare_keywords(
    command: str, known: Mapping[str, Option], shared: Mapping[str, Option]
) -> Callable[[F], F]:
    """Give a function with `**options` the signature of a command's declared options.

    `help(calipers.score)` and editors then show each with its default and what it does: those that
    it shares with other functions below, the others among the arguments. Those that say how files
    are read apply to whatever the function opens.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        function = cast("F", apply_reading(function))
        [*plain, rest] = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                option.keyword,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if option.required else option.get_default(command),
            )
            for option in known.values()
        ]
        further = [] if rest.name == _ALL_DECLARED else [rest]
        function.__signature__ = signature.replace(parameters=[*plain, *keywords, *further])  # type: ignore[attr-defined]
        function.__doc__ = _add_options_to_doc(function.__doc__ or "", rest.name, known, shared)
        function.options = known  # type: ignore[attr-defined]
        return function

    return decorate


def _add_options_to_doc(
    text: str, rest: str, known: Mapping[str, Option], shared: Mapping[str, Option]
) -> str:
    """Return a docstring with own options before the keyword `rest`, those it shares at its end."""
    lines = {
        declared.keyword: f"        {declared.keyword}: {declared.help}\n"
        for declared in known.values()
    }
    own = "".join(line for keyword, line in lines.items() if keyword not in shared)
    below = "".join(line for keyword, line in lines.items() if keyword in shared)
    listed = text.replace(f"        {rest}: ", f"{own}        {rest}: ", 1)
    return f"{listed}\n\n    Options:\n{below}    " if below else listed
