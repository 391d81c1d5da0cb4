"""The rules of the four documents: where each is implemented, and the test that holds it.

The rules that define a metric follow from the metrics' declarations; the others (statistics,
grades, thresholds, criteria, fallbacks …) stand in `specifications.txt` below the title of their
section, each with its place and its test. `calipers metrics --spec Z` and
docs/reference/specifications.md show them; a test finds every place and every test that is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import getsource
from pathlib import Path
from pkgutil import iter_modules

from calipers.metrics import Metric, families
from calipers.metrics.lookup import metrics_of

DOCUMENTS = {
    "Z": ("Zeta Reason v0.2, metrics specification", "answers, calibration, chains of thought"),
    "T": ("ProjectScylla, metrics formulas", "repeated runs over tiers, cost of pass, grades"),
    "S": ("Metrics guide reference", "scenarios, safety, thresholds and weights"),
    "P": ("PeerRead three-tier evaluation, metrics definitions", "texts, judges, traces of agents"),
}
_SECTION = re.compile(r"\b([ZTSP] \d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class DocumentRule:
    """A rule of a document, where in the package it is implemented, and the test that holds it."""

    spec: str
    rule: str
    where: str  # file:name, below src/calipers
    test: str  # file::name, below tests
    metric: str | None = None  # that it defines

    @property
    def section(self) -> str:
        """The section's title."""
        return SECTIONS[self.spec]


def _read_document_rules() -> tuple[dict[str, str], list[DocumentRule]]:
    """Return the titles of the sections, and the rules that `specifications.txt` lists."""
    sections: dict[str, str] = {}
    rules: list[DocumentRule] = []
    text = Path(__file__).with_suffix(".txt").read_text("utf-8")
    for line in filter(None, text.splitlines()):
        if line.startswith(" "):
            rules.append(DocumentRule([*sections][-1], *line.strip().split(" | ")))
        else:
            letter, number, title = line.split(" ", 2)
            sections[f"{letter} {number}"] = title
    return sections, rules


SECTIONS, _RULES = _read_document_rules()
_OF_LISTS = "test_polars_agrees_with_plain_python_on_lists"
_ALIKE = "test_polars_agrees_with_plain_python"
_OF_QUALITY = "judges/test_built_in_rubrics.py::test_quality_weighs_what_applies"
_TESTS = {  # of the metrics of a family, by the document where it depends on it
    "answers": {"Z": f"test_conformance.py::{_OF_LISTS}", "S": f"test_scenarios.py::{_OF_LISTS}"},
    "calibration": {"Z": f"test_conformance.py::{_OF_LISTS}"},
    "reasoning": {"Z": f"test_conformance.py::{_OF_LISTS}"},
    "grounding": {"Z": f"test_conformance.py::{_OF_LISTS}"},
    "retrieval": {"Z": f"test_conformance.py::{_OF_LISTS}"},
    "repeated_runs": {"Z": f"test_conformance.py::{_OF_LISTS}", "T": f"test_tiers.py::{_ALIKE}"},
    "cost": {"T": f"test_tiers.py::{_ALIKE}"},
    "scenarios": {
        "S": f"test_scenarios.py::{_OF_LISTS}",
        "T": f"test_tiers.py::{_ALIKE}",
    },
    "scenario_scores": {"S": f"test_scenarios.py::{_OF_LISTS}"},
    "efficiency": {
        "Z": f"test_conformance.py::{_OF_LISTS}",
        "S": f"test_scenarios.py::{_OF_LISTS}",
        "T": f"test_tiers.py::{_ALIKE}",
        "P": f"test_agents.py::{_ALIKE}",
    },
    "text": {"P": f"test_agents.py::{_ALIKE}"},
    "traces": {"P": f"test_traces.py::{_ALIKE}"},
    "agents": {"P": f"test_composite.py::{_ALIKE}"},
    "judged": {"P": f"test_composite.py::{_ALIKE}", "T": _OF_QUALITY},
}


def list_rules(document: str | None = None) -> list[DocumentRule]:
    """Return the rules of a document, or of all, in the order of their sections.

    >>> [rule.rule for rule in list_rules("T") if rule.spec == "T 9.4"]
    ['The largest median cost minus the smallest']
    """
    rules = [*_list_metric_rules(), *_RULES]
    chosen = [rule for rule in rules if document is None or rule.spec.startswith(document)]
    return sorted(chosen, key=lambda rule: ([*DOCUMENTS].index(rule.spec[0]), _order(rule.spec)))


def find_sections(metric: Metric) -> list[str]:
    """Return the sections that define a metric."""
    return _SECTION.findall(metric.defined_in)


def _list_metric_rules() -> Iterator[DocumentRule]:
    homes = _find_homes()
    for metric in metrics_of(None):
        for section in find_sections(metric) if metric.name in homes else ():
            family, place = homes[metric.name]
            test = _TESTS[family][section[0]]
            yield DocumentRule(
                section,
                metric.formula,
                f"metrics/families/{family}.py:{place}",
                test if "/" in test else f"conformance/{test}",
                metric.name,
            )


def _find_homes() -> dict[str, tuple[str, str]]:
    """Return the file of each metric's declaration, and its name there."""
    homes: dict[str, tuple[str, str]] = {}
    for module in iter_modules(families.__path__, prefix=f"{families.__name__}."):
        family, loaded = module.name.rpartition(".")[2], import_module(module.name)
        written = getsource(loaded)
        for place, value in vars(loaded).items():
            is_own = family in _TESTS and f"\n{place} = " in written  # and not imported
            for metric in value if isinstance(value, tuple) else (value,):
                if is_own and isinstance(metric, Metric):
                    homes.setdefault(metric.name, (family, place))
    return homes


def _order(section: str) -> list[int]:
    return [int(part) for part in section[2:].split(".")]
