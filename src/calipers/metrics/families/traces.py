"""Traces (P, tier 3): tool use, and the coordination of agents.

A trace is decoded once for all metrics: calls, messages, and the balance of tasks. Polars reads
JSON lines straight into these columns, and texts from elsewhere in the same way. Rows that Polars
might misread (it writes out a list where a text should be) are read one by one, which also tells
what is wrong with a trace of the wrong shape.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature, Totals, add_up
from calipers.metrics.declare.means import declare_mean, declare_part, declare_sums, map_known
from calipers.metrics.declare.settings import Settings
from calipers.metrics.trace_graphs import (
    CENTRALITIES,
    MOST_AGENTS,
    MOST_LINKED,
    Floats,
    explode_lists,
    find_highest_centrality,
    measure_centralities,
    measure_convergence,
)
from calipers.records.fields import BadValue
from calipers.records.nested_fields import (
    CALLS_TYPE,
    MESSAGES_TYPE,
    TRACE_TYPE,
    Trace,
    read_tool_map,
    read_trace,
)
from calipers.support.config import read_table, shown
from calipers.support.errors import UsageError
from calipers.support.lazy_numpy import np

declare_trace_mean = partial(declare_mean, needs=("trace",), optional="unless asked for")

OPTIMAL_TOOLS = "optimal_tools"  # a record's own: it goes before the file of that name

DECODED = pl.Struct(
    {
        "tool_calls": CALLS_TYPE,
        "agent_interactions": MESSAGES_TYPE,
        "balance": pl.Float64(),
        "agents": pl.Int64(),
    }
)
"""Traces as the metrics read them; of the agents' tasks only the balance is wanted.

`agents` counts those that are named anywhere.
"""

CALL_KEYS = ("tool_name", "context", "agent_id")
_OBJECT = r"^\s*\{"
_MAYBE_UNESCAPED = r"(?s)^[\[{].*[\\\x00-\x1f]"
_FEWEST_UNEVEN = 2  # agents
_LENIENT = json.JSONDecoder(strict=False)  # line breaks in names, which Polars does not escape


def _decode(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        own = rows.struct.field(OPTIMAL_TOOLS)
        contexts = settings.optimal_tools is not None or own.null_count() < len(own)
        agents = settings.missing == "renormalize"  # to know whose runs are a single agent's
        return decode_traces(rows.struct.field("trace"), contexts=contexts, agents=agents)

    return pl.struct("trace", OPTIMAL_TOOLS).map_batches(of_batch, return_dtype=DECODED)


trace = Feature("_trace", ("trace", OPTIMAL_TOOLS), _decode, DECODED, stored=False)


def select_part(name: str) -> pl.Expr:
    """Return the column of one part of the traces: a list per row, null without it."""
    return pl.col(trace.name).struct.field(name)


def declare_count(name: str, expression: pl.Expr) -> Feature:
    """Return the feature of the number of things in a row's trace."""
    return Feature(name, (trace,), lambda _: expression, pl.Int64())


def decode_traces(traces: pl.Series, *, contexts: bool = True, agents: bool = True) -> pl.Series:
    """Return the traces' parts, null if missing; raise BadValue for a trace of wrong shape.

    Without `contexts` nobody asks for these, and they need not be exact; without `agents` nobody
    asks how many there are, and they need not be counted.

    >>> trace = '{"tool_calls": [{"tool_name": "search"}], "agent_tasks": {"a": 2, "b": 2}}'
    >>> decode_traces(pl.Series([trace])).struct.field("balance").item()
    1.0
    """
    if traces.null_count() == len(traces):
        return pl.repeat(None, len(traces), dtype=DECODED, eager=True).alias(traces.name)
    if traces.dtype == TRACE_TYPE:
        there = traces.is_not_null()
        frame = traces.struct.unnest()
        parts, odd = _convert_parts(frame, there, contexts=contexts, agents=agents)
        if odd.any():
            raise BadValue("a trace that must be read as text")
        return parts.alias(traces.name)
    there = traces.is_not_null()
    parts = _decode_texts(traces.filter(there), contexts=contexts, agents=agents)
    if there.all():
        return parts.alias(traces.name)
    places = (there.cum_sum() - there.cast(pl.UInt32)).set(~there, None)
    return parts.gather(places).alias(traces.name)


