r"""Count the equations of many texts at once, without the native library.

Most equations that people and models write are short and right: `She has 16 - 3 = 13 eggs left.`
Regular expressions over columns find those of which the exact reader (`reading.py`) would say
"right" too, and integer arithmetic proves it. A line with a sign that is not settled so goes to the
exact reader, each distinct line once. Tests hold all ways together on real and drawn texts.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from calipers.metrics.reasoning.equations import COUNTS, EquationCounts
from calipers.metrics.reasoning.equations.reading import (
    count_equations,
    count_in_line,
    count_in_mark,
)
from calipers.metrics.reasoning.equations.sides import NO_UNIT, SPELLED_OUT

_SIGN = r"[=≈≐]|\\(?:approx|simeq|doteq|equiv)"
# A sign that the columns do not read: `<=`, `==`, `≈` and the like.
_OTHER_SIGN = r"[<>!:=~]=|=[=>]|[≈≐]|\\(?:approx|simeq|doteq|equiv)"
_MARK = r"<<[^<>\r\n]*>>"
_LIST_MARK = r"^\s*(?:[0-9]+[.)]|[-*•])\s+"
_NUMBER = r"[$]?((?:[0-9]{1,9}|[0-9]{1,3},[0-9]{3})(?:\.[0-9]{1,18})?|\.[0-9]{1,9})"
_WORD = r"(?:[A-Za-z][A-Za-z'’-]+|a)"
_UNIT = rf"(?:(?:\s+|\s?/\s?){_WORD}){{0,5}}"
_OPERATOR = r"\s*([-+*/×÷−–x])\s*"
_LEFT = (
    rf"(?:^\s*|[A-Za-z]\s+of\s+|(?:^|[\s(])({_WORD})[,.:;]?\s+|[(])"
    rf"({_NUMBER}{_UNIT}{_OPERATOR}{_NUMBER}{_UNIT}(?:{_OPERATOR}{_NUMBER}{_UNIT})?)\s*$"
)
_RIGHT = rf"^\s*{_NUMBER}(?:(?:\s+|/){_WORD})*\s*(?:$|[.,;:?)]+(?:\s|$)|\s[$]?[0-9])"
_IN_MARK = rf"^<<{_NUMBER}([-+*/]){_NUMBER}(?:([-+*/]){_NUMBER})?={_NUMBER}>>$"
# What ends in a variable, or in one and a number, is not a side of an equation: `2x =`, `x + 5 =`.
_ALGEBRA = r"(?:^|[^A-Za-z'’])[b-fi-kn-rt-zB-KM-Z](?:\s*[-+*/]\s*[$]?[0-9][0-9.,]*)?\s*$"
# LaTeX that can be spelled plainly without a change of meaning.
_PART = rf"\{{\s*{_NUMBER}({_UNIT})\s*\}}"
_PLAIN = (
    (r"\\text\s*\{\s*([A-Za-z][^{}\\$=]*)\}", " ${1} "),
    (r"\\boxed\s*\{([^{}\\=]*)\}", " ${1} "),
    (r"\\(?:times|cdot)\b", "*"),
    (r"\\div\b", "/"),
    (r"\\[,;()\[\]]", " "),
    (r"\\[$]", "$$"),
    (rf"(^|[^0-9)/÷}}\s])(\s*)\\[dt]?frac{_PART}{_PART}", "${1}${2}${3}${4} / ${5}${6} "),
)
_OF = r"[0-9]\s+of\b"
_ENDS_CLAUSE = rf"(?i)\b(?:{'|'.join(sorted(NO_UNIT))})\b"
_ANY_DIGIT = r"[\d½⅓⅔¼¾⅕]"
# What may convert: a number, its unit, and another (`= 9 hours and 30 minutes`), and small coins.
_AFTER_NUMBER = (
    r"[0-9].*[A-Za-z].*[0-9]|(?i)\b(?:cents?|dimes?|nickels?|quarters?|penn|dozen|[ghmls]\b)"
)
_RIGHT_VERDICT, _ROUNDED, _WRONG = 0, 1, 2
# Numbers below 10^8 with two decimals differ by 10^-6 at least, sums and products of three too;
# doubles are a hundred times finer. Quotients differ by 10^-4 / divisors.
_FEW = 2
_LARGEST = 1e8
_EQUAL = 5e-7
_SAME = 1e-13
_TELLING = 1e8
_NEAR = 0.999  # of a unit; what is nearer to its end is left to exact arithmetic
_FEW_BYTES = 20_000  # of texts which the exact reader has read before the columns are set up
_PRINTED = 9  # bytes; a longer number may be a printed float


def count_in_python(texts: pl.Series) -> pl.Series:
    """Return a struct of `EquationCounts` for each text; null where there is no text."""
    if texts.dtype != pl.String or (texts.str.len_bytes().sum() or 0) > _FEW_BYTES:
        return _count_in_columns(texts)
    counts = [None if text is None else count_equations(text)._asdict() for text in texts]
    return pl.Series(texts.name, counts, dtype=COUNTS)


def _count_in_columns(texts: pl.Series) -> pl.Series:
    """Return the same with regular expressions over columns."""
    names = EquationCounts._fields
    frame = pl.DataFrame({"text": texts.rename("text")}).with_row_index("place")
    some = frame.filter(pl.col("text").str.contains(_SIGN))
    if some.is_empty():  # to compile the regular expressions takes tens of milliseconds
        counts = frame.with_columns(pl.lit(0).alias(name) for name in names)
    else:
        distinct = some.select("text").unique().with_row_index("row")
        parts = pl.concat([_count_marks(distinct), _count_lines(distinct)])
        sums = distinct.join(parts.group_by("row").agg(pl.col(*names).sum()), on="row")
        counted = some.join(sums, on="text").select("place", *names)
        counts = frame.join(counted, on="place", how="left", maintain_order="left")
    zeros = pl.struct(pl.col(*names).fill_null(0)).cast(COUNTS)
    has_text = pl.col("text").is_not_null()
    return counts.select(pl.when(has_text).then(zeros).alias(texts.name)).to_series()


def _count_marks(frame: pl.DataFrame) -> pl.DataFrame:
    marks = frame.select("row", text=pl.col("text").str.extract_all(_MARK)).explode("text")
    marks = marks.drop_nulls("text")
    parts = marks["text"].str.extract_groups(_IN_MARK).struct.unnest()
    verdict = _judge(parts)
    marks = marks.with_columns(
        is_settled=verdict.is_not_null(),
        found=1,
        wrong=verdict == _WRONG,
        rounded=verdict == _ROUNDED,
        signs=1,
    )
    return _finish(marks, lambda mark: count_in_mark(mark[2:-2]))


def _count_lines(frame: pl.DataFrame) -> pl.DataFrame:
    rest = pl.col("text").str.replace_all(_MARK, "").str.replace_all("\r\n?", "\n")
    lines = frame.select("row", text=rest.str.split("\n")).explode("text")
    lines = lines.filter(pl.col("text").str.contains(_SIGN)).with_row_index("line")
    plain = _spell_plainly(lines.select("line", plain=pl.col("text").str.replace(_LIST_MARK, "")))
    sides = plain.with_columns(
        side=pl.col("plain").str.splitn("=", 2).struct.rename_fields(["left", "right"])
    ).unnest("side")
    has_one = ~pl.col("right").str.contains("=", literal=True)
    settled = [_settle(sides.filter(has_one)), _settle_each(sides.filter(~has_one))]
    lines = lines.join(pl.concat(settled), on="line", how="left", maintain_order="left")
    return _finish(lines, count_in_line)


def _spell_plainly(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that can be read here, those with LaTeX spelled without it."""
    has_latex = pl.col("plain").str.contains(r"[\\{}]")
    plain = pl.col("plain")
    for pattern, spelling in _PLAIN:
        plain = plain.str.replace_all(pattern, spelling)
    spelled = lines.filter(has_latex).with_columns(plain=plain).filter(~has_latex)
    lines = pl.concat([lines.filter(~has_latex), spelled])
    return lines.filter(~pl.col("plain").str.contains(_OTHER_SIGN))


