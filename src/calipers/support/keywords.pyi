# Made from the declared options: make reference
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from calipers.metrics.checks.checks import Checks
from calipers.metrics.families.scenario_scores import CaseWeights
from calipers.scores.resolve_options import PolicyLike

class MetricKeywords(TypedDict, total=False):
    normalize: Literal["numeric", "text"]
    answer: Literal["recorded", "last-number"]
    answer_after: str | None
    answer_regex: str | None
    bins: int
    tokenizer: str
    step_pattern: str | None
    correction_phrases: str | Sequence[str]
    rag_text: Literal["answer", "cot"]
    pass_weight: float
    impl_weight: float
    consensus: Literal["median", "confidence"]
    grade_scale: Mapping[str, Any] | str | Path | None
    prices: Mapping[str, Any] | str | Path | None
    judge_cost: Literal["apart", "included"]
    errors: Literal["exclude", "fail"]
    pass_score: float
    positive: str | None
    latency_budget_ms: float
    case_weights: CaseWeights | Mapping[str, Any] | str | Path | None
    optimal_tools: Mapping[str, Any] | str | Path | None
    start: str | None
    goal: str | None
    weights: Mapping[str, Any] | str | Path | None
    semantic_model: str
    semantic_cache: str | Path | None
    missing: Literal["zero", "renormalize"]
    success_threshold: float | str
    checks: Checks | Sequence[Mapping[str, Any]] | Mapping[str, Any] | str | Path | None

class ScoreKeywords(MetricKeywords, total=False):
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    bad_rows: str | Path | None
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    metrics: str | Sequence[str]
    profile: str | None
    policy: PolicyLike | None
    hash_inputs: bool
    baseline: str
    confidence: float
    cluster: str | None
    guarantee: bool
    random: str | Sequence[str]
    resamples: int
    seed: int
    tasks: Literal["sampled", "fixed"]
    weight: Literal["task", "row"] | None
    calibration: str | Path | Sequence[str | Path]
    per_sample: str | Path | None
    per_task: str | Path | None
    figures: str | Path | None

class RunKeywords(TypedDict, total=False):
    fresh: bool
    until_decided: bool
    until_better: str | None
    evidence: Literal["interval", "point"]
    seed: int
    shard: str | None
    checks: str | Path | Sequence[Mapping[str, Any]] | None
    report: bool
    description: Any
    name: Any
    map: Any
    sample: Any
    prompt: Any
    system: Any
    messages: Any
    user: Any
    tools: Any
    mcp: Any
    max_turns: Any
    answer: Any
    confidence: Any
    split_thinking: Any
    prompts: Any
    tiers: Any
    runs: Any
    concurrency: Any
    retries: Any
    timeout_seconds: Any
    budget_usd: Any
    budget_calls: Any
    cache: Any
    judges: Any
    metric_settings: Any
    metrics: Any
    trust: Any

class GateKeywords(MetricKeywords, total=False):
    policy: Required[PolicyLike]
    release: str | None
    against: str | Path | None
    save_baseline: str | Path | None
    ratchet: bool
    sabotage: bool
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    confidence: float
    cluster: str | None
    resamples: int
    seed: int
    weight: Literal["task", "row"] | None

class CompareKeywords(MetricKeywords, total=False):
    unpaired: bool
    between: str | None
    base: str | None
    attribute: bool
    base_normalize: Literal["numeric", "text"] | None
    flips: str | Path | None
    margin: float | str | None
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    metrics: str | Sequence[str]
    profile: str | None
    policy: PolicyLike | None
    confidence: float
    cluster: str | None
    guarantee: bool
    random: str | Sequence[str]
    resamples: int
    seed: int
    tasks: Literal["sampled", "fixed"]
    weight: Literal["task", "row"] | None

class RankKeywords(MetricKeywords, total=False):
    better: Literal["higher", "lower"] | None
    tasks: str | bool
    bradley_terry: bool
    unpaired: bool
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    metrics: str | Sequence[str]
    policy: PolicyLike | None
    confidence: float
    cluster: str | None
    resamples: int
    seed: int
    figures: str | Path | None

class ReportKeywords(MetricKeywords, total=False):
    policy: PolicyLike | None
    sabotage: bool
    title: str | None
    bundle: str | Path | None
    samples: int
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    baseline: str
    confidence: float
    cluster: str | None
    resamples: int
    seed: int
    figures: str | Path | None

class ExplainKeywords(MetricKeywords, total=False):
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    engine: str | None
    spark_master: str | None
    by: str | Sequence[str]
    policy: PolicyLike | None
    rows: int

class PowerKeywords(MetricKeywords, total=False):
    delta: float | None
    power: float
    confidence: float
    correlation: float
    runs: Sequence[int]
    width: float | None
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    by: str | Sequence[str]
    metrics: str | Sequence[str]
    policy: PolicyLike | None
    cluster: str | None

class AgreeKeywords(TypedDict, total=False):
    raters: str | Sequence[str]
    unit: str | Sequence[str]
    value: str | None
    rater_field: str | None
    level: Literal["nominal", "ordinal", "interval"]
    cluster: str | Sequence[str]
    seed: int
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    confidence: float

class AuditKeywords(TypedDict, total=False):
    weights: str | Path | Mapping[str, Any] | None
    worst: int
    before: Any | None
    map: Mapping[str, str] | None
    on_bad: Literal["stop", "skip", "null"]
    by: str | Sequence[str]
    confidence: float
    cluster: str | None
    seed: int

class JudgeKeywords(TypedDict, total=False):
    rubric: str | None
    pairwise: bool
    model: Required[str | Sequence[str]]
    name: str | None
    limit: int | None
    samples: int
    escalate: str | None
    near: float
    below: float | None
    base_url: str | None
    api_key_env: str | None
    settings: Mapping[str, Any] | None
    budget_usd: float | None
    budget_calls: int | None
    prices: str | Path | None
    cache: str | Path | None
    concurrency: int
    retries: int
    timeout: float
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    on_bad: Literal["stop", "skip", "null"]

class CalibrateKeywords(TypedDict, total=False):
    confidence: float

class DoctorKeywords(TypedDict, total=False):
    strict: bool
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]

class ReadKeywords(TypedDict, total=False):
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None

class ConvertKeywords(TypedDict, total=False):
    map: Mapping[str, str] | None
    source: str | None
    join: str | Path | None
    on: str | None
    answers: str | Sequence[str]
    on_bad: Literal["stop", "skip", "null"]
    bad_rows: str | Path | None
    engine: str | None
    spark_master: str | None
    tasks: Literal["failing", "flaky", "flagged"] | None
