"""`composite`: one score made of several metrics, and further conditions for it to pass.

The score is the specification's `final_score`, the weighted mean of metrics that the user names
(S 2.3), or a formula of the user's own. Formulas are a small arithmetic language, parsed here and
never evaluated as Python.

>>> score = parse_formula("min(accuracy, 1) × 0.3 + (1 − normalized_latency) ÷ 2")
>>> score.names
('accuracy', 'normalized_latency')
>>> score.compute({"accuracy": 0.5, "normalized_latency": 0.2})
0.55
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from math import inf, isfinite, isnan
from operator import add, mul, sub, truediv
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from calipers.gates import policy_fields as values
from calipers.gates.policy_fields import FINAL_SCORE, Description, Rule, Rules, find_metric
from calipers.gates.result import Check
from calipers.gates.rule_kind import (
    Given,
    MeasuredRun,
    RuleChecker,
    RuleKind,
    join_checks,
    list_judged,
)
from calipers.gates.rules.threshold_rules import list_categories
from calipers.gates.sequential_checks import NO_MEAN, Demand, PlannedGroup
from calipers.metrics import Metric, catalogue
from calipers.metrics.thresholds import (
    Scale,
    Threshold,
    parse_threshold,
    read_scale,
    refuse_always_met,
)
from calipers.scores.result import Measured
from calipers.statistics.intervals import normal_quantile
from calipers.support.config import read_nonnegative, shown
from calipers.support.errors import UsageError, nearest
from calipers.support.strict_model import StrictModel, refuse

MAX_CHARACTERS = 2000
MAX_TOKENS = 400
MAX_DEPTH = 30

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)(?![\w.])|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-−–+*×·/÷(),]))",
    re.ASCII,
)
_SIGNS = {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/"}
_FIX = "names of metrics, numbers, + − × ÷ * /, min, max and parentheses, nothing else"

Bounds = tuple[float, float]
_Part = float | str | tuple[Any, ...]  # a number, a name, or a sign and the parts that it joins
_FUNCTIONS = ("min", "max")
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
    "min": min,
    "max": max,
}


def _evaluate(part: _Part, names: Mapping[str, float]) -> float:
    if isinstance(part, tuple):
        sign, *parts = part
        return reduce(_OPERATIONS[sign], (_evaluate(operand, names) for operand in parts))
    return names[part] if isinstance(part, str) else part


def _bound(part: _Part, names: Mapping[str, Bounds]) -> Bounds:
    if not isinstance(part, tuple):
        return names[part] if isinstance(part, str) else (part, part)
    sign, *parts = part
    lows, highs = zip(*(_bound(operand, names) for operand in parts), strict=True)
    operation = _OPERATIONS[sign]
    if sign in _FUNCTIONS:
        return reduce(operation, lows), reduce(operation, highs)
    if sign == "/" and lows[1] <= 0 <= highs[1]:
        return -inf, inf
    # Each of the four is monotonic in either side, so the ends give the ends.
    ends = [operation(a, b) for a in (lows[0], highs[0]) for b in (lows[1], highs[1])]
    return (-inf, inf) if any(map(isnan, ends)) else (min(ends), max(ends))


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was read, and the names in it in the order of their first use."""

    text: str
    names: tuple[str, ...]
    _root: _Part

    def compute(self, values: Mapping[str, float]) -> float:
        """Return its value; raise ZeroDivisionError for a division by zero."""
        return _evaluate(self._root, values)

    def bound(self, bounds: Mapping[str, Bounds]) -> Bounds:
        """Return its bounds, given the bounds of each name."""
        return _bound(self._root, bounds)

    def __str__(self) -> str:
        return self.text