def _settle_each(lines: pl.DataFrame) -> pl.DataFrame:
    """Settle lines with several signs: all of them, or the line is left to the exact reader."""
    sides = pl.col("plain").str.split("=")
    pairs = lines.select(
        "line", left=sides.list.slice(0, sides.list.len() - 1), right=sides.list.slice(1)
    ).explode("left", "right")
    counts = pl.col("found", "wrong", "rounded", "signs").sum()
    return _settle(pairs).group_by("line").agg(pl.col("is_settled").all(), counts)


def _settle(pairs: pl.DataFrame) -> pl.DataFrame:
    """Say of each pair of sides whether the columns can tell what it is, and what they say."""
    left = pairs["left"].str.extract_groups(_LEFT).struct.unnest()
    left.columns = ["word", "expression", "1", "2", "3", "4", "5"]
    verdict = _judge(left.with_columns(pairs["right"].str.extract(_RIGHT).alias("6")))
    frame = pairs.with_columns(left["word", "expression", "4"], verdict=verdict)
    has_verdict = pl.col("verdict").is_not_null()
    told = frame.filter(has_verdict)
    is_wrong = pl.col("verdict") == _WRONG
    is_sure = told.select(~is_wrong).to_series()
    if not is_sure.all():
        is_sure |= told.select(_is_wrong_anyway()).to_series()
    told = told.with_columns(is_found=is_sure & told.select(_is_clear()).to_series())
    is_found = pl.col("is_found").fill_null(value=False)
    rest = pl.concat([told.filter(~is_found).drop("is_found"), frame.filter(~has_verdict)])
    found = told.filter(is_found).select(
        "line",
        is_settled=pl.lit(value=True),
        found=pl.lit(1, pl.UInt32),
        wrong=is_wrong.cast(pl.UInt32),
        rounded=(pl.col("verdict") == _ROUNDED).cast(pl.UInt32),
    )
    nothing = dict.fromkeys(("found", "wrong", "rounded"), pl.lit(0, pl.UInt32))
    others = rest.select("line", is_settled=_is_none(), **nothing)
    return pl.concat([found, others]).with_columns(signs=pl.lit(1, pl.UInt32))


