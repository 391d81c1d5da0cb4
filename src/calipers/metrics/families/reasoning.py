"""Reasoning (Z): the shape of a chain of thought, and the share of wrong equations in it.

The shape is its length, its steps, and its size relative to the answer. `equations/` finds and
judges the equations.
"""

from __future__ import annotations

import re
from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import Feature, Totals
from calipers.metrics.declare.means import (
    declare_mean,
    declare_part,
    declare_sums,
    map_known,
    sum_whole,
)
from calipers.metrics.declare.settings import Settings
from calipers.metrics.equations import COUNTS, count_equations_of
from calipers.metrics.families.answers import PYTHON_SPACE
from calipers.metrics.text_counts import count_each, count_tokens
from calipers.support.errors import UsageError
from calipers.support.patterns import check_pattern

_NULLS = "a row without a cot is left out; an empty cot has length 0"

# Within one line: the white space around a step's mark must not reach over the line's end.
_INLINE_SPACE = f"[{re.escape(PYTHON_SPACE.replace(chr(10), '').replace(chr(13), ''))}]"
_STEP = rf"{_INLINE_SPACE}*(?:\d+\.|-|\*){_INLINE_SPACE}"

# In ASCII only, as Python's lower() would find them; it also turns the Kelvin sign into k.
_CORRECTION = (
    r"(?i-u:actually|sorry|correction|let me fix|i made a mistake)"
    r"|(?i-u:i made a mista)\x{212a}(?i-u:e)"
)


_STEP_LINE = re.compile(_STEP)
_LINE_END = re.compile(r"\r\n|\n|\r")
_CORRECTIONS = re.compile(
    "actually|sorry|correction|let me fix|i made a mista[k\u212a]e", re.IGNORECASE | re.ASCII
)


def check_shape(settings: Settings) -> None:
    """Raise UsageError for a pattern of steps that cannot be used, or an empty phrase."""
    if settings.step_pattern is not None:
        check_pattern(
            "--set step_pattern", settings.step_pattern, _match_start(settings.step_pattern)
        )
    if not all(settings.correction_phrases):
        raise UsageError(
            "--set correction_phrase: an empty text", fix="for example --set correction_phrase=wait"
        )


def _match_start(pattern: str) -> str:
    return f"^(?:{pattern})"


def mark_steps(cot: str, settings: Settings | None = None) -> list[tuple[bool, str]]:
    r"""Return each line of one chain of thought, with whether it begins a step.

    >>> mark_steps("First:\n1. add")
    [(False, 'First:'), (True, '1. add')]
    """
    lines = _LINE_END.split(cot)
    if settings is None or settings.step_pattern is None:
        return [(_STEP_LINE.match(line) is not None, line) for line in lines]
    steps = pl.Series(lines).str.contains(_match_start(settings.step_pattern))
    return list(zip(steps.to_list(), lines, strict=True))


def find_corrections(cot: str, settings: Settings | None = None) -> list[tuple[int, int]]:
    """Return where one chain of thought corrects itself: start and end of each phrase."""
    phrases = _CORRECTIONS
    if settings is not None and settings.correction_phrases:
        written = sorted(settings.correction_phrases, key=len, reverse=True)
        phrases = re.compile("|".join(map(re.escape, written)), re.IGNORECASE)
    return [match.span() for match in phrases.finditer(cot)]


def _count_steps(settings: Settings) -> pl.Expr:
    if settings.step_pattern is None:
        count = partial(count_each, "count_steps", in_python=count_steps_in_python)
        return map_known(pl.col("cot"), count, pl.Int64())
    lines = pl.col("cot").str.replace_all(_LINE_END.pattern, "\n").str.split("\n")
    begins = pl.element().str.contains(_match_start(settings.step_pattern))
    return lines.list.eval(begins.cast(pl.Int64)).list.sum()


