"""The options of metrics: how they are computed. Each is declared here, and only here.

A field's type, default, help and bounds make it a NAME of `--set NAME=VALUE` in every command that
measures, a keyword in Python, and a key of `metric_settings:` in suites and policies
(`support/options.py`). The few with `is_setting=False` are options in their own right.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from calipers.records.reading_options import MEASURING
from calipers.support.errors import UsageError
from calipers.support.options import Option, option, read_options

if TYPE_CHECKING:
    from calipers.metrics.checks.checks import Checks
    from calipers.metrics.families.agents import AgentWeights
    from calipers.metrics.families.cost import GradeScale
    from calipers.metrics.families.scenario_scores import CaseWeights
    from calipers.metrics.families.traces import OptimalTools
    from calipers.metrics.token_prices import Prices

_ANSWERS = ("accuracy", "mode_accuracy", "answer_entropy", "stability")
_COMPOSITE = ("composite_score",)

_SEMANTIC = ("semantic_similarity", "output_similarity", "task_success", "agent_composite")


def _read_with(module: str, function: str) -> Callable[[Any], Any]:
    """Return a function that is imported when it is called: its module loads Polars."""

    def read(given: Any) -> Any:
        return getattr(import_module(f"calipers.{module}"), function)(given)

    return read


_TABLE = {  # of an option that takes a file, or a mapping in its place
    "kind": "any",
    "metavar": "FILE",
    "relative": "always",
    "python": "Mapping[str, Any] | str | Path | None",
    "schema": {"type": ["object", "string"]},
}


def _read_cache_folder(path: Path) -> str:
    from calipers.records.sinks import check_folder  # noqa: PLC0415 (loads Polars)

    check_folder(path, "--set semantic_cache")
    return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each choice with its default; the output names them all."""

    normalize: Literal["numeric", "text"] = option(
        "numeric", "Compare numbers by value (18.0 = 18), or answers as text.", metrics=_ANSWERS
    )
    answer: Literal["recorded", "last-number"] = option(
        "recorded",
        "Compare the recorded answer, or the last number in it ($18, 60 toys).",
        metrics=_ANSWERS,
    )
    answer_after: str | None = option(
        None,
        "Compare what follows the last TEXT in the recorded answer.",
        metavar="TEXT",
        metrics=_ANSWERS,
    )
    answer_regex: str | None = option(
        None,
        "Compare what the last match of REGEX holds: its first group, or all of it.",
        metavar="REGEX",
        metrics=_ANSWERS,
    )
    bins: int = option(
        10,
        "Number of bins of the ECE.",
        metavar="K",
        at_least=1,
        fix="10 is the usual number",
        metrics=("ece",),
    )
    tokenizer: str = option(
        "whitespace",
        "Tokenizer: whitespace, a tokenizer.json file, or a name on the hub.",
        metavar="NAME",
        relative="if there",
        metrics=("cot_tokens_mean",),
    )
    step_pattern: str | None = option(
        None,
        "Count lines of a chain of thought that begin with a match of REGEX as steps; by default "
        "those with a number and a dot, a dash or an asterisk.",
        metavar="REGEX",
        metrics=("step_count_mean",),
    )
    correction_phrases: tuple[str, ...] = option(
        (),
        "Count chains of thought that contain TEXT, in upper or lower case, as correcting "
        "themselves (repeatable); by default five phrases such as `let me fix`.",
        flag="--correction-phrase",
        metavar="TEXT",
        schema={"type": ["array", "string"], "items": {"type": "string"}},
        metrics=("self_correction_rate",),
    )
    rag_text: Literal["answer", "cot"] = option(
        "answer",
        "Look for support of the answer's statements, or of those of the chain of thought.",
        metrics=("rag_usr",),
    )
    pass_weight: float = option(
        0.5, "Weight of passing in composite_score.", at_least=0, metrics=_COMPOSITE
    )
    impl_weight: float = option(
        0.5, "Weight of impl_rate in composite_score.", at_least=0, metrics=_COMPOSITE
    )
    consensus: Literal["median", "confidence"] = option(
        "median",
        "Several judges' weighted scores: their median, or their mean weighted by confidence.",
        metrics=("impl_rate", *_COMPOSITE),
    )
    grade_scale: "GradeScale | None" = option(
        None,
        "Letters of grades and the lowest score of each, YAML or JSON: {S: 1.0, A: 0.8, …}; by "
        "default A 0.95, B 0.85, C 0.75, D 0.65. Below the last, the grade is F.",
        **_TABLE,
        read=_read_with("metrics.families.cost", "read_grade_scale"),
        metrics=_COMPOSITE,
    )
    prices: "Prices | None" = option(
        None,
        "Prices, YAML or JSON: {MODEL: {input: 3, output: 15}}, USD per million tokens.",
        **_TABLE,
        is_setting=False,
        read=_read_with("metrics.token_prices", "read_prices"),
        metrics=("cost_usd", "cost_of_pass"),
    )
    judge_cost: Literal["apart", "included"] = option(
        "apart",
        "Cost of judging: apart as a metric of its own, or included in cost_usd.",
        metrics=("cost_usd", "cost_of_pass"),
    )
    errors: Literal["exclude", "fail"] = option(
        "exclude",
        "Failed calls: exclude them from every metric, or count them as failures.",
        is_setting=False,
    )
    pass_score: float = option(
        1.0,
        "Lowest score at which a scenario passes, where the records do not say.",
        metavar="S",
        above=0,
        at_most=1,
        fix="1 asks for every expected behavior, 0.5 for half of them",
        metrics=("pass_rate", "weighted_pass_rate", "safety_rate", "final_score"),
    )
    positive: str | None = option(
        None,
        "The positive label, for precision and recall.",
        metavar="LABEL",
        may_be_empty=True,
        metrics=("precision", "recall"),
    )
    latency_budget_ms: float = option(
        5000.0,
        "The p95 latency from which final_score gives nothing for speed.",
        flag="--latency-budget",
        metavar="MS",
        above=0,
        fix="milliseconds above 0, for example 5000",
        metrics=("final_score",),
    )
    case_weights: "CaseWeights | None" = option(
        None,
        "Weights of scenarios, YAML or JSON: {by_category: {adversarial: 2}, by_capability: {}}.",
        **{**_TABLE, "python": "CaseWeights | Mapping[str, Any] | str | Path | None"},
        read=_read_with("metrics.families.scenario_scores", "read_case_weights"),
        metrics=("weighted_pass_rate",),
    )
    optimal_tools: "OptimalTools | None" = option(
        None,
        "The best tool for each context, YAML or JSON: {CONTEXT: TOOL, '*': TOOL}.",
        **_TABLE,
        read=_read_with("metrics.families.traces", "read_optimal_tools"),
        metrics=("tool_selection_accuracy",),
    )
    start: str | None = option(
        None,
        "Tool at which the path starts; by default that of the first call.",
        metavar="TOOL",
        may_be_empty=True,
        metrics=("path_convergence",),
    )
    goal: str | None = option(
        None,
        "Tool at which the path ends; by default that of the last call.",
        metavar="TOOL",
        may_be_empty=True,
        metrics=("path_convergence",),
    )
    weights: "AgentWeights | None" = option(
        None,
        "Weights of the parts of agent_composite, YAML or JSON: {task_success: 0.5, …}.",
        **_TABLE,
        read=_read_with("metrics.families.agents", "read_weights"),
        metrics=("agent_composite",),
    )
    semantic_model: str = option(
        "distilbert-base-uncased",
        "Model that compares meanings; `lexical` is a stand-in that matches words.",
        metavar="NAME|FOLDER",
        relative="if there",
        fix="a model's name, its folder, or lexical",
        metrics=_SEMANTIC,
    )
    semantic_cache: str | None = option(
        None,
        "Cache the model's scores in FOLDER, so that each pair of texts is scored only once.",
        kind="path",
        metavar="FOLDER",
        read=_read_cache_folder,
        metrics=_SEMANTIC,
    )
    missing: Literal["zero", "renormalize"] = option(
        "zero",
        "A missing part of a composite counts as 0, or its weight goes to the other parts.",
        metrics=("output_similarity", "task_success", "agent_composite"),
    )
    success_threshold: float = option(
        0.8,
        "Output similarity of a success, or FILE:Q, the Q-quantile of its pairs.",
        kind="any",
        metavar="NUMBER|FILE:Q",
        relative="always",
        python="float | str",
        schema={"type": ["number", "string"]},
        metrics=("task_success", "agent_composite"),
    )
    checks: "Checks | None" = option(
        None,
        "Apply the checks in FILE, YAML or JSON, to the replies: docs/checks.md lists them.",
        kind="any",
        metavar="FILE",
        relative="always",
        python="Checks | Sequence[Mapping[str, Any]] | Mapping[str, Any] | str | Path | None",
        schema={"type": ["array", "object", "string"]},
        is_setting=False,
        read=_read_with("metrics.checks.checks", "read_checks"),
        metrics=("behavior_coverage", "pass_rate"),
    )
    threshold_from: str | None = None  # where the threshold comes from, if it was measured

    def __post_init__(self) -> None:
        for each in list_metric_options().values():
            if each.kind in ("whole", "number", "choice", "text"):
                each.check(getattr(self, each.name))
        if not 0 <= self.success_threshold <= 1:
            raise UsageError(
                f"--set success_threshold={self.success_threshold:g}: outside [0, 1]",
                fix="0.8 is the default; FILE:0.5 is the median similarity of the pairs in FILE",
            )
        if not self.pass_weight + self.impl_weight:
            raise UsageError(
                "--set pass_weight and --set impl_weight must not both be 0",
                fix="0.5 and 0.5 count both alike",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as the output names them: files by their paths, tables whole."""
        shown = {declared.name: _show(getattr(self, declared.name)) for declared in fields(self)}
        scale = self.grade_scale or _read_with("metrics.families.cost", "read_grade_scale")(None)
        return {**shown, "grade_scale": scale.to_dict()}


def _show(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value.to_table() if hasattr(value, "to_table") else value


def list_metric_options() -> Mapping[str, Option]:
    """Return the options of metrics, by the names of their fields in `Settings`."""
    return read_options(Settings, "metrics", MEASURING)
