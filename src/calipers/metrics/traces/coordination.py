"""Coordination of agents (P, tier 3): message overhead, centrality, and balance of tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import polars as pl

from calipers.metrics.declare.columns import declare_part, map_known
from calipers.metrics.declare.declaration import Feature, Totals, add_up
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.declare.settings import Settings
from calipers.metrics.traces.graphs.graphs import find_highest_centrality
from calipers.metrics.traces.trace import declare_count, mean_of_traces, part, trace

COORDINATING = ("coordination", "status_update", "handoff")
PRODUCTIVE = ("task_request", "result_delivery", "data_transfer")


def _count_messages() -> pl.Expr:
    return part("agent_interactions").list.len()


def _count_messages_of(types: Iterable[str]) -> pl.Expr:
    kind = pl.element().struct.field("type")
    return part("agent_interactions").list.eval(kind.is_in(list(types))).list.sum()


def _measure_overhead(_: Settings) -> pl.Expr:
    share = _count_messages_of(COORDINATING) / _count_messages()
    return pl.when(_count_messages() > 0).then(share).when(_count_messages() == 0).then(0.0)


communication_overhead = Feature("communication_overhead", (trace,), _measure_overhead)

_all_messages = declare_count("_messages", _count_messages())
_unknown_messages = declare_count(
    "_unknown_messages", _count_messages() - _count_messages_of((*COORDINATING, *PRODUCTIVE))
)

coordination_centrality = Feature(
    "coordination_centrality",
    (trace,),
    lambda _: map_known(part("agent_interactions"), find_highest_centrality, pl.Float64()),
)

task_distribution_balance = declare_part("task_distribution_balance", trace, "balance")


def _compute_unknown_share(totals: Totals) -> float | None:
    messages = totals.get("messages__sum")
    return totals["messages__unknown"] / messages if messages else None


overhead_mean = mean_of_traces(
    communication_overhead,
    says="The share of messages that only coordinate.",
    formula=f"mean(messages of type {', '.join(COORDINATING)} / all messages)",
    spec="P 3.3",
    nulls="a row whose trace has no `agent_interactions` is left out; without messages it is 0",
    range=(0, 1),
    better="lower",
    empty="no record has a trace with agent_interactions",
    aggregate=declare_sums(
        communication_overhead,
        _all_messages,
        _unknown_messages,
        messages__sum=pl.col(_all_messages.name).sum(),
        messages__unknown=pl.col(_unknown_messages.name).sum(),
    ),
    extras={"messages": "messages__sum", "unknown_type_share": _compute_unknown_share},
)

centrality_mean = mean_of_traces(
    coordination_centrality,
    says="How much of the talk goes through one agent: the most central agent's centrality.",
    formula="mean(max over agents of (betweenness + closeness + degree) / 3), "
    "as networkx defines them on a DiGraph",
    spec="P 3.4",
    nulls="a row whose trace has no message that names an agent is left out",
    empty="no record has a trace with messages between agents",
)

balance_mean = mean_of_traces(
    task_distribution_balance,
    says="How evenly tasks are spread over the agents: 1 is even, 0 as uneven as can be.",
    formula="mean(max(0, 1 − standard deviation / mean of the agents' task counts)), "
    "the deviation of a sample (n − 1)",
    spec="P 3.5",
    nulls="a row whose trace has no `agent_tasks` is left out; 1 with fewer than two agents "
    "or no task",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with agent_tasks",
)


def note_messages(groups: Collection[Totals]) -> Iterator[str]:
    """Yield how many messages are of types that count neither as coordination nor as work."""
    if unknown := add_up(groups, "messages__unknown"):
        yield (
            f"{unknown} of {add_up(groups, 'messages__sum')} messages are of no known type and "
            f"count as no overhead; known: {', '.join((*COORDINATING, *PRODUCTIVE))}"
        )
