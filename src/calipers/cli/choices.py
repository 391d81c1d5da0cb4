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
    click.option("--bins", default=10, show_default=True, metavar="K", help="Bins of the ECE."),
    click.option(
        "--tokenizer",
        default="whitespace",
        show_default=True,
        metavar="NAME",
        help="whitespace, a tokenizer.json file, or a name on the hub.",
    ),
    click.option(
        "--pass-weight", default=0.5, show_default=True, help="Of passing in composite_score."
    ),
    click.option("--impl-weight", default=0.5, show_default=True, help="Of impl_rate in it."),
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
        help="What judging cost: a metric of its own, or in cost_usd and the cost of a pass.",
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
        help="The score from which on a scenario passed, where the records do not say.",
    ),
    click.option(
        "--positive", metavar="LABEL", help="The positive label, for precision and recall."
    ),
    click.option(
        "--latency-budget",
        "latency_budget_ms",
        type=float,
        metavar="MS",
        help="The p95 latency that leaves final_score nothing for speed; else the policy's, 5000.",
    ),
    click.option(
        "--optimal-tools",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Which tool a call's context calls for, YAML or JSON: {CONTEXT: TOOL, '*': TOOL}.",
    ),
    click.option(
        "--start",
        metavar="TOOL",
        help="Where the way through the tools begins; else with the first call.",
    ),
    click.option("--goal", metavar="TOOL", help="Where it ends; else with the last call."),
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
        help="The model that compares meanings; lexical is a stand-in that matches words.",
    ),
    click.option(
        "--semantic-cache",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Keep the model's scores there, so that it is asked only once for a pair of texts.",
    ),
    click.option(
        "--missing",
        type=click.Choice(("zero", "renormalize")),
        default="zero",
        show_default=True,
        help="Of a composite a null part counts 0, or gives its weight to the other parts.",
    ),
    click.option(
        "--success-threshold",
        default="0.8",
        show_default=True,
        metavar="NUMBER|FILE:Q",
        help="Output similarity of a success, or the Q-quantile of that of the pairs in FILE.",
    ),
)


def choice_options(command: F) -> F:
    """Each choice as an option."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command
