"""docs/reference/specifications.md: which section of which document defines a metric."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from calipers.metrics import Metric
from tools.reference.markdown import tabulate

_INTRO = """\
# The four specifications

Most metrics are defined by one of four public documents, and are computed exactly as these say. The
field `spec` of a metric, in `calipers metrics` and on [Metrics](../metrics.md), names the document
by a letter and the section by its number: *Z 2.1* is section 2.1, Accuracy, of Zeta Reason's
specification. Sections without numbers of their own are counted in their order. What a document
leaves open is said in the metric's declaration (`nulls`, `formula`); a change of it is a new
`version` of the metric. `beyond it` marks what a section suggests without defining it.

This page is made from the declarations (`make reference` writes it again).
"""
DOCUMENTS = {
    "Z": ("Zeta Reason v0.2, metrics specification", "answers, calibration, chains of thought"),
    "T": ("ProjectScylla, metrics formulas", "repeated runs over tiers, cost of pass, grades"),
    "S": ("Metrics guide reference", "scenarios, safety, thresholds and weights"),
    "P": ("PeerRead three-tier evaluation, metrics definitions", "texts, judges, traces of agents"),
}
SECTIONS = {
    "Z 2.1": "Accuracy (ACC)",
    "Z 2.2": "Unsupported Step Rate v0 (USR_v0)",
    "Z 2.3": "Error Rate",
    "Z 3.1": "Brier Score",
    "Z 3.2": "Expected Calibration Error (ECE)",
    "Z 4.1": "Self-Consistency Entropy v0 (SCE_v0)",
    "Z 5.1": "CoT Token Length",
    "Z 5.2": "CoT Character Length",
    "Z 5.3": "Step Count",
    "Z 5.4": "Reasoning-to-Answer Ratio",
    "Z 5.5": "Self-Correction Rate",
    "Z 6.1": "Mean Tokens per Task",
    "Z 6.2": "Latency Metrics",
    "Z 8": "Future Extensions",
    "T 1": "Pass Rate",
    "T 2": "Implementation Rate",
    "T 3": "Cost (USD)",
    "T 4": "Duration",
    "T 5": "Cost of Pass",
    "T 6": "Composite Score",
    "T 7": "Aggregate Statistics",
    "S 1.1": "Pass rate",
    "S 1.2": "Accuracy",
    "S 1.3": "Precision",
    "S 1.4": "Recall",
    "S 1.5": "Safety rate",
    "S 1.6": "Behavior coverage",
    "S 1.7": "Latency",
    "S 1.8": "Token efficiency",
    "S 4.1": "Scenario weights",
    "S 4.4": "Composite score formula",
    "P 1.1": "Cosine Similarity",
    "P 1.2": "Jaccard Similarity",
    "P 1.3": "Semantic Similarity",
    "P 1.4": "Time Taken",
    "P 1.5": "Task Success Assessment",
    "P 2.1": "Technical Accuracy Score",
    "P 2.2": "Constructiveness Score",
    "P 2.3": "Planning Rationality",
    "P 3.1": "Path Convergence Ratio",
    "P 3.2": "Tool Selection Accuracy",
    "P 3.3": "Communication Overhead",
    "P 3.4": "Agent Centrality Analysis",
    "P 3.5": "Task Distribution Balance",
    "P 4": "Composite Scoring",
}
_SECTION = re.compile(r"\b([ZTSP] \d+(?:\.\d+)?)")


def write_specifications_page(metrics: Sequence[Metric]) -> str:
    """Return docs/reference/specifications.md; KeyError where a section has no name here."""
    of_section: dict[str, list[str]] = defaultdict(list)
    own: list[str] = []
    for metric in metrics:
        sections = _SECTION.findall(metric.defined_in)
        for each in sections:
            of_section[each].append(metric.name)
        if not sections:
            own.append(metric.name)
    parts = [_INTRO]
    for letter, (title, about) in DOCUMENTS.items():
        found = sorted((each for each in of_section if each[0] == letter), key=_order)
        rows = [[each, SECTIONS[each], _link(of_section[each])] for each in found]
        parts += [f"## {letter}: {title}\n", f"For {about}.\n"]
        parts.append(tabulate(("spec", "section", "metrics"), rows))
    if own:
        parts += ["## Defined here\n", f"No document defines these: {_link(own)}.\n"]
    return "\n".join(parts)


def _order(section: str) -> list[int]:
    return [int(part) for part in section[2:].split(".")]


def _link(names: Sequence[str]) -> str:
    return ", ".join(f"[{name}](../metrics.md#{name.lower()})" for name in names)
