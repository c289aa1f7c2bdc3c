"""Wait graphs as DOT and GraphML, and the shortest cycle as networkx finds it."""

from collections import defaultdict
from random import Random

import networkx
import numpy as np
import pytest

from agreement.generate import make_program
from engine.programs import pipeline
from interlock.engine.graph import solve
from interlock.engine.wait_export import build_digraph, export_waits, name_events
from interlock.program.build import OrderBuilder
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.rules import communication
from interlock.rules.waits import BLOCK, MODELS, ORDER, WaitGraph, wait_graph


def crossing() -> Program:
    """Each of two ranks receives before it sends."""
    order = OrderBuilder()
    for rank in (0, 1):
        order.op(Kind.RECV, peer=1 - rank, name=rank)
        order.op(Kind.WAIT, name=rank)
        order.op(Kind.SEND, peer=1 - rank, name=1 - rank)
        order.end_rank()
    return Program(2, 0, (), (), order.build(), names=("a", 'b "2"'), fragment=True)


def graph_of(program: Program, model: str) -> WaitGraph:
    facts = Facts(program)
    return wait_graph(facts, communication.Transfers(facts), model)


def read_dot(text: str) -> tuple[int, int, int]:
    """How many nodes, edges and marked edges a DOT text has."""
    lines = [line for line in text.splitlines() if "label=" in line]
    edges = [line for line in lines if " -> " in line]
    return len(lines) - len(edges), len(edges), sum("color=red" in line for line in edges)


def random_deadlocks(number: int) -> list[tuple[int, str, WaitGraph]]:
    """(seed, model, wait graph) of programs whose transfers match and which wait in a cycle."""
    found: list[tuple[int, str, WaitGraph]] = []
    seed = 0
    while len(found) < number:
        seed += 1
        program, _ = make_program(Random(seed))
        facts = Facts(program)
        transfers = communication.Transfers(facts)
        if program.inserted or any(f.is_error for f in communication.check(facts, transfers)):
            continue
        model = MODELS[seed % len(MODELS)]
        waits = wait_graph(facts, transfers, model)
        if not solve(waits).acyclic:
            found.append((seed, model, waits))
    return found


def arrows_of_shortest_cycle(waits: WaitGraph) -> int:
    """The fewest arrows of a closed walk, a run of `order` (or `block`) waits being one, by networkx."""
    graph = networkx.DiGraph()
    chains: dict[int, networkx.DiGraph] = defaultdict(networkx.DiGraph)
    for src, dst, reason in zip(waits.src.tolist(), waits.dst.tolist(), waits.reason.tolist()):
        if reason in (ORDER, BLOCK):
            chains[reason].add_edge(src, dst)
        else:
            graph.add_edge(int(waits.node[src]), int(waits.node[dst]))
    for chain in chains.values():
        for src in chain:
            for dst in networkx.descendants(chain, src):
                graph.add_edge(int(waits.node[src]), int(waits.node[dst]))
    if any(networkx.selfloop_edges(graph)):
        return 1
    return min(
        networkx.shortest_path_length(graph, dst, src) + 1
        for part in networkx.strongly_connected_components(graph)
        for src, dst in graph.subgraph(part).edges
    )


def test_networkx_finds_no_shorter_cycle():
    lengths = set()
    for seed, model, waits in random_deadlocks(40):
        solution = solve(waits)
        assert solution.shortest
        length = sum(reason != "same" for _, reason, _ in solution.walk)
        assert length == arrows_of_shortest_cycle(waits), (seed, model)
        lengths.add(length)
    assert len(lengths) > 2


@pytest.mark.parametrize("form", ["dot", "graphml"])
def test_the_marked_edges_are_the_cycle(form):
    for _, _, waits in random_deadlocks(10):
        names = [f"event {e}" for e in range(len(waits.node))]
        text = export_waits(waits, names, form)
        cycle = list(solve(waits).cycle)
        pairs = {(int(waits.node[waits.src[w]]), int(waits.node[waits.dst[w]])) for w in cycle}
        if form == "dot":
            assert read_dot(text)[2] == len(pairs)
            continue
        graph = networkx.parse_graphml(text, node_type=int)
        marked = graph.edge_subgraph([(a, b) for a, b, on in graph.edges(data="cycle") if on])
        assert set(marked.edges) == pairs
        assert networkx.is_strongly_connected(marked)
        assert {n for n, on in graph.nodes(data="cycle") if on} == set(marked.nodes)


@pytest.mark.parametrize("model", MODELS)
def test_graphml_reads_back_as_the_same_graph(model):
    program = pipeline(3, 4)
    waits = graph_of(program, model)
    names = name_events(program, waits)
    graph = networkx.parse_graphml(export_waits(waits, names, "graphml"), node_type=int)
    written = build_digraph(waits, names)
    assert dict(graph.nodes(data=True)) == dict(written.nodes(data=True))
    assert {(a, b): d for a, b, d in graph.edges(data=True)} == {
        (a, b): d for a, b, d in written.edges(data=True)
    }
    pairs = np.stack([waits.node[waits.src], waits.node[waits.dst]])
    assert graph.number_of_edges() == len(np.unique(pairs, axis=1).T)
    assert networkx.is_directed_acyclic_graph(graph)
    assert not any(graph.nodes[n]["cycle"] for n in graph)


def test_labels_say_rank_and_operation_and_edges_say_why():
    program = crossing()
    waits = graph_of(program, "rank")
    graph = build_digraph(waits, name_events(program, waits))
    labels = set(networkx.get_node_attributes(graph, "label").values())
    assert "rank 0: wait(a)" in labels
    assert any(label.count("\n") == 1 and "rank 1: send(0, a)" in label for label in labels)
    reasons = {why for _, _, why in graph.edges(data="why")}
    assert {"queue", "consume", "after"} <= {part for why in reasons for part in why.split(", ")}


def test_dot_quotes_labels_and_marks_the_cycle():
    program = crossing()
    waits = graph_of(program, "rank")
    text = export_waits(waits, name_events(program, waits), "dot")
    graph = build_digraph(waits, name_events(program, waits))
    marked = sum(on for *_, on in graph.edges(data="cycle"))
    assert marked >= 2
    assert read_dot(text) == (graph.number_of_nodes(), graph.number_of_edges(), marked)
    assert 'send(1, b \\"2\\")' in text
    assert "\\n" in text


def test_a_launch_has_a_start_and_an_end():
    order = OrderBuilder()
    for rank in (0, 1):
        launch = order.new_launch()
        order.op(Kind.SEND, peer=1 - rank, name=rank, launch=launch)
        order.op(Kind.RECV, peer=1 - rank, name=1 - rank, launch=launch)
        order.end_rank()
    program = Program(2, 0, (), (), order.build(), names=("a", "b"), fragment=True)
    waits = graph_of(program, "pair")
    names = name_events(program, waits)
    assert names[waits.n :] == [
        f"rank {rank}: {side} of launch {rank}" for rank in (0, 1) for side in ("start", "end")
    ]


def test_another_form_is_refused():
    waits = graph_of(crossing(), "rank")
    with pytest.raises(ValueError, match="dot or graphml"):
        export_waits(waits, [""] * len(waits.node), "svg")
