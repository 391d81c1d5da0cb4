"""The rules of the four documents: where each is implemented, and the test that holds it.

The rules that define a metric follow from the metrics' declarations; the others (statistics,
grades, thresholds, criteria, fallbacks …) are listed here. `calipers metrics --spec Z` and
docs/reference/specifications.md show them; a test finds every place and every test that is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import getsource
from pkgutil import iter_modules

from calipers.metrics import Metric, families
from calipers.metrics.lookup import metrics_of

DOCUMENTS = {
    "Z": ("Zeta Reason v0.2, metrics specification", "answers, calibration, chains of thought"),
    "T": ("ProjectScylla, metrics formulas", "repeated runs over tiers, cost of pass, grades"),
    "S": ("Metrics guide reference", "scenarios, safety, thresholds and weights"),
    "P": ("PeerRead three-tier evaluation, metrics definitions", "texts, judges, traces of agents"),
}
SECTIONS = {
    "Z 1": "Notation",
    "Z 2.1": "Accuracy (ACC)",
    "Z 2.2": "Unsupported Step Rate v0 (USR_v0)",
    "Z 2.3": "Error Rate",
    "Z 3": "Calibration Metrics",
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
    "Z 7.1": "MetricsSummary",
    "Z 7.2": "Per-Task Logging",
    "Z 8": "Future Extensions",
    "T 1": "Pass Rate",
    "T 2": "Implementation Rate",
    "T 3": "Cost (USD)",
    "T 4": "Duration",
    "T 5": "Cost of Pass",
    "T 6": "Composite Score",
    "T 7": "Aggregate Statistics",
    "T 8": "Letter Grade Assignment",
    "T 9.1": "Tier Uplift",
    "T 9.2": "Pass Rate Variance",
    "T 9.3": "Cost Variance",
    "T 9.4": "Cost Delta",
    "T 10": "Example Calculations",
    "S 1.1": "Pass rate",
    "S 1.2": "Accuracy",
    "S 1.3": "Precision",
    "S 1.4": "Recall",
    "S 1.5": "Safety rate",
    "S 1.6": "Behavior coverage",
    "S 1.7": "Latency",
    "S 1.8": "Token efficiency",
    "S 2.1": "Per-scenario calculation",
    "S 2.2": "Suite-level aggregation",
    "S 2.3": "Weighted aggregation",
    "S 3.1": "Baseline approach",
    "S 3.2": "Risk-based thresholds",
    "S 3.3": "Blocking vs. warning thresholds",
    "S 3.4": "Progressive thresholds",
    "S 4.1": "Scenario weights",
    "S 4.2": "Required vs. optional scenarios",
    "S 4.3": "Category-specific pass rates",
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
    "P 5": "Recommendation Mapping",
    "P 6": "Performance Optimization",
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


_RULES = (
    DocumentRule(
        "Z 1",
        "normalize(s): white space, case, and plain decimal numbers by exact value",
        "metrics/families/answers.py:normalize",
        "conformance/test_conformance.py::test_polars_agrees_with_plain_python_on_lists",
    ),
    DocumentRule(
        "Z 1",
        "tokens(s): a split at white space, or a model's tokenizer",
        "metrics/text_counts.py:count_tokens",
        "metrics/test_tokens.py::*",
    ),
    DocumentRule(
        "Z 1",
        "A metric skips the tasks that lack a value it needs; a null answer is wrong",
        "engines/features.py:measure_records",
        "scores/test_scoring.py::test_a_null_takes_its_row_out_of_that_metric_alone",
    ),
    DocumentRule(
        "Z 3",
        "Without prob_correct, Brier and ECE are null",
        "metrics/families/calibration.py:declare_brier",
        "scores/test_scoring.py::test_a_profile_shows_nulls_with_reasons",
    ),
    DocumentRule(
        "Z 3.2",
        "K equal bins, closed on the right; an empty one is skipped; K can be set",
        "metrics/families/calibration.py:declare_bin",
        "conformance/test_conformance.py::test_polars_agrees_with_plain_python_on_files",
    ),
    DocumentRule(
        "Z 4.1",
        "Natural logarithm; normalized by the logarithm of the number of distinct answers",
        "metrics/families/answers.py:sce_normalized",
        "conformance/test_conformance.py::test_polars_agrees_with_plain_python_on_lists",
    ),
    DocumentRule(
        "Z 5.3",
        "Lines that begin as a step: a number and a dot, a dash or an asterisk",
        "metrics/families/reasoning.py:step_count",
        "metrics/test_cot_shape.py::test_by_default_steps_and_phrases_are_those_of_z",
    ),
    DocumentRule(
        "Z 5.5",
        "Five phrases, in upper or lower case",
        "metrics/families/reasoning.py:self_correcting",
        "metrics/test_cot_shape.py::test_by_default_steps_and_phrases_are_those_of_z",
    ),
    DocumentRule(
        "Z 6.2",
        "P95 is the value at position ⌈0.95 N⌉",
        "metrics/declare/declaration.py:Rank",
        "conformance/test_conformance.py::test_polars_agrees_with_plain_python_on_lists",
    ),
    DocumentRule(
        "Z 7.1",
        "The names of the summary; what lacks its data is null",
        "scores/result.py:Group",
        "scores/test_scoring.py::test_the_json_is_the_contracts",
    ),
    DocumentRule(
        "Z 7.2",
        "Values per task, in a file",
        "records/sinks.py:FileSinks",
        "cli/test_files_beside.py::*",
    ),
    DocumentRule(
        "Z 8",
        "RAG-aware USR: statements that the passages do not support",
        "metrics/grounding/support.py:judge_text",
        "metrics/test_grounding.py::test_labelled_answers",
    ),
    DocumentRule(
        "Z 8",
        "Math-aware USR: equations of the chain of thought",
        "metrics/equations/parser.py:count_equations",
        "metrics/test_labelled_equations.py::*",
    ),
    DocumentRule(
        "Z 8",
        "Calibration by self-reported confidences, or logprobs, under several names",
        "metrics/families/calibration.py:StatedConfidence",
        "metrics/test_named_confidences.py::*",
    ),
    DocumentRule(
        "T 2",
        "impl_rate is the judgment's weighted score",
        "metrics/families/judged.py:judged_impl_rate",
        "conformance/test_tiers.py::test_polars_agrees_with_plain_python",
    ),
    DocumentRule(
        "T 2",
        "The judges' ten categories and their weights; what does not apply is left out",
        "metrics/families/judged.py:RUBRICS",
        "judges/test_built_in_rubrics.py::test_quality_weighs_what_applies",
    ),
    DocumentRule(
        "T 3",
        "Tokens times price per million, by the table of models; a recorded cost goes before it",
        "metrics/token_prices.py:price_calls",
        "metrics/test_cost.py::test_the_prices_of_t_give_the_numbers_of_t",
    ),
    DocumentRule(
        "T 3",
        "Models by the names of the table",
        "metrics/token_prices.py:Prices",
        "metrics/test_prices.py::test_dots_spaces_and_dashes_are_alike",
    ),
    DocumentRule(
        "T 4",
        "duration_seconds is end_time − start_time",
        "records/derived_fields.py:parse_seconds",
        "records/test_completing.py::*",
    ),
    DocumentRule(
        "T 5",
        "The cost of a pass is infinite where nothing passes",
        "metrics/families/cost.py:cost_of_pass",
        "scores/test_tiering.py::test_a_tier_that_never_passes_shows_what_a_pass_costs_at_least",
    ),
    DocumentRule(
        "T 6",
        "The weights of passing and of impl_rate: one half each unless set",
        "metrics/families/cost.py:composite_score",
        "conformance/test_tiers.py::test_polars_agrees_with_plain_python",
    ),
    DocumentRule(
        "T 6",
        "Weights that sum to 0 are refused",
        "metrics/declare/settings.py:Settings",
        "scores/test_tiering.py::test_weights_that_say_nothing_are_refused",
    ),
    *(
        DocumentRule(
            "T 7",
            rule,
            "metrics/declare/distributions.py:describe",
            "scores/test_tiering.py::test_example_2_ten_runs",
        )
        for rule in (
            "Median: the middle value, or the mean of the two in the middle",
            "Mean: the arithmetic average",
            "Mode: the most frequent value, of several the smallest",
            "Range: the smallest and the largest value",
            "Standard deviation of the population: divided by n",
            "All statistics, with their count",
        )
    ),
    DocumentRule(
        "T 8",
        "A from 0.95, B from 0.85, C from 0.75, D from 0.65, else F",
        "metrics/families/cost.py:T_GRADES",
        "scores/test_tiering.py::test_grades",
    ),
    DocumentRule(
        "T 8",
        "Grades rest on the median composite score",
        "scores/groups.py:T_GRADES",
        "scores/test_tiering.py::test_the_table_shows_grades_and_uplift",
    ),
    DocumentRule(
        "T 8",
        "Another scale of letters, where it is set",
        "metrics/families/cost.py:read_grade_scale",
        "scores/test_grade_scale.py::test_a_scale_of_ones_own",
    ),
    DocumentRule(
        "T 9.1",
        "(tier − baseline) / baseline, of the median composites",
        "scores/tiers.py:compare_tiers",
        "scores/test_tiering.py::test_example_3_across_tiers",
    ),
    DocumentRule(
        "T 9.1",
        "A baseline of 0, or none: null with the reason",
        "scores/tiers.py:compare_tiers",
        "scores/test_tiering.py::test_an_uplift_without_a_base_is_null_with_a_reason",
    ),
    *(
        DocumentRule(
            spec,
            rule,
            "scores/tiers.py:compare_tiers",
            "scores/test_tiering.py::test_the_json_is_the_contracts",
        )
        for spec, rule in (
            ("T 9.2", "The population variance of the tiers' median pass rates"),
            ("T 9.3", "The population variance of the tiers' median costs"),
            ("T 9.4", "The largest median cost minus the smallest"),
        )
    ),
    DocumentRule(
        "T 10",
        "Example 1: a single run, 0.925 is a B",
        "metrics/families/cost.py:composite_score",
        "scores/test_tiering.py::test_example_1_a_single_run",
    ),
    DocumentRule(
        "T 10",
        "Example 2: ten runs",
        "metrics/declare/distributions.py:describe",
        "scores/test_tiering.py::test_example_2_ten_runs",
    ),
    DocumentRule(
        "T 10",
        "Example 3: uplift and variance across tiers",
        "scores/tiers.py:compare_tiers",
        "scores/test_tiering.py::test_example_3_across_tiers",
    ),
    DocumentRule(
        "S 1.7",
        "The typical thresholds of the metrics are accepted as they are written",
        "metrics/thresholds.py:parse_threshold",
        "gates/test_policy.py::test_metrics_of_the_document_take_their_typical_threshold",
    ),
    DocumentRule(
        "S 2.1",
        "A scenario's score: observed / expected behaviors, 0 on any violation",
        "metrics/families/scenarios.py:scenario_score",
        "metrics/test_scenarios.py::test_a_scenario",
    ),
    DocumentRule(
        "S 2.1",
        "Any violation fails, whatever else is recorded",
        "metrics/families/scenarios.py:passed",
        "conformance/test_scenarios.py::test_polars_agrees_with_plain_python_on_lists",
    ),
    DocumentRule(
        "S 2.2",
        "Safety is about adversarial scenarios alone; without any it is null",
        "metrics/families/scenarios.py:safety_rate",
        "metrics/test_scenarios.py::test_safety_is_about_adversarial_scenarios_only",
    ),
    DocumentRule(
        "S 2.2",
        "Behavior coverage is the mean of the scenarios' scores",
        "metrics/families/scenarios.py:behavior_coverage",
        "conformance/test_scenarios.py::test_polars_agrees_with_plain_python_on_lists",
    ),
    DocumentRule(
        "S 2.3",
        "weighted_score(metrics, weights): Σ weight · metric / Σ weight",
        "gates/rules/composite_rule.py:weigh_metrics",
        "gates/test_composite.py::test_weighted_metrics",
    ),
    DocumentRule(
        "S 3.1",
        "A run is recorded as the baseline, and later runs are compared with it",
        "gates/rules/baseline_rule.py:Baseline",
        "gates/test_baselines.py::test_a_baseline_is_recorded_and_held_against",
    ),
    DocumentRule(
        "S 3.1",
        "A threshold slightly above the baseline: a negative margin",
        "gates/regressions.py:check_regression",
        "gates/test_baselines.py::test_a_negative_margin_demands_an_improvement",
    ),
    DocumentRule(
        "S 3.1",
        "The threshold is raised as the agent improves, and never lowered",
        "gates/baselines.py:ratchet",
        "gates/test_baselines.py::test_the_ratchet_raises_and_never_lowers",
    ),
    DocumentRule(
        "S 3.2",
        "Critical, high, medium and low risk, with their thresholds and reasons",
        "gates/policy_fields.py:Rule",
        "gates/test_policy.py::test_the_table_of_risks_and_that_of_releases",
    ),
    DocumentRule(
        "S 3.3",
        "Blocking thresholds fail the evaluation",
        "gates/rules/threshold_rules.py:Thresholds",
        "gates/test_decide.py::test_a_blocking_threshold_fails_and_names_the_scenarios",
    ),
    DocumentRule(
        "S 3.3",
        "Warning thresholds flag, and never block",
        "gates/rules/threshold_rules.py:Thresholds",
        "gates/test_decide.py::test_a_warning_never_blocks",
    ),
    DocumentRule(
        "S 3.3",
        "The document's JSON loads as it is; bare numbers are percent, or in the metric's unit",
        "gates/policy.py:read_policy",
        "gates/test_policy.py::test_policies_of_the_document_load_as_they_are",
    ),
    DocumentRule(
        "S 3.4",
        "Thresholds that rise from release to release",
        "gates/rules/threshold_rules.py:Progressive",
        "gates/test_baselines.py::test_thresholds_rise_from_release_to_release",
    ),
    DocumentRule(
        "S 4.1",
        "by_category × by_capability; an unnamed one weighs 1",
        "metrics/families/scenario_scores.py:CaseWeights",
        "metrics/test_scenarios.py::test_weights_of_category_and_capability_multiply",
    ),
    DocumentRule(
        "S 4.2",
        "Required scenarios must be there and pass",
        "gates/rules/scenario_rules.py:RequiredScenarios",
        "gates/test_required.py::test_required_scenarios_must_be_there_and_pass_in_all_their_runs",
    ),
    DocumentRule(
        "S 4.2",
        "Optional scenarios count in the scores and never block",
        "gates/rules/scenario_rules.py:OptionalScenarios",
        "gates/test_required.py::test_optional_scenarios_count_and_never_block",
    ),
    DocumentRule(
        "S 4.3",
        "An overall pass rate, and one for each category",
        "gates/rules/threshold_rules.py:PassCriteria",
        "gates/test_required.py::test_category_criteria",
    ),
    DocumentRule(
        "S 4.4",
        "pass: final_score ≥ 0.85 and safety_rate = 1.0",
        "gates/rules/composite_rule.py:Composite",
        "gates/test_composite.py::test_the_composite_needs_both_parts_of_its_rule",
    ),
    DocumentRule(
        "S 4.4",
        "Safety is compared as counts: one failure is not 100 %",
        "gates/threshold_test.py:judge_value",
        "gates/test_decide.py::test_safety_is_compared_as_counts",
    ),
    DocumentRule(
        "S 4.4",
        "normalized_latency is min(1, p95 / budget)",
        "metrics/families/scenario_scores.py:final_score",
        "gates/test_composite.py::test_the_latency_budget_is_the_policys_unless_another_is_named",
    ),
    DocumentRule(
        "P 1.1",
        "TF-IDF of the pair, (1, 2)-grams, English stop words, as scikit-learn",
        "metrics/similarity/words.py:cosine",
        "metrics/texts/test_texts.py::test_cosine_is_that_of_scikit_learn",
    ),
    DocumentRule(
        "P 1.2",
        "Two empty texts are alike",
        "metrics/similarity/words.py:jaccard",
        "metrics/texts/test_texts.py::test_jaccard_is_that_of_the_document",
    ),
    DocumentRule(
        "P 1.3",
        "BERTScore F1 of distilbert-base-uncased, unless another model is named",
        "metrics/families/text.py:score_semantic",
        "metrics/semantic/test_models.py::*",
    ),
    DocumentRule(
        "P 1.4",
        "1 / (1 + ln t), and 1 below a second",
        "metrics/families/efficiency.py:time_score",
        "metrics/test_similarity.py::test_time_score",
    ),
    DocumentRule(
        "P 1.5",
        "0.5 semantic + 0.3 cosine + 0.2 Jaccard",
        "metrics/families/text.py:weigh_similarity",
        "metrics/test_similarity.py::test_the_parts_of_output_similarity",
    ),
    DocumentRule(
        "P 1.5",
        "Success from an output similarity of 0.8, or as it is configured",
        "metrics/families/text.py:task_success",
        "metrics/test_similarity.py::test_a_threshold_from_pairs_of_people",
    ),
    DocumentRule(
        "P 2.1",
        "The judge reads 2,000 characters of a paper",
        "judges/request.py:cut_text",
        "judges/test_request.py::test_a_cut_keeps_the_beginning_and_says_so",
    ),
    DocumentRule(
        "P 2.1",
        "Weights .5, .3, .2, divided by 5",
        "judges/rubrics.py:list_built_in",
        "judges/test_rubrics.py::test_technical_accuracy_is_as_the_document_has_it",
    ),
    DocumentRule(
        "P 2.2",
        "The sum of three criteria, divided by 15",
        "judges/rubrics.py:list_built_in",
        "judges/test_rubrics.py::test_constructiveness_is_as_the_document_has_it",
    ),
    DocumentRule(
        "P 2.3",
        "Weights .3, .5, .2, divided by 5",
        "judges/rubrics.py:list_built_in",
        "judges/test_rubrics.py::test_planning_rationality_is_as_the_document_has_it",
    ),
    DocumentRule(
        "P 2.3",
        "extract_planning_decisions: a summary of the trace",
        "judges/request.py:summarize_trace",
        "judges/test_request.py::test_the_plan_is_summarised",
    ),
    DocumentRule(
        "P 3.1",
        "The shortest path over the steps taken; 0 without a path",
        "metrics/trace_graphs.py:measure_convergence",
        "metrics/test_traces.py::test_path_convergence",
    ),
    DocumentRule(
        "P 3.2",
        "The optimal tool of a context: the exact one, else the longest contained, else `*`",
        "metrics/families/traces.py:OptimalTools",
        "metrics/traces/test_tools.py::test_exact_then_longest_contained_then_any",
    ),
    DocumentRule(
        "P 3.3",
        "Coordination, status updates and hand-offs, over all messages",
        "metrics/families/traces.py:communication_overhead",
        "conformance/test_traces.py::test_polars_agrees_with_plain_python",
    ),
    DocumentRule(
        "P 3.4",
        "The mean of betweenness, closeness and degree of every agent",
        "metrics/trace_graphs.py:measure_centralities",
        "metrics/traces/test_graphs.py::test_every_agent_has_a_centrality",
    ),
    DocumentRule(
        "P 3.5",
        "1 − sample deviation / mean, never below 0; 1 with fewer than two agents",
        "metrics/families/traces.py:task_distribution_balance",
        "metrics/test_traces.py::test_balance",
    ),
    DocumentRule(
        "P 4",
        "Weights of .167 each, or those of a configuration",
        "metrics/families/agents.py:WEIGHTS",
        "metrics/test_agent_composite.py::test_weights_from_a_file",
    ),
    DocumentRule(
        "P 4",
        "A missing part counts 0",
        "metrics/families/agents.py:composite_mean",
        "metrics/test_agent_composite.py::test_a_missing_part_counts_nothing_or_gives_its_weight_away",
    ),
    DocumentRule(
        "P 4",
        "The score is kept within [0, 1]",
        "metrics/families/agents.py:agent_composite",
        "metrics/test_agent_composite.py::test_all_parts_at_their_best_are_clamped_to_one",
    ),
    DocumentRule(
        "P 5",
        "accept from 0.8, weak_accept from 0.6, weak_reject from 0.4, else reject; 1, .7, −.7, −1",
        "metrics/families/agents.py:RECOMMENDATIONS",
        "metrics/test_agent_composite.py::test_the_least_score_of_each_recommendation",
    ),
    DocumentRule(
        "P 6",
        "Fallback to a simpler metric: only one that the user names, and the output says so",
        "metrics/families/text.py:score_semantic",
        "metrics/test_similarity.py::test_the_output_names_the_model_and_the_stand_in",
    ),
    DocumentRule(
        "P 6",
        "What fails degrades to null with its reason",
        "metrics/families/text.py:forget_failures",
        "metrics/test_similarity.py::test_without_the_extra_the_reason_says_what_to_install",
    ),
    DocumentRule(
        "P 6",
        "Scores of a model are cached, and computed in batches",
        "metrics/families/text.py:score_semantic",
        "metrics/test_similarity.py::test_the_model_sees_whole_batches",
    ),
)

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
    chosen = [each for each in rules if document is None or each.spec.startswith(document)]
    return sorted(chosen, key=lambda each: ([*DOCUMENTS].index(each.spec[0]), _order(each.spec)))


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
            for each in value if isinstance(value, tuple) else (value,):
                if is_own and isinstance(each, Metric):
                    homes.setdefault(each.name, (family, place))
    return homes


def _order(section: str) -> list[int]:
    return [int(part) for part in section[2:].split(".")]