def _decode_texts(texts: pl.Series, *, contexts: bool, agents: bool) -> pl.Series:
    try:
        frame = _read_lines(texts)
    except pl.exceptions.PolarsError:
        return _decode_singly(texts)
    there = texts.is_not_null()
    parts, odd = _convert_parts(frame, there, contexts=contexts, agents=agents)
    if not odd.any():
        return parts
    rows = pl.DataFrame({"trace": parts, "odd": odd})
    rows = rows.with_columns(pl.when("odd").then(pl.col("odd").cum_sum() - 1).alias("place"))
    exact = pl.lit(_decode_singly(texts.filter(odd)))
    return rows.select(
        pl.when("odd").then(exact.gather("place")).otherwise("trace").alias(texts.name)
    ).to_series()


def _read_lines(texts: pl.Series) -> pl.DataFrame:
    """Return a row per text, if each is an object and so can stand on a line of its own."""
    if not texts.str.contains(_OBJECT).all():
        raise pl.exceptions.ComputeError("not an object a line")
    if texts.str.contains("\n", literal=True).any():  # between tokens: a text has none unescaped
        texts = texts.str.replace_all("\n", " ", literal=True)
    lines = texts.str.join("\n").cast(pl.Binary).item()
    frame = pl.read_ndjson(lines or b"", schema=dict(TRACE_TYPE))
    if frame.height != len(texts):
        raise pl.exceptions.ComputeError("not an object a line")
    return frame


def _convert_parts(
    frame: pl.DataFrame, there: pl.Series, *, contexts: bool, agents: bool
) -> tuple[pl.Series, pl.Series]:
    """Return what Polars has read in the metrics' types, and which rows are unusual."""
    balance, names, odd_tasks = _measure_tasks(frame["agent_tasks"])
    calls, lacking = frame["tool_calls"], frame["agent_tasks"].is_null() & there
    if lacking.any():
        balance = balance.zip_with(~lacking, _measure_calls(calls.set(~lacking, None)))
    counted = pl.lit(None, pl.Int64).alias("agents")
    if agents:
        every = iter(names)
        told = [next(every) if known else [] for known in frame["agent_tasks"].is_not_null()]
        of_tasks = pl.Series(told, dtype=pl.List(pl.String))
        counted = pl.lit(_count_agents(calls, of_tasks, frame["agent_interactions"]))
    found = frame.select(
        pl.when(there)
        .then(pl.struct("tool_calls", "agent_interactions", balance, counted).cast(DECODED))
        .alias("trace"),
        odd=pl.any_horizontal(
            pl.col("tool_calls").list.eval(_is_odd_call(contexts=contexts)).list.any(),
            pl.col("agent_interactions").list.eval(_is_odd_message()).list.any(),
        ).fill_null(value=False),
    )
    return found["trace"], found["odd"] | odd_tasks


def _is_odd_call(*, contexts: bool) -> pl.Expr:
    tool, context, agent = (pl.element().struct.field(key) for key in CALL_KEYS)
    odd = tool.is_null() | _may_be_nested(tool) | _may_be_nested(agent).fill_null(value=False)
    # An object is written out, but its backslashes and line breaks are not escaped.
    return odd | context.str.contains(_MAYBE_UNESCAPED) if contexts else odd


def _is_odd_message() -> pl.Expr:
    texts = (pl.element().struct.field(key) for key in ("from", "to", "type"))
    return pl.any_horizontal(pl.element().is_null(), *map(_may_be_nested, texts))


def _may_be_nested(text: pl.Expr) -> pl.Expr:
    return text.str.starts_with("[") | text.str.starts_with("{")


def _measure_tasks(texts: pl.Series) -> tuple[pl.Series, list[list[str]], pl.Series]:
    """Return the balance of the agents' tasks, the agents of each text, and the unusual rows."""
    there = texts.is_not_null()
    tasks = [_read_counts(text) for text in texts.filter(there)]
    balance, odd = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=bool)
    balance[there] = measure_balance([[*(task or {}).values()] for task in tasks])
    odd[there] = [task is None for task in tasks]
    names = [[*(task or ())] for task in tasks]
    return pl.Series("balance", balance).fill_nan(None), names, pl.Series(odd)


