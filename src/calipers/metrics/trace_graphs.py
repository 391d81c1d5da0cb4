"""Many small directed graphs at once, side by side in arrays.

A loop over small graphs spends its time on overhead. Here all graphs of a batch take every step
together: a level of a breadth-first search is a few operations on arrays, and the 64 bits of a word
are 64 searches. Only betweenness is left to rustworkx, graph by graph.

The numbers are those of networkx on a DiGraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ints: TypeAlias = "NDArray[np.int64]"
Words: TypeAlias = "NDArray[np.uint64]"
Floats: TypeAlias = "NDArray[np.float64]"

CENTRALITIES = pl.List(pl.Struct({"agent": pl.String(), "centrality": pl.Float64()}))

MOST_AGENTS = 2_000
MOST_LINKED = 20_000_000  # agents times links: all paths between agents take so many steps

_WORD = 64
_LONG = 1_000  # edges of a graph that is searched on its own
_FEWEST_BETWEEN = 2  # nodes: with no third one, nothing lies between
_NEVER_IN_THREADS = 2**62  # sums in threads differ in their last digits from run to run


@dataclass(frozen=True)
class Graphs:
    """Nodes and edges of all graphs, numbered consecutively over the graphs."""

    sizes: Ints  # nodes of each graph
    heads: Ints  # where each edge begins, no edge twice, by the graph and the node it leads to
    tails: Ints  # and the node it leads to

    @staticmethod
    def of(graph_of_node: Ints, graphs: int, heads: Ints, tails: Ints) -> Graphs:
        """Return graphs of nodes in the order of their graphs, and of edges, possibly repeated."""
        nodes = len(graph_of_node)
        edges, _ = _find_runs(np.sort(tails * nodes + heads))  # np.unique takes 60 times as long
        tails, heads = np.divmod(edges, max(nodes, 1))
        return Graphs(np.bincount(graph_of_node, minlength=graphs), heads, tails)

    @cached_property
    def first(self) -> Ints:
        """The first node of each graph."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def graph(self) -> Ints:
        """The graph of each node."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def size(self) -> Ints:
        """How many nodes there are in the graph of each node."""
        return self.sizes[self.graph]

    @cached_property
    def links(self) -> Ints:
        """How many edges each graph has."""
        return np.bincount(self.graph[self.heads], minlength=len(self.sizes))

    def find_small(self) -> NDArray[np.bool_]:
        """Say of which graphs the paths between all nodes can be counted in about a second."""
        return (self.sizes <= MOST_AGENTS) & (self.sizes * self.links <= MOST_LINKED)

    def keep(self, kept: NDArray[np.bool_]) -> Graphs:
        """Return the same graphs, those that are not kept without a node."""
        numbers = np.cumsum(kept[self.graph]) - 1
        edges = kept[self.graph[self.heads]]
        return Graphs(
            np.where(kept, self.sizes, 0), numbers[self.heads[edges]], numbers[self.tails[edges]]
        )

    def measure_paths(self, starts: Ints, goals: Ints) -> Ints:
        """Return the length of the shortest path in each graph; −1 without one.

        A path may have as many steps as the graph has nodes. All graphs step together, but for
        those with many edges, of which each is searched alone, edge by edge.
        """
        lengths = np.where(starts == goals, 0, -1)
        is_long = self.links[self.graph[starts]] > _LONG
        for place in np.flatnonzero(is_long & (starts != goals)).tolist():
            lengths[place] = self._measure_path(int(starts[place]), int(goals[place]))
        starts, goals, together = starts[~is_long], goals[~is_long], lengths[~is_long]
        seeds = np.zeros(len(self.graph), dtype=np.uint64)
        seeds[starts] = 1
        for distance, reached in enumerate(self._search_levels(seeds), start=1):
            together[reached[goals] > 0] = distance
        lengths[~is_long] = together
        return lengths

    def _measure_path(self, start: int, goal: int) -> int:
        """Return the length of the shortest path between two nodes; −1 without one."""
        order, ends = self._by_head
        seen, level, distance = {start}, [start], 0
        while level:
            distance += 1
            steps = (order[ends[node] : ends[node + 1]] for node in level)
            level = [*dict.fromkeys(chain.from_iterable(steps)).keys() - seen]
            seen.update(level)
            if goal in seen:
                return distance
        return -1

    @cached_property
    def _by_head(self) -> tuple[list[int], list[int]]:
        """The nodes that edges lead to, by where the edges begin, and where those of each begin."""
        order = np.argsort(self.heads, kind="stable")
        counts = np.bincount(self.heads, minlength=len(self.graph))
        return self.tails[order].tolist(), [0, *np.cumsum(counts).tolist()]

    def degree(self) -> Floats:
        """Return the edges to and from each node, over the number of other nodes."""
        ends = np.bincount(np.concatenate([self.heads, self.tails]), minlength=len(self.graph))
        return np.where(self.size > 1, ends / np.maximum(self.size - 1, 1), 1.0)

    def closeness(self) -> Floats:
        """Return how near the nodes are that reach each node, times their share of all."""
        reached, distances = np.zeros((2, len(self.graph)), dtype=np.int64)
        place = np.arange(len(self.graph)) - self.first[self.graph]
        for start in range(0, int(self.sizes.max(initial=0)), _WORD):
            bit = np.clip(place - start, 0, _WORD - 1).astype(np.uint64)
            is_source = (place >= start) & (place < start + _WORD)
            seeds = np.where(is_source, np.uint64(1) << bit, np.uint64(0))
            for distance, bits in enumerate(self._search_levels(seeds), start=1):
                count = np.bitwise_count(bits).astype(np.int64)
                reached += count
                distances += distance * count
        others = np.maximum(self.size - 1, 1)
        return reached / np.maximum(distances, 1) * (reached / others)

    def betweenness(self) -> Floats:
        """Return the share of shortest paths between other nodes that lead through each node."""
        import rustworkx  # noqa: PLC0415 (only where there are messages)

        before = self.first[self.graph[self.heads]]  # nodes are numbered separately in each graph
        heads, tails = (self.heads - before).tolist(), (self.tails - before).tolist()
        ends = np.searchsorted(self.tails, self.first + self.sizes).tolist()
        paths: list[float] = []
        begin = 0
        for size, end in zip(self.sizes.tolist(), ends, strict=True):
            found: list[float] = []
            if size > _FEWEST_BETWEEN:
                graph = rustworkx.PyDiGraph()
                graph.extend_from_edge_list(
                    list(zip(heads[begin:end], tails[begin:end], strict=True))
                )
                found += rustworkx.digraph_betweenness_centrality(
                    graph, normalized=False, parallel_threshold=_NEVER_IN_THREADS
                ).values()
            paths += found
            paths += [0.0] * (size - len(found))  # the last nodes, if no edge leads there
            begin = end
        others = np.maximum(self.size - 1, 1)
        shares: Floats = np.array(paths) / np.maximum(others * (others - 1), 1)
        return shares

    def _search_levels(self, seeds: Words) -> Iterator[Words]:
        """Yield the bits that reach each node for the first time, level by level."""
        seen, new = seeds.copy(), seeds
        heads, tails = self.heads, self.tails
        while True:
            carried = new[heads]
            moving = np.flatnonzero(carried)
            if not len(moving):
                return
            targets, where = _find_runs(tails[moving])
            new = np.zeros_like(seeds)
            new[targets] = np.bitwise_or.reduceat(carried[moving], where)
            new &= ~seen
            seen |= new
            if not new.any():
                return
            yield new
            if 2 * len(moving) < len(heads):  # the graphs that are done need no further look
                searching = np.zeros(len(self.sizes), dtype=bool)
                searching[self.graph[np.flatnonzero(new)]] = True
                going_on = searching[self.graph[heads]]
                heads, tails = heads[going_on], tails[going_on]


def explode_lists(lists: pl.Series) -> tuple[Ints, pl.DataFrame]:
    """Return the items of all lists, a row each, and the row that each was listed in."""
    lengths = lists.list.len().fill_null(0)
    rows = np.repeat(np.arange(len(lists)), lengths.to_numpy())
    return rows, lists.filter(lengths > 0).explode().struct.unnest()


def number_nodes(rows: Ints, names: pl.Series) -> tuple[Ints, Ints]:
    """Return the node of each name, numbered across rows, and the row of each node."""
    own = pl.Categorical(pl.Categories.random())  # that go with the batch
    codes = names.cast(own).to_physical().to_numpy().astype(np.int64)
    kinds = int(codes.max(initial=0)) + 1
    nodes, node_of_name = np.unique(rows * kinds + codes, return_inverse=True)
    return node_of_name, nodes // kinds


def _find_runs(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ones of sorted values, and where each begins."""
    begins = np.flatnonzero(np.diff(values, prepend=-1))
    return values[begins], begins


