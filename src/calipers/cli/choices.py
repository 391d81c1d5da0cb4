"""The options of every command that measures: how metrics are computed."""

from __future__ import annotations

from pathlib import Path

import click

from calipers.cli.shared import F

policy_option = click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Weights of scenarios and the latency budget, from the policy of a gate.",
)


_CHOICES = (
    click.option(
        "--normalize",
        type=click.Choice(("numeric", "text")),
        default="numeric",
        show_default=True,
        help="Compare numbers by value (18.0 = 18), or answers as text.",
    ),
    click.option(
        "--bins", default=10, show_default=True, metavar="K", help="Number of bins of the ECE."
    ),
    click.option(
        "--tokenizer",
        default="whitespace",
        show_default=True,
        metavar="NAME",
        help="Tokenizer: whitespace, a tokenizer.json file, or a name on the hub.",
    ),
    click.option(
        "--pass-weight",
        default=0.5,
        show_default=True,
        help="Weight of passing in composite_score.",
    ),
    click.option(
        "--impl-weight",
        default=0.5,
        show_default=True,
        help="Weight of impl_rate in composite_score.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Prices, YAML or JSON: {MODEL: {input: 3, output: 15}}, USD per million tokens.",
    ),
    click.option(
        "--judge-cost",
        type=click.Choice(("apart", "included")),
        default="apart",
        show_default=True,
        help="Cost of judging: apart as a metric of its own, or included in cost_usd.",
    ),
    click.option(
        "--errors",
        type=click.Choice(("exclude", "fail")),
        default="exclude",
        show_default=True,
        help="Failed calls: exclude them from every metric, or count them as failures.",
    ),
    click.option(
        "--pass-score",
        default=1.0,
        show_default=True,
        metavar="S",
        help="Lowest score at which a scenario passes, where the records do not say.",
    ),
    click.option(
        "--positive", metavar="LABEL", help="The positive label, for precision and recall."
    ),
    click.option(
        "--latency-budget",
        "latency_budget_ms",
        type=float,
        metavar="MS",
        help="The p95 latency from which final_score gives nothing for speed [policy, or 5000].",
    ),
    click.option(
        "--optimal-tools",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The best tool for each context, YAML or JSON: {CONTEXT: TOOL, '*': TOOL}.",
    ),
    click.option(
        "--start",
        metavar="TOOL",
        help="Tool at which the path starts; by default that of the first call.",
    ),
    click.option(
        "--goal",
        metavar="TOOL",
        help="Tool at which the path ends; by default that of the last call.",
    ),
    click.option(
        "--weights",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Weights of the parts of agent_composite, YAML or JSON: {task_success: 0.5, …}.",
    ),
    click.option(
        "--semantic-model",
        default="distilbert-base-uncased",
        show_default=True,
        metavar="NAME|FOLDER",
        help="Model that compares meanings; `lexical` is a stand-in that matches words.",
    ),
    click.option(
        "--semantic-cache",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Cache the model's scores in FOLDER, so that each pair of texts is scored only once.",
    ),
    click.option(
        "--missing",
        type=click.Choice(("zero", "renormalize")),
        default="zero",
        show_default=True,
        help="A missing part of a composite counts as 0, or its weight goes to the other parts.",
    ),
    click.option(
        "--checks",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Apply the checks in FILE, YAML or JSON, to the replies: docs/checks.md lists them.",
    ),
    click.option(
        "--success-threshold",
        default="0.8",
        show_default=True,
        metavar="NUMBER|FILE:Q",
        help="Output similarity of a success, or FILE:Q, the Q-quantile of its pairs.",
    ),
)


def choice_options(command: F) -> F:
    """Each choice as an option."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command
