"""Options, each declared once as a field of the dataclass that holds its value.

`bins: int = option(10, "Number of bins of the ECE.", at_least=1)` is the whole declaration. The
command line, the Python keyword, its checks, `metric_settings:` in files, the output's `settings`
and docs/options.md are made from it; what callers of the public functions pass is checked here as
well. Nothing heavy is imported here: `--help` reads it.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from calipers.support.errors import ArgumentTypeError, UsageError, nearest

Group = Literal["input", "selection", "metrics", "statistics", "judging", "calls", "output"]
Several = Literal["texts", "paths", "wholes"]
Kind = Literal["whole", "number", "flag", "text", "choice", "path", "map", "any"] | Several

GROUPS: Mapping[str, str] = {
    "input": "Input",
    "selection": "Selection",
    "metrics": "How metrics are computed",
    "statistics": "Statistics",
    "judging": "Judging",
    "calls": "Calls",
    "output": "Output",
}
EXPECTED: Mapping[str, str] = {
    "whole": "a whole number",
    "number": "a number",
    "flag": "True or False",
    "text": "a text",
    "choice": "a text",
    "path": "a path",
    "texts": "a name or a list of names",
    "paths": "a path or a list of paths",
    "wholes": "a list of whole numbers",
    "map": "a mapping of the record's fields to the data's names",
}
_KINDS: Mapping[Any, Kind] = {
    bool: "flag",
    int: "whole",
    float: "number",
    str: "text",
    Path: "path",
    tuple: "texts",
    Mapping: "map",
}
_SEVERAL: Mapping[str, Kind] = {"texts": "text", "paths": "path", "wholes": "whole"}
_FROM_TEXT: Mapping[str, Callable[[str], Any]] = {"whole": int, "number": float}
_OPTION = "option"
_FEW = 3  # choices that are all named where one is mistaken
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """One declared option, the same object wherever it is asked for; `commands` take it."""

    name: str  # of the field
    keyword: str  # in Python
    flag: str  # on the command line
    help: str
    default: Any
    kind: Kind
    group: Group
    commands: tuple[str, ...]
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[tuple[str, ...]], Any] | None = None  # from the command line's texts
    bare: str | None = None  # the value of the flag on its own, where it may stand without one
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    fix: str | None = None  # what to do about a value that is refused
    python: str | None = None  # the type of the keyword, where the kind does not tell
    schema: Mapping[str, Any] | None = None  # the JSON Schema, where the kind does not tell
    relative: Literal["always", "if there"] | None = None  # in a file: to the file's own folder
    read: Callable[[Any], Any] | None = None  # from what a user gives to the field's value
    defaults: Mapping[str, Any] | None = None  # of commands that have another one
    metrics: tuple[str, ...] = ()  # the metrics that it belongs to; none named: all
    may_be_empty: bool = False  # a name that is in the data, which may be an empty text
    is_setting: bool = False  # given by `--set NAME=VALUE`; its flag is an older way to write that

    @property
    def required(self) -> bool:
        """Return True if a user must give it."""
        return self.default is MISSING

    @property
    def switch(self) -> str:
        """The flag, and what turns it off where it is on by default."""
        return f"{self.flag} / --no-{self.flag[2:]}" if self.default is True else self.flag

    @property
    def key(self) -> str:
        """The name in `metric_settings:`, as on the command line but with `_`."""
        return self.flag.removeprefix("--").replace("-", "_")

    def spell(self, value: Any = None) -> str:
        """Return the option, with a value if there is one, as it is written on the command line."""
        between = "=" if self.is_setting else " "
        name = f"--set {self.key}" if self.is_setting else self.flag
        return name if value is None else f"{name}{between}{_format_value(value)}"

    def get_default(self, command: str) -> Any:
        """Return the default of a command."""
        return (self.defaults or {}).get(command, self.default)

    def check(self, value: Any) -> Any:
        """Return a value that a user gave, in the type of its kind.

        Raises:
            ArgumentTypeError: It is of another type.
            UsageError: It is none of the choices, or out of bounds.
        """
        if value is None and self.default is None:
            return None
        try:
            converted = _convert_value(self.kind, value)
        except TypeError:
            raise ArgumentTypeError(
                f"{self.keyword}={value!r}: expected {EXPECTED[self.kind]}, "
                f"not {type(value).__name__}",
                fix=f"{self.spell()}: {self.help}",
            ) from None
        if (problem := self.find_problem(converted)) is not None:
            raise UsageError(f"{self.spell(value)}: {problem}", fix=self._suggest_fix(value))
        return converted

    def read_text(self, text: str) -> Any:
        """Return the value that a text names, in the type of the option's kind.

        Raises:
            UsageError: It names none.
        """
        try:
            return _FROM_TEXT[self.kind](text) if self.kind in _FROM_TEXT else text
        except ValueError:
            raise UsageError(
                f"{self.spell(text)}: expected {EXPECTED[self.kind]}",
                fix=f"{self.spell()}: {self.help}",
            ) from None

    def _suggest_fix(self, value: Any) -> str:
        if self.choices:
            few = len(self.choices) <= _FEW
            return " or ".join(self.choices) if few else nearest(str(value), self.choices)
        return self.fix or f"{self.spell()}: {self.help}"

    def find_problem(self, value: Any) -> str | None:
        """Return what is wrong with a value of the right type, or None."""
        if self.choices:
            return None if value in self.choices else "no such choice"
        if self.kind not in ("whole", "number"):
            return "an empty text" if value == "" and not self.may_be_empty else None
        bounds = self.list_bounds()
        if isfinite(value) and all(_HOLDS[text](value, bound) for text, bound in bounds.items()):
            return None
        words = [f"{text} {bound:g}" for text, bound in bounds.items()]
        words = words if isfinite(value) else ["a finite number", *words]
        return f"must be {' and '.join(words)}"

    def list_bounds(self) -> dict[str, float]:
        """Return the bounds of the value, by phrases such as `at least`."""
        every = zip(_HOLDS, (self.at_least, self.above, self.at_most, self.below), strict=True)
        return {text: bound for text, bound in every if bound is not None}


def option(default: Any, text: str, **more: Any) -> Any:
    """Return the dataclass field that declares an option, with its default and its help.

    `more` are further attributes of the `Option` that do not follow from the field. An option that
    a user must give has MISSING for its default.
    """
    metadata = {_OPTION: {"help": text, **more}}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def flag(text: str, **more: Any) -> Any:
    """Return the dataclass field that declares an option that is either given or not."""
    return option(False, text, **more)  # noqa: FBT003 (the default)


@cache
def read_options(holder: type, group: Group, commands: tuple[str, ...] = ()) -> dict[str, Option]:
    """Return the options that a dataclass declares, by the names of their fields."""
    of = (declared for declared in fields(holder) if _OPTION in declared.metadata)
    return {declared.name: _read_option(declared, group, commands) for declared in of}


def list_own_options(command: str, own: type) -> dict[str, Option]:
    """Return those options of a command that a dataclass declares, by their Python keywords."""
    every = read_options(own, "statistics", (command,)).values()
    return {declared.keyword: declared for declared in every if command in declared.commands}


def _read_option(declared: Field[Any], group: Group, commands: tuple[str, ...]) -> Option:
    more: dict[str, Any] = {
        "keyword": declared.name,
        "flag": f"--{declared.name.replace('_', '-')}",
        "default": declared.default_factory()
        if declared.default_factory is not MISSING
        else declared.default,
        "kind": "path",  # an annotation in quotes: what is read from a file
        "group": group,
        "commands": commands,
        "is_setting": group == "metrics",
        **_read_annotation(declared.type),
        **declared.metadata[_OPTION],
    }
    if more["kind"] in ("path", "paths"):
        more = {"metavar": "FILE", "relative": "always", **more}
    return Option(name=declared.name, **more)


def _read_annotation(annotation: Any) -> dict[str, Any]:
    """Return what a field's type says about its option."""
    if isinstance(annotation, str):
        return {}
    if get_origin(annotation) in (Union, UnionType):
        [one, *others] = [arg for arg in get_args(annotation) if arg is not NoneType]
        if others:
            return {"kind": "any", "python": str(annotation)}
        annotation = one
    if get_origin(annotation) is Literal:
        return {"kind": "choice", "choices": get_args(annotation)}
    if annotation == tuple[int, ...]:
        return {"kind": "wholes"}
    return {"kind": _KINDS.get(get_origin(annotation) or annotation, "any")}