def measure_convergence(calls: pl.Series, start: str | None, goal: str | None) -> pl.Series:
    """Return the shortest path from start to goal over the steps taken; 0 without path or steps.

    The graph has a node per tool, an edge per pair of consecutive calls. Start is the first call's
    tool unless named, goal the last call's. The steps taken are those from the first call of the
    start to the last call of the goal.

    >>> way = [{"tool_name": name, "context": None} for name in ("open", "read", "open", "save")]
    >>> measure_convergence(pl.Series([way]), None, None).item()  # open → save: 1 of 3 steps
    0.3333333333333333
    """
    rows, items = explode_lists(calls)
    found = np.zeros(len(calls))
    if len(rows):
        begin, end = _find_ends(rows, items["tool_name"], len(calls), start, goal)
        there = np.flatnonzero((begin >= 0) & (end > begin))
        node_of_call, row_of_node = number_nodes(rows, items["tool_name"])
        in_a_row = np.flatnonzero(rows[1:] == rows[:-1])
        graphs = Graphs.of(
            row_of_node, len(calls), node_of_call[in_a_row], node_of_call[in_a_row + 1]
        )
        lengths = graphs.measure_paths(node_of_call[begin[there]], node_of_call[end[there]])
        found[there] = np.maximum(lengths, 0) / (end - begin)[there]
    return pl.Series(calls.name, found).set(calls.is_null(), None)