def parse_formula(text: str) -> Formula:
    """Read a formula, or say where it stops being one."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a formula of more than {MAX_CHARACTERS} characters", fix="shorten it")
    tokens = list(_tokenize(text))
    if len(tokens) > MAX_TOKENS:
        raise UsageError(f"a formula of more than {MAX_TOKENS} words and signs", fix="shorten it")
    reader = _FormulaReader(text, tokens)
    root = reader.read_whole()
    return Formula(" ".join(text.split()), tuple(dict.fromkeys(reader.names)), root)


def _tokenize(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"not arithmetic, from here: {shown(text[at:].strip())}", fix=_FIX)
        yield _SIGNS.get(match[0].strip(), match[0].strip())
        at = match.end()


class _FormulaReader:
    """Recursive descent over the tokens, to a limited depth."""

    def __init__(self, text: str, tokens: list[str]) -> None:
        self.names: list[str] = []
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def read_whole(self) -> _Part:
        formula = self._read_sum()
        if self._next is not None:
            raise self._make_error()
        return formula

    def _read_sum(self) -> _Part:
        return self._join(("+", "-"), lambda: self._join(("*", "/"), self._read_factor))

    def _join(self, signs: tuple[str, str], read: Callable[[], _Part]) -> _Part:
        """Return parts with these signs between them, from left to right."""
        left = read()
        while self._next in signs:
            left = (self._take(), left, read())
        return left

    def _read_factor(self) -> _Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UsageError(f"a formula nested deeper than {MAX_DEPTH} levels", fix="flatten it")
        inner = self._read_inner()
        self._depth -= 1
        return inner

    def _read_inner(self) -> _Part:
        word = self._next
        if word is None or word in "*/),":
            raise self._make_error()
        self._take()
        if word in "+-":
            return (word, 0.0, self._read_factor())
        if word == "(":
            inner = self._read_sum()
            self._require(")")
            return inner
        if word[0].isdigit() or word[0] == ".":
            return float(word)
        if self._next == "(":
            return self._read_call(word)
        if word in _FUNCTIONS:
            raise UsageError(f"{word} without parentheses", fix=f"write {word}(…, …)")
        self.names.append(word)
        return word

    def _read_call(self, function: str) -> _Part:
        if function not in _FUNCTIONS:
            raise UsageError(f"{shown(function)} is not a known function", fix=_FIX)
        self._require("(")
        arguments = [self._read_sum()]
        while self._next == ",":
            self._take()
            arguments.append(self._read_sum())
        self._require(")")
        return (function, *arguments)

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _require(self, token: str) -> None:
        if self._next != token:
            raise self._make_error()
        self._take()

    def _make_error(self) -> UsageError:
        if self._next is None:
            return UsageError(f"the formula ends too soon: {shown(self._text.strip())}", fix=_FIX)
        return UsageError(f"{shown(self._next)} is unexpected at word {self._at + 1}", fix=_FIX)


_GOOD = "≥ 0.85"  # S: this, and every adversarial scenario passed
_SAFE = "= 100%"
_NORMALIZED_LATENCY = "normalized_latency"


def _read_formula(text: Any) -> Formula:
    if not isinstance(text, str):
        refuse(f"{shown(text)} is not a formula", fix='for example "0.5 × accuracy + 0.5 × recall"')
    name, equals, right = text.partition("=")
    if equals and name.strip() == FINAL_SCORE:  # as S writes it
        text = right
    formula = values.read_at((), parse_formula, text)
    for name in formula.names:
        values.read_at((), _find_metric, name)
    return formula


def _find_metric(name: str) -> Metric:
    try:
        return find_metric("latency_p95" if name == _NORMALIZED_LATENCY else name)
    except UsageError as error:
        fix = nearest(name, (*catalogue(), *values.ALIASES, _NORMALIZED_LATENCY))
        raise UsageError(error.message, fix=fix) from error


_FORMULA = {"type": "string", "examples": ["0.5 × accuracy + 0.5 × behavior_coverage"]}
WrittenFormula = Annotated[Formula, PlainValidator(_read_formula), WithJsonSchema(_FORMULA)]
WrittenThreshold = Annotated[Any, WithJsonSchema({"type": ["number", "string"], "default": _GOOD})]


def weigh_metrics(weights: Mapping[str, float]) -> Formula:
    """Return the formula of the weighted mean of metrics, Σ w·m / Σ w (S 2.3).

    >>> str(weigh_metrics({"accuracy": 1, "safety_rate": 3}))
    '(1 × accuracy + 3 × safety_rate) / (1 + 3)'
    """
    written = {
        name: f"{Decimal(repr(float(each))).normalize():f}" for name, each in weights.items()
    }
    terms = " + ".join(f"{weight} × {name}" for name, weight in written.items())
    parts: list[_Part] = [("*", float(weight), name) for name, weight in weights.items()]
    total: _Part = float(sum(weights.values()))
    summed = reduce(lambda left, right: ("+", left, right), parts)
    text = f"({terms}) / ({' + '.join(written.values())})"
    return Formula(text, tuple(weights), ("/", summed, total))


def _read_weights(table: Any) -> Formula:
    fix = "for example {accuracy: 1, safety_rate: 3}"
    if not isinstance(table, Mapping) or not table:
        refuse(f"{shown(table)} is no mapping from metrics to weights", fix=fix)
    weights: dict[str, float] = {}
    for name, weight in table.items():
        values.read_at((name,), _find_metric, str(name))
        weights[str(name)] = values.read_at(
            (name,), lambda given: read_nonnegative(given, "the weight", fix=fix), weight
        )
    if not 0 < sum(weights.values()) < inf:
        refuse("the weights sum to 0, or to no finite number", fix=fix)
    return weigh_metrics(weights)


_WEIGHTS = {
    "type": "object",
    "additionalProperties": {"type": "number", "minimum": 0},
    "examples": [{"accuracy": 1, "safety_rate": 3, "behavior_coverage": 1.5}],
}
WrittenWeights = Annotated[Formula, PlainValidator(_read_weights), WithJsonSchema(_WEIGHTS)]
_OWN_NAME = "composite"
_RATIO = (0.0, 1.0)
_ANY = (-inf, inf)


def make_scale(name: str, formula: Formula, *, is_mean: bool) -> Scale:
    """Return the scale of a score; the mean of ratios is a ratio, a formula may lie outside [0, 1].

    >>> make_scale("trust", weigh_metrics({"accuracy": 1}), is_mean=True).is_ratio
    True
    """
    parts = (each for each in formula.names if each != _NORMALIZED_LATENCY)
    ratios = all(read_scale(_find_metric(each)).is_ratio for each in parts)
    ends = _RATIO if is_mean and ratios else _ANY
    return Scale(name=name, unit=None, range=ends, better="higher")


_MEAN = re.compile(r"\(.*\) / \([0-9.]+(?: \+ [0-9.]+)*\)", re.DOTALL)


def read_scale_again(name: str, text: str) -> Scale:
    """Return the scale of a score that was decided, from the formula in the gate's JSON."""
    is_mean = _MEAN.fullmatch(text) is not None
    try:
        return make_scale(name, parse_formula(text), is_mean=is_mean)
    except UsageError:  # of metrics that are not known here
        return Scale(name=name, unit=None, range=_RATIO if is_mean else _ANY, better="higher")


