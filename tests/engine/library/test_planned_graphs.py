"""Nodes, edges and graphs of plans made in this process."""

import polars as pl
import pytest

import penstock
from penstock.plans.vocabulary import LayerName
from tests.plans.topology.builders import simple

GIVEN = pl.DataFrame(
    [{**simple(name, parallelism=2), "team": team} for name, team in (("a", "x"), ("b", "y"))]
)


def test_columns_that_are_ignored_are_beside_the_names_of_topologies() -> None:
    with pytest.raises(penstock.SchemaError, match=r"(?s)columns must be among .*, got 'team'.*ignore="):
        penstock.plan(GIVEN)
    planned = penstock.plan(GIVEN.with_columns(ID=pl.lit(7)), ignore=["team", "ID"])
    assert planned.ignored.to_pylist() == [
        {"name": name, "team": team, "ID": 7} for name, team in (("a", "x"), ("b", "y"))
    ]
    nodes = planned.nodes("stream_graph").to_pylist()
    assert {(row["topology"], row["team"]) for row in nodes} == {("a", "x"), ("b", "y")}
    assert len(nodes) == planned.tables["stream_nodes"].num_rows
    assert planned.nodes().num_rows == planned.tables["execution_vertices"].num_rows
    assert planned.partitions().column_names[:4] == ["topology_id", "topology", "team", "ID"]
    assert planned.nodes("stream_graph").column_names[:4] == ["topology_id", "topology", "team", "id"]


@pytest.mark.parametrize("layer", ["topology", "stream_graph", "job_graph", "execution_graph"])
def test_edges_join_vertices(layer: LayerName) -> None:
    topology = simple("a", parallelism=2)
    topology["transformations"][-1]["parallelism"] = 3
    planned = penstock.plan([topology, simple("b")])
    graph = planned.graph(layer)
    ids = graph.vertices["id"].to_pylist()
    assert len(set(ids)) == len(ids) == planned.nodes(layer).num_rows
    assert set(graph.edges["src"].to_pylist()) | set(graph.edges["dst"].to_pylist()) <= set(ids)
    made = graph.to_networkx()
    assert (made.number_of_nodes(), made.number_of_edges()) == (len(ids), graph.edges.num_rows)
    assert "vertices" in repr(graph)
    assert "<td>edges</td>" in graph._repr_html_()
    of_igraph = graph.to_igraph()
    assert (of_igraph.vcount(), of_igraph.ecount()) == (len(ids), graph.edges.num_rows)
    if layer == "execution_graph":
        assert graph.edges.num_rows == 2 * 3


@pytest.mark.parametrize("layer", ["topology", "stream_graph", "job_graph", "execution_graph"])
def test_columns_of_ones_own_never_take_the_place_of_a_graphs(layer: LayerName) -> None:
    names = ["id", "node", "src", "DST", "source_subtask", "key", "u_for_edge"]
    planned = penstock.plan(
        GIVEN.with_columns(**{name: pl.lit(7) for name in names}), ignore=["team", *names]
    )
    plain = penstock.plan(GIVEN, ignore=["team"]).graph(layer)
    graph = planned.graph(layer)
    for mine, its in zip(graph, plain, strict=True):
        assert mine.select(its.column_names).equals(its)
        assert not {"id", "node"} & (set(mine.column_names) - set(its.column_names))
    assert list(graph.to_networkx().edges) == list(plain.to_networkx().edges)
    assert {edge["key"] for *_, edge in graph.to_networkx().edges(data=True)} <= {7}


def test_layers_that_are_not_planned_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    planned = penstock.plan([simple("a"), simple("wrong", parallelism=-5)], until="stream_graph")
    assert planned.nodes().num_rows == planned.tables["stream_nodes"].num_rows
    with pytest.raises(penstock.ConfigurationError, match="one of topology, stream_graph, got 'job_graph'"):
        planned.edges("job_graph")
    with pytest.raises(penstock.ConfigurationError, match="until a later layer"):
        planned.partitions()
    planned.show()
    shown = capsys.readouterr().out
    assert "1 planned, 1 rejected of 2 topologies" in shown
    assert "wrong: " in shown