def _measure_calls(calls: pl.Series) -> pl.Series:
    """Return the balance of the calls of each agent; null where no call names one."""
    rows = pl.DataFrame({"row": range(len(calls)), "call": calls})
    named = rows.drop_nulls().explode("call").select("row", pl.col("call").struct.field("agent_id"))
    by_agent = named.drop_nulls().group_by("row", "agent_id").len()
    if by_agent.is_empty():
        return pl.repeat(None, len(calls), dtype=pl.Float64, eager=True).alias("balance")
    by_row = by_agent.group_by("row").agg("len")
    balance = pl.Series("balance", measure_balance(by_row["len"].to_list()))
    return rows.join(by_row.select("row", balance), on="row", how="left", maintain_order="left")[
        "balance"
    ]


def _count_agents(calls: pl.Series, of_tasks: pl.Series, messages: pl.Series) -> pl.Series:
    """Return how many agents each trace names: in its calls, its tasks and its messages."""
    element = pl.element().struct
    called = calls.list.eval(element.field("agent_id"))
    ends = (messages.list.eval(element.field(end)) for end in ("from", "to"))
    lists = [column.fill_null([]) for column in (called, of_tasks, *ends)]
    frame = pl.DataFrame([each.alias(str(place)) for place, each in enumerate(lists)])
    every = pl.concat_list(pl.all()).list.drop_nulls().list.n_unique()
    return frame.select(every.cast(pl.Int64).alias("agents")).to_series()


def measure_balance(counts: Sequence[Sequence[float]]) -> Floats:
    """Return 1 − deviation / mean of each run's counts of tasks by agent; never below 0.

    The deviation is a sample's (n − 1). Fewer than two agents, or no task at all, is even.

    >>> measure_balance([[4, 4], [2, 4, 6], [0, 9], [0, 0], []]).round(3).tolist()
    [1.0, 0.5, 0.0, 1.0, 1.0]
    """
    agents = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    runs = np.repeat(np.arange(len(counts)), agents)
    tasks = np.fromiter(chain.from_iterable(counts), dtype=np.float64, count=len(runs))
    most = np.zeros(len(counts))
    np.maximum.at(most, runs, tasks)
    spread = np.flatnonzero((agents >= _FEWEST_UNEVEN) & (most > 0))
    shares = tasks / np.where(most > 0, most, 1.0)[runs]  # of the most: no square overflows
    means = np.bincount(runs, shares, len(counts)) / np.maximum(agents, 1)
    squares = np.bincount(runs, (shares - means[runs]) ** 2, len(counts))
    balance = np.ones(len(counts))
    deviations = np.sqrt(squares[spread] / (agents[spread] - 1))
    balance[spread] = np.maximum(0.0, 1 - deviations / means[spread])
    return balance


def _read_counts(text: str) -> Mapping[str, float] | None:
    try:
        tasks = _LENIENT.decode(text)
    except (ValueError, RecursionError):
        return None
    # As many values as marks of a key: none is written twice, none holds such a mark.
    if not isinstance(tasks, dict) or len(tasks) != text.count('": '):
        return None
    counts = list(tasks.values())
    usual = {*map(type, counts)} <= {int, float} and (
        not counts or 0 <= min(counts) <= max(counts) < inf
    )
    return tasks if usual else None


def _decode_singly(texts: pl.Series) -> pl.Series:
    return pl.Series(texts.name, [_as_row(read_trace(text)) for text in texts], dtype=DECODED)


def _as_row(trace: Trace | None) -> dict[str, Any] | None:
    if trace is None:
        return None
    calls, messages, tasks = trace.tool_calls, trace.agent_interactions, trace.agent_tasks
    return {
        "tool_calls": None if calls is None else [call._asdict() for call in calls],
        "agent_interactions": None
        if messages is None
        else [
            {"from": message.sender, "to": message.receiver, "type": message.type}
            for message in messages
        ],
        "balance": None if tasks is None else float(measure_balance([list(tasks.values())])[0]),
        "agents": len(trace.agents),
    }


ANY_CONTEXT = "*"
_EXAMPLE = 'for example "find the paper": search, and "*": think for every other context'