class Composite(RuleKind, StrictModel):
    """One score made of several metrics, and further conditions for it to pass."""

    key: ClassVar[str] = "composite"
    may_be_null: ClassVar[bool] = True

    name: str | None = Field(
        default=None,
        min_length=1,
        description="What a score of your own is called; by default composite.",
    )
    description: Description = None
    weights: WrittenWeights | None = Field(
        default=None, description="Metrics and their weights: Σ weight · metric / Σ weight."
    )
    formula: WrittenFormula | None = Field(
        default=None, description="Arithmetic over metrics; by default final_score."
    )
    threshold: WrittenThreshold = _GOOD
    at_least: WrittenThreshold | None = Field(
        default=None, description="The lowest score that passes: 85, in place of threshold."
    )
    requires: Rules = Field(
        default_factory=lambda: values.read_rules({values.SAFETY: _SAFE}),
        validate_default=False,
        description="Further thresholds that must hold; by default safety_rate = 100%, and with "
        "weights none.",
    )

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        if self.weights is not None and self.formula is not None:
            refuse("weights and a formula say the same", fix="keep one", at=("formula",))
        if self.name is not None:
            self._check_name(self.name)
        if self.at_least is not None and "threshold" in self.model_fields_set:
            refuse("at_least and threshold say the same", fix="keep one", at=("at_least",))
        try:
            self.pass_mark()
        except UsageError as error:
            at = "threshold" if self.at_least is None else "at_least"
            refuse(error.message, fix=error.fix, at=(at,))
        return self

    def _check_name(self, name: str) -> None:
        if self.own is None:
            refuse(
                f"without weights or a formula, the score is {FINAL_SCORE}",
                fix="leave name out, or give weights",
                at=("name",),
            )
        if name in {*catalogue(), *values.ALIASES}:
            refuse(f"{name} is a metric", fix="give the composite another name", at=("name",))

    @property
    def own(self) -> Formula | None:
        """The formula of the user's own, written or of weights; None for S's."""
        return self.formula if self.weights is None else self.weights

    @property
    def title(self) -> str:
        """What the score is called: only S's own is `final_score`."""
        return FINAL_SCORE if self.own is None else self.name or _OWN_NAME

    @property
    def conditions(self) -> Mapping[str, Rule]:
        """What else must hold."""
        is_default = "requires" not in self.model_fields_set
        return {} if self.weights is not None and is_default else self.requires

    def pass_mark(self) -> Threshold:
        """Return what the score has to be; a formula of the user's own may lie outside [0, 1]."""
        written = self.threshold if self.at_least is None else self.at_least
        if self.own is None:
            return parse_threshold(written, read_scale(find_metric(FINAL_SCORE)))
        scale = make_scale(self.title, self.own, is_mean=self.weights is not None)
        threshold = parse_threshold(written, scale)
        refuse_always_met(threshold, self._find_range(self.own))
        return threshold

    def _find_range(self, formula: Formula) -> Bounds:
        """Return the least and the greatest score that the formula can come to."""
        ratio = (0.0, 1.0)
        ranges = {
            name: ratio if name == _NORMALIZED_LATENCY else _find_metric(name).range
            for name in formula.names
        }
        return formula.bound(ranges)

    def list_parts(self) -> tuple[str, ...]:
        """Return the metrics that it is computed from, or that its conditions are about."""
        if self.own is None:
            return (*self.conditions, FINAL_SCORE)
        return (*self.conditions, *(_find_metric(name).name for name in self.own.names))

    def list_categories(self, _given: Given) -> Iterable[str]:
        return list_categories(self.list_parts())

    def list_blocking(self, _given: Given) -> Iterable[str]:
        return self.list_parts()

    def list_metrics(self, _given: Given) -> Iterable[str]:
        return self.list_parts()

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield the check of the score, joined with what else has to hold."""
        own = self.own
        run = judge.run
        measured = run.group.metrics[FINAL_SCORE] if own is None else _compute(own, run)
        rule = Rule(name=self.title, threshold=self.pass_mark())
        check = judge.check_value(rule, measured, "composite", self.key, of=None)
        check = replace(
            check,
            undecided=judge.undecided(self.list_parts()),
            formula=None if own is None else own.text,
        )
        for further in self.conditions.values():
            check = join_checks(check, judge.check_metric(further, "composite", self.key))
        yield check

    def list_demands(self, _ahead: PlannedGroup) -> Iterator[Demand]:
        yield Demand(name=self.title, why_not=NO_MEAN)

    def list_judged_values(self, _check: Check, _judge: RuleChecker) -> tuple[str, ...]:
        return list_judged(self.list_parts())


def _compute(formula: Formula, run: MeasuredRun) -> Measured:
    """Return what a formula comes to; a part without a value leaves the whole without one.

    Its interval holds every value that the parts' intervals allow, as if all parts were at their
    bounds at once: it can be too wide, never too narrow.
    """
    parts: list[Measured] = []
    values: dict[str, float] = {}
    bounds: dict[str, Bounds] = {}
    for name in formula.names:
        metric = _find_metric(name)
        part = run.group.metrics[metric.name]
        if part.value is None:
            return _make_null(f"{metric.name} has none: {part.reason}")
        parts.append(part)
        low, high = metric.range
        ends = (low if part.low is None else part.low, high if part.high is None else part.high)
        if name == _NORMALIZED_LATENCY:
            budget = run.options.settings.latency_budget_ms
            values[name] = min(1.0, part.value / budget)
            bounds[name] = (min(1.0, ends[0] / budget), min(1.0, ends[1] / budget))
        else:
            values[name], bounds[name] = part.value, ends
    try:
        value = formula.compute(values)
    except ZeroDivisionError:
        return _make_null("the formula divides by zero")
    if not isfinite(value):
        return _make_null("the formula gives no finite number")
    low, high = formula.bound(bounds)
    is_bounded = isfinite(low) and isfinite(high)
    return Measured(
        value=value,
        n=min((part.n for part in parts), default=run.group.records - run.group.errors),
        missing=max((part.missing for part in parts), default=0),
        low=low if isfinite(low) else None,
        high=high if isfinite(high) else None,
        stderr=(high - low) / (2 * normal_quantile(run.options.confidence)) if is_bounded else None,
        interval="bounds of its parts",
    )


def _make_null(reason: str) -> Measured:
    return Measured(value=None, n=0, missing=0, reason=reason)
