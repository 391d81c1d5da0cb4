"""docs/reference/specifications.md: every rule of the documents, its place and its test."""

from __future__ import annotations

from collections.abc import Sequence

from calipers.metrics import Metric
from calipers.metrics.specifications import DOCUMENTS, DocumentRule, find_sections, list_rules
from tools.reference.markdown import tabulate

_INTRO = """\
# The four specifications

Four public documents define most metrics, and the rules by which they are combined, graded and held
against thresholds. Each of their rules has a row here: where it is implemented, below
`src/calipers`, and the test below `tests` that holds it. `calipers metrics --spec Z` lists them.

The field `spec` of a metric, in `calipers metrics` and on [Metrics](../metrics.md), names the
document by a letter and the section by its number: *Z 2.1* is section 2.1, Accuracy, of Zeta
Reason's specification. Sections without numbers of their own are counted in their order. What a
document leaves open is said in the metric's declaration (`nulls`, `formula`); a change of it is a
new `version` of the metric.

This page is made from the declarations (`make reference` writes it again).
"""


def write_specifications_page(metrics: Sequence[Metric]) -> str:
    """Return docs/reference/specifications.md; KeyError where a section has no name."""
    parts = [_INTRO]
    for letter, (title, about) in DOCUMENTS.items():
        parts += [f"## {letter}: {title}\n", f"For {about}.\n"]
        head = ("spec", "section", "rule", "implemented in", "held by")
        parts.append(tabulate(head, map(_list_cells, list_rules(letter))))
    if own := [metric.name for metric in metrics if not find_sections(metric)]:
        parts += ["## Defined here\n", f"No document defines these: {_link(own)}.\n"]
    return "\n".join(parts)


def _list_cells(rule: DocumentRule) -> list[str]:
    metric = "" if rule.metric is None else f"{_link([rule.metric])}: "
    formula = rule.rule.replace("*", "\\*")
    return [rule.spec, rule.section, f"{metric}{formula}", f"`{rule.where}`", f"`{rule.test}`"]


def _link(names: Sequence[str]) -> str:
    return ", ".join(f"[{name}](../metrics.md#{name.lower()})" for name in names)