@dataclass(frozen=True, slots=True)
class OptimalTools:
    """The optimal tool by context, and where that is from."""

    source: str
    by_context: Mapping[str, str] = field(hash=False)

    def to_table(self) -> Any:
        """Return the file's path, or the table that was given in its place."""
        return dict(self.by_context) if self.source == OPTIMAL_TOOLS else self.source

    def of(self, contexts: pl.Series) -> pl.Series:
        """Return the optimal tool in each context; null without one.

        That of the very context, else of the longest key that the context contains (of equally
        long ones the first in the alphabet), else of `*`.
        """
        tools = pl.Series([self.by_context.get(ANY_CONTEXT)], dtype=pl.String)
        tools = tools.new_from_index(0, len(contexts))
        keys = sorted(self.by_context.keys() - {ANY_CONTEXT}, reverse=True)
        for key in sorted(keys, key=len):  # longer keys override shorter ones
            contained = contexts.str.contains(key, literal=True)
            tools = tools.set(contained, self.by_context[key])
        exact = contexts.replace_strict(self.by_context, default=None, return_dtype=pl.String)
        return exact.fill_null(tools)


def read_optimal_tools(given: Any) -> OptimalTools:
    """Read the optimal tools from a YAML or JSON file, or a mapping: `{context: tool}`."""
    if isinstance(given, OptimalTools):
        return given
    table, source = read_table(given, OPTIMAL_TOOLS, example=_EXAMPLE)
    return check_tools(table, source=source)


def check_tools(table: Any, *, source: str) -> OptimalTools:
    """Return the optimal tools in a table read from a file; errors name source and context."""
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no contexts and tools in it", fix=_EXAMPLE)
    for context, tool in table.items():
        for text in (context, tool):
            if not isinstance(text, str):
                raise UsageError(
                    f"{source}: in the entry of {shown(context)}: {shown(text)} is not text, "
                    "as contexts and names of tools are",
                    fix="put it in quotes",
                )
    return OptimalTools(source, dict(table))


def measure_selection(
    calls: pl.Series, tools: OptimalTools | None, own: pl.Series | None = None
) -> pl.DataFrame:
    """Return each row's share of calls that chose the optimal tool, and the calls without one.

    Args:
        calls: The calls of each row.
        tools: What holds for all rows.
        own: What a row says itself, as JSON; it goes before what holds for all.

    Returns:
        A row each; null where there are no calls to look at, or nothing says which tool is best.

    >>> tools = check_tools({"find": "search", "*": "think"}, source="tools.yaml")
    >>> right = {"tool_name": "search", "context": "find a cat"}
    >>> wrong = {"tool_name": "open", "context": ""}
    >>> measure_selection(pl.Series([[right, wrong]]), tools)["share"].item()
    0.5
    """
    own = pl.Series([None], dtype=pl.String).new_from_index(0, len(calls)) if own is None else own
    rows, items = explode_lists(calls)
    right, unmapped = np.zeros((2, len(calls)), dtype=np.int64)
    if len(rows):
        optimal = _find_optimal(items["context"].fill_null(""), own.gather(rows), tools)
        is_right = (items["tool_name"] == optimal).fill_null(value=False).to_numpy()
        right = np.bincount(rows[is_right], minlength=len(calls))
        unmapped = np.bincount(rows[optimal.is_null().to_numpy()], minlength=len(calls))
    total = np.maximum(calls.list.len().fill_null(0).to_numpy(), 1)
    found = pl.DataFrame({"share": right / total, "unmapped": unmapped})
    known = calls.is_not_null() & (own.is_not_null() | (tools is not None))
    return found.with_columns(pl.when(known).then(pl.all()))


def _find_optimal(contexts: pl.Series, own: pl.Series, tools: OptimalTools | None) -> pl.Series:
    """Return the optimal tool of each call: by its row's own table, else by that of all rows."""
    optimal = pl.Series([None], dtype=pl.String).new_from_index(0, len(contexts))
    if tools is not None:
        distinct = contexts.unique()
        optimal = contexts.replace_strict(distinct, tools.of(distinct), return_dtype=pl.String)
    if own.null_count() == len(own):
        return optimal
    pairs = pl.DataFrame({"own": own, "context": contexts, "all": optimal})
    distinct_pairs = pairs.filter(pl.col("own").is_not_null()).select("own", "context").unique()
    tables = [
        group.with_columns(best=OptimalTools("", read_tool_map(text)).of(group["context"]))
        for (text,), group in distinct_pairs.group_by("own")
    ]
    joined = pairs.join(pl.concat(tables), on=["own", "context"], how="left", maintain_order="left")
    return joined.select(pl.coalesce("best", "all")).to_series()