def _is_clear() -> pl.Expr:
    """Say of what has a verdict whether the exact reader sees the same two sides."""
    expression = pl.col("expression").str
    has_words = expression.contains("[A-Za-wyz]")
    return (
        pl.col("word").ne_missing("of")
        & ~(has_words & (expression.contains(_OF) | expression.contains(_ENDS_CLAUSE)))
        & ~(has_words & pl.col("left").str.contains(_ALGEBRA))
        & ~pl.col("right").str.contains(_OF)
    )


def _is_wrong_anyway() -> pl.Expr:
    """Say whether a wrong equation is wrong under every reading."""
    expression = pl.col("expression").str
    is_dash = expression.contains("-") & pl.col("word").is_not_null() & pl.col("4").is_not_null()
    return (
        ~expression.contains("[A-Za-wyz]|–|/.*/")
        & ~is_dash
        & ~pl.col("word").str.to_lowercase().is_in(sorted(SPELLED_OUT)).fill_null(value=False)
        & ~pl.col("right").str.contains(_AFTER_NUMBER)
        & ~pl.col("left").str.contains(r"\s+of\s+[$]?[0-9.,]+[^A-Za-wyz]*$")
    )


def _is_none() -> pl.Expr:
    """Say whether two sides surely make no equation."""
    return (
        ~pl.col("left").str.contains(_ANY_DIGIT)
        | ~pl.col("right").str.contains(_ANY_DIGIT)
        | pl.col("left").str.contains(_ALGEBRA)
    )