def split_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in texts of names with commas between them."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def find_option(name: Any, known: Iterable[Option]) -> Option | None:
    """Return the option of a name as a file or a keyword writes it, with `_` or `-`."""
    written = str(name).replace("-", "_")
    return next(
        (declared for declared in known if written in (declared.key, declared.keyword)), None
    )


def _convert_value(kind: Kind, value: Any) -> Any:
    """Return a value in the type of its kind; raise TypeError where it is of another one."""
    if kind == "any":
        return value
    if kind == "map":
        pairs = {} if value is None else value
        if not isinstance(pairs, Mapping):
            raise TypeError
        return {_convert_value("text", k): _convert_value("text", v) for k, v in pairs.items()}
    if kind in _SEVERAL:
        given = [value] if isinstance(value, str | PathLike) else value
        if not isinstance(given, Iterable) or isinstance(given, Mapping | bytes):
            raise TypeError
        return tuple(_convert_value(_SEVERAL[kind], item) for item in given)
    accepted, convert = _ACCEPTED[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "flag"):
        raise TypeError
    return value if convert is None else convert(value)


def _format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_ACCEPTED: Mapping[str, tuple[Any, Callable[[Any], Any] | None]] = {
    "whole": (Integral, int),
    "number": (Real, float),
    "flag": (bool, None),
    "text": (str, None),
    "choice": (str, None),
    "path": ((str, PathLike), Path),
}