_SELECTED = pl.Struct({"share": pl.Float64(), "unmapped": pl.Int64()})


path_convergence = Feature(
    "path_convergence",
    (trace,),
    lambda settings: map_known(
        select_part("tool_calls"),
        partial(measure_convergence, start=settings.start, goal=settings.goal),
        pl.Float64(),
    ),
)


def _express_selection(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        calls, own = rows.struct.field("tool_calls"), rows.struct.field(OPTIMAL_TOOLS)
        return measure_selection(calls, settings.optimal_tools, own).to_struct(rows.name)

    both = pl.struct(select_part("tool_calls"), OPTIMAL_TOOLS)
    known = pl.when(select_part("tool_calls").is_not_null()).then(both)
    return map_known(known, of_batch, _SELECTED)


_selected = Feature(
    "_tool_selection", (trace, OPTIMAL_TOOLS), _express_selection, _SELECTED, stored=False
)

tool_selection_accuracy = declare_part("tool_selection_accuracy", _selected, "share")
_unmapped = declare_part("_unmapped_calls", _selected, "unmapped")
_calls = declare_count("_tool_calls", select_part("tool_calls").list.len())

path_convergence_mean = declare_trace_mean(
    path_convergence,
    says="How direct the way through the tools was: 1 with no step too many, 0 with no way.",
    formula="mean(shortest path from start to goal / steps taken from the start's first call "
    "to the goal's last)",
    spec="P 3.1",
    nulls="a row whose trace has no `tool_calls` is left out; without calls it is 0",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with tool_calls",
)


def _explain_no_tools(totals: Totals) -> str | None:
    if totals.get("tool_selection_accuracy__n") or not totals.get("tool_calls__traces"):
        return None
    return (
        "which tool each context calls for is not known: give a file with --set optimal_tools, "
        "or optimal_tools in the records"
    )


tool_selection_mean = declare_trace_mean(
    tool_selection_accuracy,
    says="The share of calls that chose the tool their context calls for, by the record's own "
    "`optimal_tools` or --set optimal_tools.",
    formula="mean(calls whose tool_name is the optimal tool of their context / calls)",
    spec="P 3.2",
    nulls="a row whose trace has no `tool_calls`, or for which nothing says the optimal tools, "
    "is left out; without calls it is 0",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with tool_calls",
    aggregate=declare_sums(
        tool_selection_accuracy,
        _calls,
        _unmapped,
        tool_calls__traces=pl.col(_calls.name).count(),
        tool_calls__sum=pl.col(_calls.name).sum(),
        tool_calls__unmapped=pl.col(_unmapped.name).sum(),
    ),
    extras={"calls": "tool_calls__sum", "unmapped_calls": "tool_calls__unmapped"},
    refused=_explain_no_tools,
)


def note_tools(groups: Collection[Totals], settings: Settings) -> Iterator[str]:
    """Yield how many calls count as wrong because the mapping lacks their context."""
    if unmapped := add_up(groups, "tool_calls__unmapped"):
        given = settings.optimal_tools
        source = "their own optimal_tools" if given is None else given.source
        yield (
            f"{unmapped} of {add_up(groups, 'tool_calls__sum')} calls count as a wrong choice of "
            f"tool: {source} names none for their context, and has no '*'"
        )


COORDINATING = ("coordination", "status_update", "handoff")
PRODUCTIVE = ("task_request", "result_delivery", "data_transfer")


def _count_messages() -> pl.Expr:
    return select_part("agent_interactions").list.len()


def _count_messages_of(types: Iterable[str]) -> pl.Expr:
    kind = pl.element().struct.field("type")
    return select_part("agent_interactions").list.eval(kind.is_in(list(types))).list.sum()


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
    lambda _: map_known(select_part("agent_interactions"), find_highest_centrality, pl.Float64()),
)