def count_steps_in_python(texts: pl.Series) -> pl.Series:
    """Return how many lines of each text begin as a step; the first apart, which is faster."""
    first = texts.str.contains(f"^{_STEP}").cast(pl.Int64)
    return first + texts.str.count_matches(rf"[\r\n]{_STEP}").cast(pl.Int64)


def _find_correcting(settings: Settings) -> pl.Expr:
    if not settings.correction_phrases:
        return pl.col("cot").str.contains(_CORRECTION)
    phrases = "|".join(map(pl.escape_regex, settings.correction_phrases))
    return pl.col("cot").str.contains(f"(?i){phrases}")


cot_tokens = Feature("cot_tokens", ("cot",), partial(count_tokens, "cot"), pl.Int32())
cot_chars = Feature("cot_chars", ("cot",), lambda _: pl.col("cot").str.len_chars(), pl.Int32())
step_count = Feature("step_count", ("cot",), _count_steps, pl.Int32())
self_correcting = Feature("self_correcting", ("cot",), _find_correcting, pl.Boolean())
ra_ratio = Feature(
    "ra_ratio",
    ("answer", cot_tokens),
    lambda settings: pl.col("cot_tokens") / count_tokens("answer", settings).clip(lower_bound=1),
    null_without=("cot",),
)

_mean_of_cots = partial(declare_mean, needs=("cot",), nulls=_NULLS)

cot_tokens_mean = _mean_of_cots(
    cot_tokens,
    name="cot_tokens_mean",
    says="How long the chain of thought is, in tokens (white space unless `tokenizer` says other).",
    formula="mean(tokens(cot))",
    spec="Z 5.1",
    unit="tokens",
)

cot_chars_mean = _mean_of_cots(
    cot_chars,
    name="cot_chars_mean",
    says="How long the chain of thought is, in characters.",
    formula="mean(len(cot))",
    spec="Z 5.2",
    unit="chars",
)

step_count_mean = _mean_of_cots(
    step_count,
    name="step_count_mean",
    says="How many lines of the chain of thought begin as a step: `1.`, `-` or `*`.",
    formula=r"mean(number of lines that match ^\s*(\d+\.|-|\*)\s+), or the setting `step_pattern`",
    spec="Z 5.3",
    unit="steps",
)

ra_ratio_mean = declare_mean(
    ra_ratio,
    name="ra_ratio_mean",
    says="How many tokens of reasoning stand behind each token of the answer.",
    formula="mean(tokens(cot) / max(1, tokens(answer)))",
    spec="Z 5.4",
    needs=("cot", "answer"),
    nulls="a row without a cot or without an answer is left out",
)

self_correction_rate = declare_mean(
    self_correcting,
    name="self_correction_rate",
    says="The share of chains of thought that correct themselves, by five phrases.",
    formula="mean(cot contains actually, sorry, correction, let me fix, or I made a mistake), or "
    "the phrases of the setting `correction_phrase`",
    spec="Z 5.5",
    needs=("cot",),
    nulls="a row without a cot is left out",
)


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


def _quote(cot: str) -> str | None:
    from calipers.metrics.equations.parser import quote_wrong_equations  # noqa: PLC0415

    wrong = quote_wrong_equations(cot)
    shown = [
        equation if len(equation) <= _LONGEST else f"{equation[:_LONGEST]}…"
        for equation in wrong[:_QUOTED]
    ]
    rest = [f"and {len(wrong) - _QUOTED} more"] if len(wrong) > _QUOTED else []
    return "; ".join((*shown, *rest)) or None


_quoted = Feature(
    "wrong",
    ("cot",),
    lambda _: pl.col("cot").map_elements(_quote, return_dtype=pl.String()),
    pl.String(),
)


def _compute_coverage(totals: Totals) -> float | None:
    signs = totals["equals_signs__sum"]
    return totals["equations__sum"] / signs if signs else None


_counted = (equations, wrong_equations, rounded_equations, equals_signs)

math_usr = declare_mean(
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
        **{f"{feature.name}__sum": sum_whole(feature) for feature in _counted},
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
