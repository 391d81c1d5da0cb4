"""A gate as SARIF 2.1.0, which code scanning shows beside a change: a result per failed check."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.reports.figures import strip_controls
from calipers.reports.gate import join_ids, name_check
from calipers.support.config.files import read_config
from calipers.support.errors import UsageError
from calipers.support.strict_json import dump_strict
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.gates.result import Check, GateResult

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_INCOMPLETE = "incomplete-run"
_LISTED = 100
_ONLY_WARNS = "warning"


def write_sarif(result: GateResult, file: Path) -> str:
    """Return the checks that failed or warn; `file` is the policy or suite they are shown at."""
    lines = _read_lines(file)
    found = [check for check in result.checks if check.blocks or check.verdict == "warn"]
    rules = {_name_rule(check): _describe_rule(check) for check in found}
    results = [
        _tell(
            _name_rule(each),
            "error" if each.blocks else "warning",
            _describe_check(each),
            file,
            _find_line(lines, each),
        )
        for each in found
    ]
    if result.incomplete:
        rules[_INCOMPLETE] = {
            "id": _INCOMPLETE,
            "shortDescription": {"text": "The run is incomplete"},
        }
        results += [_tell(_INCOMPLETE, "error", why, file) for why in result.incomplete]
    driver = {"name": "Calipers", "version": __version__, "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "results": results}
    return dump_strict({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _name_rule(check: Check) -> str:
    return strip_controls(f"{check.source}/{check.name}")


def _describe_rule(check: Check) -> dict[str, Any]:
    must = "should" if check.level == _ONLY_WARNS else "must"
    text = f"{check.name} {must} meet its requirement ({check.source})"
    return {"id": _name_rule(check), "shortDescription": {"text": strip_controls(text)}}


def _describe_check(check: Check) -> str:
    failing = f"; failing: {join_ids(check.failing, _LISTED)}" if check.failing.count else ""
    return f"{name_check(check)}: {check.reason or check.verdict}{failing}"


def _read_lines(file: Path) -> Mapping[tuple[Hashable, ...], int]:
    """Return the line of each key of the file; none of one that cannot be read any more."""
    try:
        return read_config(file, example="").lines
    except UsageError:
        return {}


def _find_line(lines: Mapping[tuple[Hashable, ...], int], check: Check) -> int:
    """Return the line of a check's rule, or of the nearest key around it; 1 if there is none."""
    place: tuple[Hashable, ...] = (*check.source.split("."), check.name)
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _tell(rule: str, level: str, text: str, file: Path, line: int = 1) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _make_uri(file)}, "region": {"startLine": line}}
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": strip_controls(text)},
        "locations": [{"physicalLocation": place}],
    }


def _make_uri(file: Path) -> str:
    """Return the path from the current folder, as code scanning wants it, where it lies below."""
    full, here = file.absolute(), Path.cwd()
    return full.relative_to(here).as_posix() if full.is_relative_to(here) else full.as_uri()
