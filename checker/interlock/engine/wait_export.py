"""A wait graph as DOT or GraphML, for other tools: spec/communication.md, "The wait graph".

One node for each event, shared events being one; one edge for each two events of which one waits for the
other, however many waits there are between them. The waits of a shortest cycle, if there is one, are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from interlock.engine.graph import solve
from interlock.program.ir import Program
from interlock.rules.waits import REASONS, WaitGraph

if TYPE_CHECKING:
    import networkx

WaitForm = Literal["dot", "graphml"]


def export_waits(waits: WaitGraph, names: Sequence[str], form: WaitForm) -> str:
    """The wait graph as text; `names[e]` is the label of event e (`name_events`).

    Nodes have a `label`, one line for each event that shares them; edges have `why`, the reasons of the waits
    (REASONS of rules/waits.py), and both have `cycle`, whether they lie on the shortest cycle found.
    Raises ValueError for another form.
    """
    graph = build_digraph(waits, names)
    if form == "dot":
        return write_dot(graph)
    if form == "graphml":
        return write_graphml(graph)
    raise ValueError(f"a wait graph is written as dot or graphml, not as {form!r}")


def name_events(program: Program, waits: WaitGraph) -> list[str]:
    """A label for every event: `rank R: OPERATION`, or `rank R: start of launch L` and `end of launch L`."""
    launch_rank = {
        int(launch): program.rank_of(row) for row, launch in reversed(list(enumerate(program.order.launch)))
    }
    names = [f"rank {program.rank_of(row)}: {program.show(row)}" for row in range(waits.n)]
    for launch in waits.launches.tolist():
        rank = launch_rank[launch]
        names += [f"rank {rank}: {side} of launch {launch}" for side in ("start", "end")]
    return names


def build_digraph(waits: WaitGraph, names: Sequence[str]) -> networkx.DiGraph:
    """The graph that `export_waits` writes. A node is the number of an event, of shared ones the first."""
    import networkx

    cycle = frozenset(solve(waits).cycle)
    node = waits.node.tolist()
    labels: dict[int, list[str]] = {}
    for event, representative in enumerate(node):
        labels.setdefault(representative, []).append(names[event])
    graph = networkx.DiGraph()
    for representative, shared in sorted(labels.items()):
        graph.add_node(representative, label="\n".join(shared), cycle=False)
    for wait, (src, dst, reason) in enumerate(
        zip(waits.src.tolist(), waits.dst.tolist(), waits.reason.tolist())
    ):
        _add_wait(graph, node[src], node[dst], REASONS[reason], wait in cycle)
    return graph


def _add_wait(graph: networkx.DiGraph, src: int, dst: int, reason: str, in_cycle: bool) -> None:
    if not graph.has_edge(src, dst):
        graph.add_edge(src, dst, why=reason, cycle=False)
    edge = graph.edges[src, dst]
    if reason not in edge["why"].split(", "):
        edge["why"] += f", {reason}"
    if in_cycle:
        edge["cycle"] = graph.nodes[src]["cycle"] = graph.nodes[dst]["cycle"] = True


def write_graphml(graph: networkx.DiGraph) -> str:
    """As networkx writes it, indented."""
    import networkx

    return _end_line(networkx.generate_graphml(graph))


def write_dot(graph: networkx.DiGraph) -> str:
    """In Graphviz's language, the cycle in red."""
    return _end_line(_list_dot(graph))


def _end_line(lines: Iterable[str]) -> str:
    return "\n".join([*lines, ""])


def _list_dot(graph: networkx.DiGraph) -> Iterator[str]:
    yield "digraph waits {"
    yield "  rankdir=LR;"
    yield "  node [shape=box];"
    for node, attributes in graph.nodes(data=True):
        yield f"  {node} [{_dot_attributes(attributes, attributes['label'])}];"
    for src, dst, attributes in graph.edges(data=True):
        yield f"  {src} -> {dst} [{_dot_attributes(attributes, attributes['why'])}];"
    yield "}"


def _dot_attributes(attributes: dict[str, object], label: str) -> str:
    marked = ", color=red, penwidth=2" if attributes["cycle"] else ""
    return f"label={_quote_dot(label)}{marked}"


def _quote_dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
