"""What is made from the declared options: docs/options.md, and the types of Python keywords.

`make reference` writes both again; tests fail where they are stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import calipers as cal
from calipers.metrics.declare.settings import list_metric_options
from calipers.runs.suite import Suite
from calipers.support.options import GROUPS, Option

FUNCTIONS: Mapping[str, Any] = {
    "score": cal.score,
    "run": cal.run,
    "gate": cal.gate,
    "compare": cal.compare,
    "rank": cal.rank,
    "report": cal.report,
    "explain": cal.explain,
    "power": cal.power,
    "agree": cal.agree,
    "audit": cal.audit_judges,
    "judge": cal.judge_records,
    "calibrate": cal.calibrate_judges,
    "doctor": cal.doctor,
    "read": cal.read,
    "convert": cal.convert,
}
_ARGUMENTS = ("data", "systems", "policy", "checks")  # of `run`, under these or other names
_TYPES = {
    "whole": "int",
    "number": "float",
    "flag": "bool",
    "text": "str",
    "path": "str | Path",
    "texts": "str | Sequence[str]",
    "paths": "str | Path | Sequence[str | Path]",
    "wholes": "Sequence[int]",
    "map": "Mapping[str, str] | None",
    "any": "Any",
}
_HEAD = """\
# Made from the declared options: make reference
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from calipers.metrics.checks.checks import Checks
from calipers.metrics.families.scenario_scores import CaseWeights
from calipers.scores.resolve_options import PolicyLike
"""
_INTRO = """\
# Options

Made from the declarations in the code, which the command line and the Python keywords are made from
as well (`make reference` writes this page again). An option has the same name, default and bounds
everywhere: `--pass-score 0.8`, `cal.score(records, pass_score=0.8)`, and for options of metrics
also `metric_settings: {pass_score: 0.8}` in a suite or a policy.
"""
_SETTINGS = """\
These may stand in the block `metric_settings:` of a suite or a policy, under the name of the flag
with `_` or `-`. Paths there are relative to the file. `run`, `gate`, `report` and `view` measure by
them; so do `score` and `explain` with `--policy`, or on the records of a run. A policy takes
precedence over a suite, and a flag or keyword over both; a note says where that changes a value.
"""


def write_page() -> str:
    """Return docs/options.md."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    known = chain.from_iterable(function.options.values() for function in FUNCTIONS.values())
    every = {(each.keyword, each.help, each.commands): each for each in known}
    yield _INTRO
    for group, title in GROUPS.items():
        yield f"## {title}\n"
        if group == "metrics":
            yield _SETTINGS
        yield "| option | Python | default | what it does | of |"
        yield "|---|---|---|---|---|"
        yield from (_make_row(each) for each in every.values() if each.group == group)
        yield ""


def _make_row(option: Option) -> str:
    metavar = f" {option.metavar}" if option.metavar else ""
    shown = f"{'|'.join(option.choices)}" if option.choices else metavar.strip()
    flag = f"`{option.switch}{f' {shown}' if shown else ''}`".replace("|", "\\|")
    text = option.help.replace("|", "\\|")
    cells = (
        f"`{option.keyword}`",
        _format_default(option),
        text + _format_bounds(option),
        _of(option),
    )
    return f"| {flag} | {' | '.join(cells)} |"


def _format_default(option: Option) -> str:
    if option.defaults:
        return ", ".join(f"`{value}` ({command})" for command, value in option.defaults.items())
    is_none = option.required or option.default is None or option.default in ((), {})
    return "" if is_none else f"`{option.default}`"


def _format_bounds(option: Option) -> str:
    said = " and ".join(f"{text} {bound:g}" for text, bound in option.list_bounds().items())
    return f" Must be {said}." if said else ""


def _of(option: Option) -> str:
    if option.group == "metrics":
        return ", ".join(f"`{name}`" for name in option.metrics) or "all metrics"
    return ", ".join(option.commands)


def write_stub() -> str:
    """Return src/calipers/support/keywords.pyi: the types of keywords, for editors and mypy."""
    return "\n".join((_HEAD, *_write_classes()))


def _write_classes() -> Iterator[str]:
    metrics = list_metric_options().values()
    yield from _write_class("MetricKeywords", "TypedDict", list(metrics))
    for name, function in FUNCTIONS.items():
        known = function.options.values()
        has_metrics = any(each.group == "metrics" and each in metrics for each in known)
        own = [each for each in known if each not in metrics]
        yield from _write_class(
            f"{name.capitalize()}Keywords", "MetricKeywords" if has_metrics else "TypedDict", own
        )


def _write_class(name: str, base: str, options: list[Option]) -> Iterator[str]:
    yield f"class {name}({base}, total=False):"
    yield from (f"    {each.keyword}: {_find_type(each)}" for each in options)
    if name == "RunKeywords":  # of functions: what a suite file would say
        yield from (f"    {key}: Any" for key in Suite.model_fields if key not in _ARGUMENTS)
    yield ""


def _find_type(option: Option) -> str:
    choices = ", ".join(f'"{each}"' for each in option.choices)
    found = option.python or (f"Literal[{choices}]" if choices else _TYPES[option.kind])
    if option.required:
        return f"Required[{found}]"
    return found if option.default is not None or "None" in found else f"{found} | None"
