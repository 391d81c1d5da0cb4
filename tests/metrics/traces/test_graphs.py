"""Many graphs at once give what networkx gives one by one."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.families.traces import measure_agents
from calipers.metrics.trace_graphs import MOST_AGENTS, Graphs
from tests.examples import examples

Edges = list[tuple[int, int]]
Drawn = tuple[int, Edges]  # how many nodes, and the edges between them


@st.composite
def graphs(draw: st.DrawFn, most: int) -> Drawn:
    size = draw(st.integers(1, most))
    node = st.integers(0, size - 1)
    return size, draw(st.lists(st.tuples(node, node), max_size=4 * size))


def side_by_side(drawn: list[Drawn]) -> Graphs:
    sizes = [size for size, _ in drawn]
    first = np.cumsum([0, *sizes])
    edges = [
        (first[number] + head, first[number] + tail)
        for number, (_, found) in enumerate(drawn)
        for head, tail in found
    ]
    heads, tails = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return Graphs.of(np.repeat(np.arange(len(sizes)), sizes), len(sizes), heads, tails)


def by_networkx(drawn: Drawn) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(drawn[0]))
    graph.add_edges_from(drawn[1])
    return graph


def assert_same(drawn: list[Drawn]) -> None:
    ours = side_by_side(drawn)
    starts, goals = ours.first, ours.first + ours.sizes - 1
    lengths = ours.measure_paths(starts, goals)
    found = {
        nx.betweenness_centrality: ours.betweenness(),
        nx.closeness_centrality: ours.closeness(),
        nx.degree_centrality: ours.degree(),
    }
    for number, each in enumerate(drawn):
        theirs = by_networkx(each)
        here = slice(ours.first[number], ours.first[number] + each[0])
        for centrality, values in found.items():
            expected = list(centrality(theirs).values())
            assert values[here] == pytest.approx(expected, rel=1e-12, abs=1e-12), (
                centrality.__name__,
                each,
            )
        if nx.has_path(theirs, 0, each[0] - 1):
            assert lengths[number] == nx.shortest_path_length(theirs, 0, each[0] - 1), each
        else:
            assert lengths[number] == -1, each


@given(drawn=st.lists(graphs(most=12), min_size=1, max_size=8))
@examples(150, deadline=None)
def test_random_graphs(drawn: list[Drawn]) -> None:
    assert_same(drawn)


@given(drawn=st.lists(graphs(most=150), min_size=1, max_size=3))
@examples(15, deadline=None)
def test_graphs_of_more_nodes_than_a_word_has_bits(drawn: list[Drawn]) -> None:
    assert_same(drawn)


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param([(n, n + 1) for n in range(199)], id="chain"),
        pytest.param([(n, (n + 1) % 130) for n in range(130)], id="ring"),
        pytest.param([(0, n) for n in range(1, 70)] + [(n, 0) for n in range(1, 70)], id="star"),
        pytest.param([(a, b) for a in range(20) for b in range(20)], id="everybody, and itself"),
        pytest.param([(3, 3)], id="self loop"),
        pytest.param([(0, 1), (0, 1), (1, 0)], id="an edge twice"),
        pytest.param([], id="no edge"),
    ],
)
def test_special_graphs(edges: Edges) -> None:
    size = 1 + max((max(edge) for edge in edges), default=0)
    assert_same([(size, edges), (3, [(0, 1), (1, 2)]), (size, edges)])


def test_paths_are_counted_beyond_whole_doubles() -> None:
    """61 diamonds in a row: 2⁶¹ shortest ways from end to end."""
    edges = [
        edge
        for n in range(61)
        for edge in (
            (3 * n, 3 * n + 1),
            (3 * n, 3 * n + 2),
            (3 * n + 1, 3 * n + 3),
            (3 * n + 2, 3 * n + 3),
        )
    ]
    assert_same([(184, edges)])


def test_no_graph_at_all() -> None:
    none = np.array([], dtype=np.int64)
    empty = Graphs.of(none, 0, none, none)
    assert empty.betweenness().size == empty.closeness().size == empty.degree().size == 0
    assert empty.measure_paths(none, none).size == 0


AGENTS = ["lead", "Größe", "01", "1", ""]
talks = st.lists(st.tuples(st.sampled_from(AGENTS), st.sampled_from(AGENTS)), max_size=12)


@given(talk=talks)
@examples(60, deadline=None)
def test_every_agent_has_a_centrality(talk: list[tuple[str, str]]) -> None:
    messages = [{"from": sender, "to": receiver, "type": "handoff"} for sender, receiver in talk]
    theirs: nx.DiGraph[str] = nx.DiGraph(talk)
    measures = (nx.betweenness_centrality, nx.closeness_centrality, nx.degree_centrality)
    found = [measure(theirs) for measure in measures] if talk else []
    expected = {agent: sum(each[agent] for each in found) / 3 for agent in theirs}
    ours = measure_agents(json.dumps({"agent_interactions": messages}))
    assert ours == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(drawn=st.lists(graphs(most=12), min_size=1, max_size=8))
@examples(50, deadline=None)
def test_a_graph_that_is_searched_alone_has_the_same_paths(drawn: list[Drawn]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calipers.metrics.trace_graphs._LONG", 3)  # of edges: some are, some are not
        assert_same(drawn)


@given(drawn=st.lists(graphs(most=9), min_size=1, max_size=8), data=st.data())
@examples(50, deadline=None)
def test_graphs_that_are_kept_stay_as_they_are(drawn: list[Drawn], data: st.DataObject) -> None:
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn))))
    some = side_by_side(drawn).keep(kept)
    alone = side_by_side([each for each, is_kept in zip(drawn, kept, strict=True) if is_kept])
    assert some.sizes[kept].tolist() == alone.sizes.tolist()
    assert some.betweenness().tolist() == alone.betweenness().tolist()
    assert some.closeness().tolist() == alone.closeness().tolist()


def test_a_way_through_ten_thousand_tools() -> None:
    """Each tool follows another: as many steps as calls, which must not take a look at all each."""
    size = 10_000
    graph = side_by_side([(size, [(node, node + 1) for node in range(size - 1)]), (2, [(0, 1)])])
    assert graph.measure_paths(graph.first, graph.first + graph.sizes - 1).tolist() == [size - 1, 1]


def crowd(agents: int) -> dict[str, object]:
    talk = [{"from": f"worker-{n}", "to": "lead", "type": "handoff"} for n in range(agents - 1)]
    return {"id": f"{agents}", "trace": {"agent_interactions": talk}}


def test_a_crowd_has_no_centrality_and_a_reason() -> None:
    """Three graphs of 10,000 agents took half a minute."""
    records = [crowd(10_000), crowd(MOST_AGENTS + 1), crowd(3)]
    found = cal.score(records, metrics="coordination_centrality")
    alone = cal.score([crowd(3)], metrics="coordination_centrality")
    centrality, expected = (each.groups[0]["coordination_centrality"] for each in (found, alone))
    assert (centrality.value, centrality.n) == (expected.value, 1)
    assert any("leaves out 2 traces with more than 2,000 agents" in each for each in found.notices)
    crowds = cal.score(records[:2], metrics="coordination_centrality")
    none = crowds.groups[0]["coordination_centrality"]
    assert none.value is None
    assert none.reason is not None
    assert "2,000 agents" in none.reason
    assert measure_agents(json.dumps(crowd(MOST_AGENTS + 1)["trace"])) == {}


def test_few_agents_with_very_many_links_are_a_crowd_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.metrics.trace_graphs.MOST_LINKED", 11)
    graph = side_by_side([(3, [(0, 1), (1, 2), (2, 0)]), (4, [(0, 1), (1, 2), (2, 3)])])
    assert graph.find_small().tolist() == [True, False]