T = TypeVar("T")

RENAMED = {"rename": "map", "renames": "map"}  # keywords of earlier versions


def read_keywords(command: str, own: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command that a dataclass declares, from what a user gave.

    Raises:
        ArgumentTypeError: A keyword is not known or is missing, or a value is of another type.
        UsageError: A value is refused, a file cannot be read, or values do not go together.
    """
    known = list_own_options(command, own)
    refuse_unknown(command, given, known)
    return own(**read_files(check_keywords(command, given, known), known))


def read_files(checked: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """Return values by the names of fields, with what their files hold in place of paths."""
    reads = {option.name: option.read for option in known.values() if option.read is not None}
    return {name: reads[name](v) if name in reads else v for name, v in checked.items()}


def refuse_unknown(command: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raise ArgumentTypeError for a keyword that no option has."""
    for keyword in given:
        if keyword not in known:
            now = RENAMED.get(keyword)
            fix = f"use {now} instead" if now in known else nearest(keyword, known)
            raise ArgumentTypeError(f"{command}() has no option {keyword}", fix=fix)


def check_keywords(
    command: str, given: Mapping[str, Any], known: Mapping[str, Option]
) -> dict[str, Any]:
    """Return what was given, checked and by the names of fields, with the command's own defaults.

    Raises:
        ArgumentTypeError: A value is of another type, or is missing.
        UsageError: A value is refused.
    """
    for option in known.values():
        if option.required and option.keyword not in given:
            raise ArgumentTypeError(
                f"{command}(): {option.keyword} is missing", fix=f"{option.spell()}: {option.help}"
            )
    checked = {known[keyword].name: known[keyword].check(value) for keyword, value in given.items()}
    preset = {
        option.name: option.get_default(command) for option in known.values() if option.defaults
    }
    return {**preset, **checked}


def require_type(
    what: str, given: object, kinds: type | UnionType, *, expected: str, fix: str
) -> None:
    """Raise ArgumentTypeError if an argument is of another type than the function takes.

    >>> require_type("run(suite)", 3, str, expected="a suite file", fix="calipers init writes one")
    Traceback (most recent call last):
    calipers.support.errors.ArgumentTypeError: run(suite): expected a suite file, not int
      calipers init writes one
    """
    if not isinstance(given, kinds):
        raise ArgumentTypeError(f"{what}: expected {expected}, not {type(given).__name__}", fix=fix)


def require_callable(what: str, given: object, *, fix: str) -> None:
    """Raise ArgumentTypeError if an argument cannot be called."""
    if not callable(given):
        raise ArgumentTypeError(f"{what}: expected a function, not {type(given).__name__}", fix=fix)


def as_names(what: str, given: str | Sequence[str], *, example: str) -> tuple[str, ...]:
    """Return one name, or several, as a tuple; raise ArgumentTypeError if it is neither."""
    names = [given] if isinstance(given, str) else given
    expected, fix = "a name or a list of names", f"for example {example}"
    require_type(what, names, list | tuple, expected=expected, fix=fix)
    for name in names:
        require_type(what, name, str, expected=expected, fix=fix)
    return tuple(names)


def as_path(what: str, path: str | PathLike[str]) -> Path:
    """Return a path given as text or as a `Path`; raise ArgumentTypeError for anything else."""
    require_type(what, path, str | PathLike, expected="a path", fix='for example "records.jsonl"')
    return Path(path)


def as_files(what: str, given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return one path or address, or several, as a list; raise ArgumentTypeError for others."""
    files: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    for file in files:
        expected, fix = "a path or a list of paths", f'for example "{what}.jsonl"'
        require_type(what, file, str | Path, expected=expected, fix=fix)
    return files


def ignore_progress(share: float) -> None:
    """Ignore the share of work done, where no progress is shown."""
    del share