def _judge(parts: pl.DataFrame) -> pl.Series:
    """Return what is to be said of `1 2 3 [4 5] = 6`; null where the columns cannot tell."""
    numbers = {
        name: pl.col(name).str.replace(",", "", literal=True).cast(pl.Float64) for name in "1356"
    }
    point = {name: pl.col(name).str.find(".", literal=True) for name in "1356"}
    length = {name: pl.col(name).str.len_bytes() for name in "1356"}
    decimals = {
        name: (length[name].cast(pl.Int64) - point[name] - 1).fill_null(0) for name in "1356"
    }
    operator = {
        name: pl.col(name).replace({"×": "*", "x": "*", "÷": "/", "−": "-", "–": "-"})
        for name in "24"
    }
    frame = parts.select(
        **{f"v{name}": number for name, number in numbers.items()},
        **{f"o{name}": each for name, each in operator.items()},
        decimals=decimals["6"],
        is_short=pl.max_horizontal(*decimals.values()) <= _FEW,
        is_float=pl.max_horizontal(*length.values()) > _PRINTED,
    )
    a, b, c, result = (pl.col(f"v{name}") for name in "1356")
    first, second = pl.col("o2"), pl.col("o4")
    value = (
        pl.when(second.is_null())
        .then(_apply(first, a, b))
        .when(second.is_in(["*", "/"]) & first.is_in(["+", "-"]))
        .then(_apply(first, a, _apply(second, b, c)))
        .otherwise(_apply(second, _apply(first, a, b), c))
    )
    frame = frame.with_columns(
        value=value, distance=(value - result).abs(), unit=pl.lit(10.0).pow(-pl.col("decimals"))
    )
    distance, unit = pl.col("distance"), pl.col("unit")
    size = pl.max_horizontal(pl.col("value").abs(), result, 1.0)
    divides = (first == "/") | (second == "/").fill_null(value=False)
    divisor = pl.max_horizontal(b, 1.0) * pl.max_horizontal(c.fill_null(1.0), 1.0)
    is_equal = pl.col("is_short") & (
        pl.when(divides)
        .then((distance < _SAME * size) & (divisor * size < _TELLING))
        .otherwise(distance < _EQUAL)
    )
    has_decimals = pl.col("decimals") > 0
    verdict = (
        pl.when(is_equal | (has_decimals & (distance < _NEAR * unit)))
        .then(_RIGHT_VERDICT)
        .when((distance < _EQUAL) | pl.col("is_float"))
        .then(None)
        .when(has_decimals)
        .then(pl.when(distance > (2 - _NEAR) * unit).then(_WRONG))
        .when(distance < _NEAR / 2)
        .then(_ROUNDED)
        .when(distance > (2 - _NEAR) / 2)
        .then(_WRONG)
    )
    return frame.select(pl.when(size < _LARGEST).then(verdict).alias("verdict")).to_series()


def _apply(operator: pl.Expr, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Return `a operator b`; null where it divides by zero."""
    return (
        pl.when(operator == "+")
        .then(a + b)
        .when(operator == "-")
        .then(a - b)
        .when(operator == "*")
        .then(a * b)
        .when(b != 0)
        .then(a / b)
    )


def _finish(frame: pl.DataFrame, count: Callable[[str], EquationCounts]) -> pl.DataFrame:
    """Return counts per row of the frame; what is not settled is read, each text once."""
    is_settled = pl.col("is_settled").fill_null(value=False)
    settled = frame.filter(is_settled).select(
        "row", "wrong", "rounded", equations="found", equals_signs="signs"
    )
    open_ = frame.filter(~is_settled).select("row", "text")
    texts = open_["text"].unique().to_list()
    counted = pl.DataFrame([count(text) for text in texts], COUNTS.to_schema(), orient="row")
    counts = counted.with_columns(text=pl.Series(texts, dtype=pl.String))
    read = open_.join(counts, on="text", how="left").drop("text")
    return pl.concat([read, settled.select(read.columns).cast(read.schema)])
