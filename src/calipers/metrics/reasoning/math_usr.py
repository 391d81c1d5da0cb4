"""Math-aware unsupported step rate: the share of wrong equations in a chain of thought."""

from __future__ import annotations

from functools import partial

import polars as pl

from calipers.metrics.declare.columns import declare_part, map_known
from calipers.metrics.declare.declaration import Feature, Totals
from calipers.metrics.declare.means import declare_sums, mean, sum_whole
from calipers.metrics.reasoning.equations import COUNTS, count_equations_of

_QUOTED = 3  # wrong equations of a row
_LONGEST = 80  # characters of one

_counts = Feature(
    "equation_counts",
    ("cot",),
    lambda _: map_known(pl.col("cot"), count_equations_of, COUNTS),
    COUNTS,
    stored=False,
    listed=False,
)

_count = partial(declare_part, of=_counts, dtype=pl.Int32())
equations = _count("equations", part="equations")
wrong_equations = _count("wrong_equations", part="wrong")
rounded_equations = _count("rounded_equations", part="rounded")
equals_signs = _count("equals_signs", part="equals_signs")

wrong_share = Feature(
    "math_usr",
    (equations, wrong_equations),
    lambda _: pl.when(pl.col(equations.name) > 0).then(
        pl.col(wrong_equations.name) / pl.col(equations.name)
    ),
)


def _quote(cot: str) -> str:
    from calipers.metrics.reasoning.equations.reading import quote_wrong_equations  # noqa: PLC0415

    wrong = quote_wrong_equations(cot)
    shown = [each if len(each) <= _LONGEST else f"{each[:_LONGEST]}…" for each in wrong[:_QUOTED]]
    rest = [f"and {len(wrong) - _QUOTED} more"] if len(wrong) > _QUOTED else []
    return "; ".join((*shown, *rest))


_quoted = Feature(
    "wrong",
    ("cot", wrong_equations),
    lambda _: (
        pl.when(pl.col(wrong_equations.name) > 0)
        .then("cot")
        .map_elements(_quote, return_dtype=pl.String())
    ),
    pl.String(),
)


def _compute_coverage(totals: Totals) -> float | None:
    signs = totals["equals_signs__sum"]
    return totals["equations__sum"] / signs if signs else None


_counted = (equations, wrong_equations, rounded_equations, equals_signs)

math_usr = mean(
    wrong_share,
    says="The share of wrong equations in a chain of thought.",
    formula="mean over chains with equations of (wrong equations / equations)",
    spec="Z 8",
    version=2,
    needs=("cot",),
    nulls="a row without a cot, or whose cot holds no equation, is left out",
    range=(0, 1),
    better="lower",
    empty="no cot holds an equation",
    aggregate=declare_sums(
        wrong_share,
        *_counted,
        **{f"{each.name}__sum": sum_whole(each) for each in _counted},
    ),
    extras={
        "equations": "equations__sum",
        "wrong": "wrong_equations__sum",
        "rounded": "rounded_equations__sum",
        "equals_signs": "equals_signs__sum",
        "coverage": _compute_coverage,
    },
    quotes=_quoted,
)
