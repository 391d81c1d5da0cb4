"""A gate as JUnit XML: a failed check is a failure, one that did not run is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from calipers.reports.figures import strip_controls
from calipers.reports.gate import join_ids, name_check

if TYPE_CHECKING:
    from calipers.gates.result import Check, GateResult

_LISTED = 100


def write_junit(result: GateResult) -> str:
    """Return a test case per check, and one for the run as a whole."""
    suite = ET.Element("testsuite", name="calipers gate")
    run = ET.SubElement(suite, "testcase", name="complete run", classname="calipers.run")
    if result.incomplete:
        _tell(run, "error", "; ".join(result.incomplete), "incomplete")
    for check in result.checks:
        _add(suite, check)
    cases = len(result.checks) + 1
    failures, errors = (len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error"))
    counts = {"tests": str(cases), "failures": str(failures), "errors": str(errors)}
    suite.attrib.update(counts)
    suites = ET.Element("testsuites", {"name": "calipers gate", **counts})
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ET.Element, check: Check) -> None:
    name = strip_controls(name_check(check))
    case = ET.SubElement(suite, "testcase", name=name, classname=f"calipers.{check.source}")
    counts = ET.SubElement(case, "properties")
    for name, count in (("n", check.n), ("missing", check.missing)):
        ET.SubElement(counts, "property", name=name, value=str(count))
    if check.blocks:
        kind = "failure" if check.ran else "error"
        of_type = check.verdict if check.ran else "no value"
        failing = f"failing: {join_ids(check.failing, _LISTED)}" if check.failing.count else ""
        _tell(case, kind, check.reason or check.verdict, of_type, failing)
    elif check.reason is not None:
        ET.SubElement(case, "system-out").text = f"{check.verdict}: {strip_controls(check.reason)}"


def _tell(case: ET.Element, kind: str, message: str, of_type: str, text: str = "") -> None:
    told = ET.SubElement(case, kind, message=strip_controls(message), type=of_type)
    told.text = text or None
