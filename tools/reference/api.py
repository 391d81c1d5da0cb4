"""docs/reference/api.md: the public functions and classes, from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import calipers
from calipers.scores.options import list_options
from tools.reference.options import FUNCTIONS

_INTRO = """\
# Python API

Made from the docstrings (`make reference` writes this page again). [In Python](../python.md) shows
how the functions are used; keywords that a function shares with the command line are on
[Options](../options.md) with their defaults.
"""
_BELOW = "Listed below, and on docs/options.md."


def write_api_page() -> str:
    """Return docs/reference/api.md."""
    public: list[str] = vars(calipers)["__all__"]  # made from the stub, which types have no name of
    found = {name: getattr(calipers, name) for name in sorted(public) if name[0] != "_"}
    functions = {name: each for name, each in found.items() if inspect.isfunction(each)}
    classes = {name: each for name, each in found.items() if inspect.isclass(each)}
    errors = {name: each for name, each in classes.items() if issubclass(each, Exception)}
    parts = [_INTRO, "## Functions\n", *_list(functions), "## Results and types\n"]
    parts += _list({name: each for name, each in classes.items() if name not in errors})
    parts += ["## Errors\n", *_list(errors)]
    return "\n".join(parts)


def _list(found: dict[str, Any]) -> Iterator[str]:
    for name, each in found.items():
        yield f"### {name}\n"
        if inspect.isfunction(each):
            yield f"```text\n{_sign(name, each)}\n```\n"
        yield _dress(inspect.getdoc(each) or "")
        if inspect.isclass(each):
            yield from _members(each)


def _sign(name: str, function: Any) -> str:
    """Return the call with its own parameters; declared options are listed on their page."""
    declared = set(list_options(_COMMANDS[name])) if name in _COMMANDS else set()
    known = inspect.signature(function).parameters.values()
    own = [each for each in known if each.name not in declared and each.name != "progress"]
    keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    first = [_show(each) for each in own if each.kind not in keywords]
    rest = [_show(each) for each in own if each.kind in keywords]
    star = ["*"] if rest and not any(each.startswith("*") for each in first) else []
    more = ["**options"] if declared & {each.name for each in known} else []
    return f"{name}({', '.join((*first, *star, *rest, *more))})"


def _show(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=parameter.empty, default=_plain(parameter.default)))


_COMMANDS = {function.__name__: command for command, function in FUNCTIONS.items()}


def _plain(default: Any) -> Any:
    return ... if callable(default) and default is not inspect.Parameter.empty else default


def _members(found: type) -> Iterator[str]:
    """Yield the methods and properties of a class, those that it inherits on one line."""
    lines = [
        f"- `{name}`: {_first_sentence(inspect.getdoc(each) or '')}"
        for name, each in sorted(vars(found).items())
        if not name.startswith("_")
        and (inspect.isfunction(each) or isinstance(each, property))
        and inspect.getdoc(each)
    ]
    inherited = {
        f"`{name}`"
        for base in found.__mro__[1:]
        if base.__module__.startswith("calipers.support")
        for name in vars(base).keys() - vars(found).keys()
        if not name.startswith("_")
    }
    lines += [f"- and {', '.join(sorted(inherited))}"] if inherited else []
    if lines:
        yield "\n".join((*lines, ""))


def _first_sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _dress(text: str) -> str:
    """Return a docstring as Markdown: its sections as lists, its examples as code."""
    text = text.partition("\nOptions:\n")[0].rstrip()
    lines: list[str] = []
    in_example = False
    for line in text.splitlines():
        is_example = line.startswith((">>>", "...")) or (in_example and bool(line.strip()))
        if is_example != in_example:
            lines.append("```pycon" if is_example else "```")
            if not is_example:
                lines.append("")
        in_example = is_example
        lines.append(line if is_example else _dress_line(line))
    return "\n".join((*lines, *(["```"] if in_example else []), ""))


def _dress_line(line: str) -> str:
    if re.fullmatch(r"(Args|Returns|Raises|Yields):", line):
        return f"**{line[:-1]}**\n"
    if item := re.fullmatch(r"    (\w+): (.*)", line):
        said = item[2].replace(_BELOW, "See [Options](../options.md).")
        return f"- `{item[1]}`: {said}"
    return line.replace("        ", "  ", 1) if line.startswith("        ") else line.strip()
