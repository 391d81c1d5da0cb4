"""A verdict for build systems: GitHub's annotations and summary, JUnit XML, and SARIF.

>>> print(_annotate("error", "gate: accuracy", "60% is below 90%"))
::error title=gate%3A accuracy::60%25 is below 90%25
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from calipers.reports.number_format import strip_controls
from calipers.reports.tables.gate_tables import join_ids, name_check
from calipers.support.config import read_config
from calipers.support.errors import UsageError
from calipers.support.strict_json import dump_strict
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.gates.result import Check, GateResult

MOST = 10  # lines of a kind that GitHub shows for a step
LIMIT = 1 << 20  # bytes of a step's summary
_CUT = "\n\n… cut here: a step's summary holds at most 1 MiB\n"
_LISTED = 100  # failing scenarios
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_INCOMPLETE = "incomplete-run"
_ON_INCOMPLETE = (
    "A decision needs all records of the run: `calipers run` continues one that stopped."
)


def list_annotations(result: GateResult) -> list[str]:
    """Return a line per check that failed or warns, and per reason why the run is incomplete."""
    errors = [("gate: incomplete", why) for why in result.incomplete]
    errors += (_tell_check(check) for check in result.checks if check.blocks)
    warned = [check for check in result.checks if check.verdict == "warn" and not check.blocks]
    return _annotate_all("error", errors) + _annotate_all("warning", list(map(_tell_check, warned)))


def annotate_error(message: str) -> str:
    """Return the line for a mistake that left nothing to decide on."""
    return _annotate("error", "calipers", message)


def _tell_check(check: Check) -> tuple[str, str]:
    return f"gate: {name_check(check)}", check.reason or check.verdict


def _annotate_all(kind: str, told: list[tuple[str, str]]) -> list[str]:
    if len(told) > MOST:
        more = f"{len(told) - MOST + 1:,} more checks, listed in the summary"
        told = [*told[: MOST - 1], ("gate", more)]
    return [_annotate(kind, *each) for each in told]


def _annotate(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escape(title, ':,')}::{_escape(message)}"


def _escape(text: str, further: str = "") -> str:
    """Return a text that cannot end the line, nor the title: names come from records."""
    text = strip_controls(text.replace("%", "%25"))
    for sign in further:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def append_summary(path: Path, text: str) -> None:
    """Add to the step's summary as much as there is room for, whole lines, with a mark if cut."""
    room = LIMIT - (path.stat().st_size if path.exists() else 0)
    content = text.encode()
    if len(content) > room:
        mark = _CUT.encode()
        if len(mark) > room:
            return
        kept = content[: room - len(mark)]
        content = kept[: kept.rfind(b"\n") + 1].rstrip(b"\n") + mark
    with path.open("ab") as file:
        file.write(content)


def write_junit(result: GateResult) -> str:
    """Return a test case per check, failed or not run (an error), and one for the whole run."""
    suite = ET.Element("testsuite", name="calipers gate")
    run = ET.SubElement(suite, "testcase", name="complete run", classname="calipers.run")
    if result.incomplete:
        _add_outcome(run, "error", "; ".join(result.incomplete), "incomplete")
    for check in result.checks:
        _add_case(suite, check)
    cases = len(result.checks) + 1
    failures, errors = (len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error"))
    counts = {"tests": str(cases), "failures": str(failures), "errors": str(errors)}
    suite.attrib.update(counts)
    suites = ET.Element("testsuites", {"name": "calipers gate", **counts})
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ET.Element, check: Check) -> None:
    name = strip_controls(name_check(check))
    case = ET.SubElement(suite, "testcase", name=name, classname=f"calipers.{check.source}")
    if check.blocks:
        kind = "failure" if check.ran else "error"
        of_type = check.verdict if check.ran else "no value"
        failing = f"failing: {join_ids(check.failing, _LISTED)}" if check.failing.count else ""
        _add_outcome(case, kind, check.reason or check.verdict, of_type, failing)
    # Jenkins' schema allows no properties of a test case.
    lines = [f"n: {check.n}", f"missing: {check.missing}"]
    if not check.blocks and check.reason is not None:
        lines.insert(0, f"{check.verdict}: {strip_controls(check.reason)}")
    ET.SubElement(case, "system-out").text = "\n".join(lines)


def _add_outcome(case: ET.Element, kind: str, message: str, of_type: str, text: str = "") -> None:
    told = ET.SubElement(case, kind, message=strip_controls(message), type=of_type)
    told.text = text or None


def write_sarif(result: GateResult, file: Path) -> str:
    """Return SARIF 2.1.0 of checks that failed or warn, shown at `file`, the policy or suite."""
    try:
        lines: Mapping[tuple[Hashable, ...], int] = read_config(file, example="").lines
    except UsageError:  # it cannot be read any more
        lines = {}
    rules, results = {}, []
    for check in result.checks:
        if check.blocks or check.verdict == "warn":
            rule = strip_controls(f"{check.source}/{check.name}")
            must = "should" if check.level == "warning" else "must"
            meet = f"{check.name} {must} meet its requirement ({check.source})"
            rules[rule] = _make_rule(rule, meet, check.description or _describe_metric(check.name))
            failing = (
                f"; failing: {join_ids(check.failing, _LISTED)}" if check.failing.count else ""
            )
            told = f"{name_check(check)}: {check.reason or check.verdict}{failing}"
            level = "error" if check.blocks else "warning"
            results.append(_make_result(rule, level, told, file, _find_line(lines, check)))
    if result.incomplete:
        rules[_INCOMPLETE] = _make_rule(_INCOMPLETE, "The run is incomplete", _ON_INCOMPLETE)
        results += [_make_result(_INCOMPLETE, "error", why, file) for why in result.incomplete]
    driver = {"name": "Calipers", "version": __version__, "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "results": results}
    return dump_strict({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _describe_metric(name: str) -> str | None:
    """Return the sentence of a metric, and how to explain it; None for another kind of check."""
    from calipers.metrics import metric_named  # noqa: PLC0415 (loads Polars)

    try:
        says = metric_named(name).says
    except UsageError:
        return None
    return f"{says} `calipers explain {name} RECORDS` names the most influential rows."


def _make_rule(rule: str, title: str, text: str | None) -> dict[str, Any]:
    """Return a rule with all that GitHub's code scanning requires."""
    full = {"text": strip_controls(text or title)}
    short = {"text": strip_controls(title)}
    return {"id": rule, "shortDescription": short, "fullDescription": full, "help": full}


def _find_line(lines: Mapping[tuple[Hashable, ...], int], check: Check) -> int:
    """Return the line of a check's rule, or of the nearest key around it; 1 if there is none."""
    place: tuple[Hashable, ...] = (*check.source.split("."), check.name)
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _make_result(rule: str, level: str, text: str, file: Path, line: int = 1) -> dict[str, Any]:
    full, here = file.absolute(), Path.cwd()  # code scanning wants paths from the current folder
    uri = full.relative_to(here).as_posix() if full.is_relative_to(here) else full.as_uri()
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": strip_controls(text)},
        "locations": [{"physicalLocation": place}],
    }