def _say_crowded(_: Settings) -> pl.Expr:
    """Say of rows whether agents talk, and are too many for their centrality."""
    ends = [pl.element().struct.field(end).is_not_null() for end in ("from", "to")]
    talk = select_part("agent_interactions").list.eval(pl.any_horizontal(ends)).list.any()
    return talk & pl.col(coordination_centrality.name).is_null()


_crowded = Feature("_crowded_graph", (trace, coordination_centrality), _say_crowded, pl.Boolean())
_TOO_MANY = (
    f"more than {MOST_AGENTS:,} agents, or agents times links between them above {MOST_LINKED:,}: "
    "counting all paths between them would take too long"
)

single_agent = Feature(
    "_single_agent", (trace,), lambda _: select_part("agents") == 1, pl.Boolean(), stored=False
)
agent_centrality = Feature(
    "agent_centrality",
    (trace,),
    lambda _: map_known(select_part("agent_interactions"), measure_centralities, CENTRALITIES),
    CENTRALITIES,
    stored=False,
)
"""The centrality of every agent, for `--per-sample`; the metric is about the highest."""


def measure_agents(text: str | None) -> dict[str, float]:
    """Return the centrality of every agent in a record's trace; none if it cannot be read.

    >>> measure_agents('{"agent_interactions": [{"from": "lead", "to": "coder"}]}')
    {'coder': 0.6666666666666666, 'lead': 0.3333333333333333}
    """
    try:
        decoded = decode_traces(pl.Series([text], dtype=pl.String))
    except BadValue:
        return {}
    agents = measure_centralities(decoded.struct.field("agent_interactions")).item(0)
    found = [] if agents is None else agents.to_list()
    return {agent["agent"]: agent["centrality"] for agent in found}


task_distribution_balance = declare_part("task_distribution_balance", trace, "balance")


def _compute_unknown_share(totals: Totals) -> float | None:
    messages = totals.get("messages__sum")
    return totals["messages__unknown"] / messages if messages else None


overhead_mean = declare_trace_mean(
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


def _explain_crowded(totals: Totals) -> str | None:
    if totals.get("coordination_centrality__n") or not totals.get("centrality__crowded"):
        return None
    return f"the traces have {_TOO_MANY}"


centrality_mean = declare_trace_mean(
    coordination_centrality,
    says="How much of the talk goes through one agent: the most central agent's centrality.",
    formula="mean(max over agents of (betweenness + closeness + degree) / 3), "
    "as networkx defines them on a DiGraph",
    spec="P 3.4",
    nulls="a row whose trace has no message that names an agent is left out; so is one with more "
    f"than {MOST_AGENTS:,} agents, or {MOST_LINKED:,} agents times links, as counting all paths "
    "between them would take too long",
    aggregate=declare_sums(
        coordination_centrality,
        agent_centrality,
        _crowded,
        centrality__crowded=pl.col(_crowded.name).sum(),
    ),
    empty="no record has a trace with messages between agents",
    refused=_explain_crowded,
)

balance_mean = declare_trace_mean(
    task_distribution_balance,
    says="How evenly tasks are spread over the agents: 1 is even, 0 as uneven as can be.",
    formula="mean(max(0, 1 − standard deviation / mean of the agents' task counts)), "
    "the deviation of a sample (n − 1)",
    spec="P 3.5",
    nulls="a row whose trace has neither `agent_tasks` nor calls that name their agents is left "
    "out; 1 with fewer than two agents or no task",
    range=(0, 1),
    better="higher",
    empty="no record has a trace with agent_tasks, or with tool_calls that have an agent_id",
)


def note_messages(groups: Collection[Totals]) -> Iterator[str]:
    """Yield how many messages are of types that count neither as coordination nor as work."""
    if unknown := add_up(groups, "messages__unknown"):
        yield (
            f"{unknown} of {add_up(groups, 'messages__sum')} messages are of no known type and "
            f"count as no overhead; known: {', '.join((*COORDINATING, *PRODUCTIVE))}"
        )
    if crowded := add_up(groups, "centrality__crowded"):
        yield f"coordination_centrality leaves out {crowded} traces with {_TOO_MANY}"