def _find_ends(
    rows: Ints, tools: pl.Series, height: int, start: str | None, goal: str | None
) -> tuple[Ints, Ints]:
    """Return the first call of the start and the last call of the goal in each row; −1 for none."""
    begin, end = np.full((2, height), -1)
    starts = np.arange(len(rows)) if start is None else (tools == start).arg_true().to_numpy()
    goals = np.arange(len(rows)) if goal is None else (tools == goal).arg_true().to_numpy()
    begin[rows[starts[::-1]]] = starts[::-1]  # of several calls in a row the last written stays
    end[rows[goals]] = goals
    return begin, end


def measure_centralities(messages: pl.Series) -> pl.Series:
    """Return, for each row, a list of its agents, each with its `agent` and `centrality`.

    The rows' graphs are those of `find_highest_centrality`; agents stand in the order of names.
    """
    rows, items = explode_lists(messages)
    if not len(rows):
        return pl.repeat(None, len(messages), dtype=CENTRALITIES, eager=True).alias(messages.name)
    names = pl.concat([items["from"], items["to"]])
    both, named = np.concatenate([rows, rows]), names.is_not_null()
    nodes, row_of_node = number_nodes(both[named.to_numpy()], names.drop_nulls())
    name_of_node = pl.Series(names.drop_nulls())[np.unique(nodes, return_index=True)[1]]
    heads, tails, _ = _number_agents(rows, items["from"], items["to"])
    centralities = _combine_centralities(heads, tails, row_of_node, len(messages))
    found = pl.DataFrame({"row": row_of_node, "agent": name_of_node, "centrality": centralities})
    lists = (
        found.filter(pl.col("centrality").is_not_nan())
        .sort("row", "agent")
        .group_by("row", maintain_order=True)
        .agg(pl.struct("agent", "centrality").alias("agents"))
    )
    every = pl.DataFrame({"row": np.arange(len(messages))})
    joined = every.join(lists, on="row", how="left", maintain_order="left")
    return joined["agents"].cast(CENTRALITIES).alias(messages.name)


def _combine_centralities(heads: Ints, tails: Ints, row_of_node: Ints, height: int) -> Floats:
    """Return the mean of betweenness, closeness and degree of each node; NaN of large graphs."""
    named = (heads >= 0) & (tails >= 0)
    graphs = Graphs.of(row_of_node, height, heads[named], tails[named])
    is_small = graphs.find_small()
    graphs = graphs.keep(is_small)
    combined = np.full(len(row_of_node), np.nan)
    combined[is_small[row_of_node]] = (
        graphs.betweenness() + graphs.closeness() + graphs.degree()
    ) / 3.0
    return combined


def find_highest_centrality(messages: pl.Series) -> pl.Series:
    """Return the greatest mean of betweenness, closeness and degree of an agent; null for none.

    The graph has a node per agent named in a message, an edge from a sender to a receiver. Null too
    of graphs so large that counting their paths would take more than about a second.

    >>> talk = [{"from": "lead", "to": who, "type": "handoff"} for who in ("coder", "tester")]
    >>> find_highest_centrality(pl.Series([talk])).item()  # degree 1, no path to it
    0.3333333333333333
    """
    rows, items = explode_lists(messages)
    found = np.full(len(messages), np.nan)
    if len(rows):
        heads, tails, row_of_node = _number_agents(rows, items["from"], items["to"])
        combined = _combine_centralities(heads, tails, row_of_node, len(messages))
        sizes = np.bincount(row_of_node, minlength=len(messages))
        talking = np.flatnonzero(sizes)
        if len(talking):
            first = (np.cumsum(sizes) - sizes)[talking]
            found[talking] = np.maximum.reduceat(combined, first)
    return pl.Series(messages.name, found).fill_nan(None)


def _number_agents(rows: Ints, senders: pl.Series, receivers: pl.Series) -> tuple[Ints, Ints, Ints]:
    """Return sender and receiver nodes, −1 for an agent not named, and each node's row."""
    names, rows = pl.concat([senders, receivers]), np.concatenate([rows, rows])
    named = names.is_not_null().to_numpy()
    nodes = np.full(len(names), -1)
    nodes[named], row_of_node = number_nodes(rows[named], names.drop_nulls())
    heads, tails = np.split(nodes, 2)
    return heads, tails, row_of_node
