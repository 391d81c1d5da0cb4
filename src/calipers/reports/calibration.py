"""How far judges agree with people, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calipers.reports.figures import NOTHING, printable
from calipers.reports.terminal import rendered
from calipers.scores.calibration import PASSED, SENSITIVITY, SPECIFICITY

if TYPE_CHECKING:
    from calipers.scores.calibration import Calibration, Calibrations
    from calipers.statistics.influence import Estimate

_OF_NUMBERS = "κ of scores weighs a disagreement by its square; the file has the exact one too"


def calibration_text(found: Calibrations, console: Console | None = None) -> str:
    """A table per judge: a row per aspect, every measure with its interval."""
    return rendered(console, lambda out: _show(found, out))


def _show(found: Calibrations, out: Console) -> None:
    for each in found.judges:
        out.print(Text(f"{_name(each)}: {each.n:,} records judged by people too"))
        if each.aspects:
            out.print(_table(each))
        for line in _rates(each) if PASSED in each.aspects else ():
            out.print(Text(line))
    if any(aspect != PASSED for each in found.judges for aspect in each.aspects):
        out.print(Text(_OF_NUMBERS, style="dim"))


def _name(each: Calibration) -> str:
    by = " ".join(filter(None, (each.rubric, each.rubric_hash))) or "no rubric named"
    panel = "panel of " if len(each.members) > 1 else ""
    who = ", ".join(model for model, _ in each.members)
    return printable(f"{panel}{each.judge} ({who}), {by}")


def _table(each: Calibration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("aspect")
    for head in ("n", "κ", "α", "Spearman", "bias"):
        table.add_column(head, justify="right", no_wrap=True)
    for aspect, measures in each.aspects.items():
        alpha = next(m for name, m in measures.items() if name.startswith("krippendorff"))
        shown = (each.kappa(aspect), alpha, measures["spearman"], measures["bias"])
        table.add_row(
            Text(printable(aspect.removeprefix("scores."))),
            f"{measures['bias'].n:,}",
            *map(_estimate, shown),
        )
    return table


def _rates(each: Calibration) -> Iterator[str]:
    """What a high κ may hide: how much of what is bad the judge lets pass."""
    said = (
        ("sensitivity", SENSITIVITY, "of what people pass, the judge passes"),
        ("specificity", SPECIFICITY, "of what people fail, the judge fails"),
    )
    for name, measure, what in said:
        if (found := each.aspects[PASSED].get(measure)) is not None:
            yield f"{name} {_estimate(found)}: {what} this share (n {found.n:,})"


def _estimate(found: Estimate | None) -> str:
    if found is None or found.value is None:
        return NOTHING
    around = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{found.value:.2f}{around}"
