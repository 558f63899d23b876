"""Graphs and workflows of other tools as topologies: `penstock import` and `penstock.import_graph`."""

import json
import sys

import networkx
import pytest

import penstock
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.importing.given_graph import (
    AS_GIVEN,
    GivenEdge,
    GivenGraph,
    GivenNode,
    ImportOptions,
    SeveralInputs,
    topology_of_graph,
)
from penstock.plans.importing.imported import ASSUMED_KEY, FORM_KEY, IGNORED_KEY
from penstock.plans.importing.known_forms import as_topology
from penstock.plans.vocabulary import Layer
from tests.plans.importing.imports import DIAMOND, imported, operators, run

DOT = """
digraph "my job" {
  rankdir=LR; node [shape=box]
  a -> b [partitioner="HASH", color=red]
  a -> c
  {b c} -> d -> e
}
"""
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="p" for="edge" attr.name="partitioner" attr.type="string"/>
  <key id="w" for="node" attr.name="width" attr.type="int"/>
  <graph edgedefault="directed">
    <node id="a"><data key="w">3</data></node><node id="b"/><node id="c"/><node id="d"/><node id="e"/>
    <edge source="a" target="b"><data key="p">hash</data></edge><edge source="a" target="c"/>
    <edge source="b" target="d"/><edge source="c" target="d"/><edge source="d" target="e"/>
  </graph>
</graphml>
"""


@pytest.mark.parametrize(
    ("file", "text", "form"),
    [
        ("g.dot", DOT, "dot"),
        ("g.graphml", GRAPHML, "graphml"),
        ("g.csv", "from,to,partitioner,cost\na,b,hash,3\na,c,,\nb,d,,\nc,d,,\nd,e,,\n", "edge-list"),
        ("g.tsv", "a\tb\tHASH\na\tc\nb\td\nc\td\nd\te\n", "edge-list"),
        ("g.edges", "# a comment\na b hash\n\na c  # so\nb d\nc d\nd e\n", "edge-list"),
    ],
)
def test_files_of_graphs(tmp_path, file, text, form):
    (tmp_path / file).write_text(text)
    (topology,) = imported(tmp_path / file)
    assert operators(topology) == DIAMOND
    assert topology["name"] == ("my job" if form == "dot" else "g")
    assert topology["config"][FORM_KEY] == form
    assert topology["config"].get(IGNORED_KEY) == {
        "g.csv": "edge attribute cost",
        "g.graphml": "node attribute width",
    }.get(file)


def graph_of(*edges, nodes=(), directed=True, **attributes):
    nodes = [GivenNode(key, {}) for key in nodes]
    found = [GivenEdge(source, target, attributes) for source, target in edges]
    return GivenGraph("g", nodes, found, directed)


def topology_of(graph, options=AS_GIVEN):
    found = topology_of_graph(graph, "networkx", options)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (graph_of(), "no nodes"),
        (graph_of(nodes="ab"), "2 nodes and no edge"),
        (graph_of(("a", "b"), directed=False), "an undirected graph"),
        (graph_of(("a", "a")), "'a' reads 'a' (a self loop)"),
        (graph_of(("a", "b"), ("b", "c"), ("c", "b")), "'b' reads 'c' reads 'b'"),
    ],
)
def test_graphs_that_flink_could_not_run_are_refused(graph, says):
    found = topology_of_graph(graph, "networkx")
    assert isinstance(found, list)
    (error,) = found
    assert says in error.message


def test_several_edges_between_two_nodes_are_several_inputs():
    found = topology_of(graph_of(("a", "b"), ("a", "b"), ("b", "c")))
    assert operators(found) == [("source", "a", []), ("two_input", "b", ["a", "a"]), ("sink", "c", ["b"])]


def test_inputs_of_several_kinds():
    edges = [(source, "m") for source in "abc"] + [("m", "k"), ("a", "k")]
    found = topology_of(graph_of(*edges))
    assert operators(found)[-2:] == [("multi_input", "m", ["a", "b", "c"]), ("sink", "k", ["m", "a"])]
    union = ImportOptions(several_inputs=SeveralInputs.UNION, partitioner="rescale", parallelism=7)
    found = topology_of(graph_of(*edges), union)
    assert operators(found)[-2] == ("one_input", "m", [f"{one} rescale" for one in "abc"])
    assert found["parallelism"] == 7
    assert "partitioner" not in found["config"][ASSUMED_KEY]


def test_isolated_nodes_and_odd_names():
    names = ["\u202eevil", "", "<script>", "a\nb", "x" * 300, "Source: s"]
    edges = [(name, "end") for name in names[:-1]] + [("Source: s", "end")]
    found = topology_of(graph_of(*edges, nodes=["alone", *names]))
    assert "isolated nodes 'alone'" in found["config"][IGNORED_KEY]
    assert {name for _, name, _ in operators(found)} >= {"\u202eevil", "<script>", "a\nb", "s", "x" * 300}
    assert plan_in_process([found], until=Layer.STREAM_GRAPH).inputs == 1


def test_what_is_not_taken_is_listed():
    graph = GivenGraph(
        "g",
        [GivenNode("a", {"tag": "x", "parallelism": 3, "cores": 2})],
        [GivenEdge("a", "b", {"parallelism": 4, "name": "e", "partitioner": "hash"})],
    )
    found = topology_of(graph, ImportOptions(take={"parallelism": "cores", "uid": "label", "tag": "port"}))
    assert found["transformations"][0]["parallelism"] == 2
    assert found["config"][IGNORED_KEY].split("; ") == [
        "edge attribute name",
        "edge attribute parallelism",
        "node attribute parallelism",
        "node attribute tag",
        "tag from port, which nothing has",
        "uid from label, which nothing has",
    ]


def test_graphs_of_networkx():
    graph = networkx.MultiDiGraph(name="from networkx")
    graph.add_node(1, kind="legacy_source", parallelism="4.0", colour="red")
    graph.add_edge(1, "sink", partitioner="broadcast", tag="late")
    graph.add_edge(1, "sink")
    topology = penstock.import_graph(graph, take={"uid": "colour"})
    assert operators(topology) == [("legacy_source", "1", []), ("sink", "sink", ["1 late broadcast", "1"])]
    assert topology["transformations"][0] == {
        "id": 1,
        "kind": "legacy_source",
        "name": "1",
        "parallelism": 4,
        "uid": "red",
    }
    planned = penstock.plan([topology])
    assert planned.tables["topologies"]["name"].to_pylist() == ["from networkx"]


@pytest.mark.parametrize(
    ("graph", "arguments", "says"),
    [
        (networkx.Graph([(1, 2)]), {}, "an undirected graph"),
        (networkx.DiGraph([(1, 2), (2, 1)]), {}, "an acyclic graph"),
        ([1, 2], {}, "found list"),
        (networkx.DiGraph([(1, 2, {"partitioner": "hsh"})]), {}, "did you mean hash"),
        (networkx.DiGraph([(1, 2)]), {"parallelism": 0}, "a whole number from 1"),
        (networkx.DiGraph([(1, 2)]), {"partitioner": "hsh"}, "did you mean hash"),
        (networkx.DiGraph([(1, 2)]), {"take": {"cost": "x"}}, "found 'cost'"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(graph, arguments, says):
    with pytest.raises(penstock.PenstockError) as raised:
        penstock.import_graph(graph, **arguments)
    assert says in str(raised.value)


def test_what_draw_writes_is_imported_again(tmp_path):
    example, drawn = "engine/examples/examples.jsonl", tmp_path / "drawn.graphml"
    layer = ("--layer", "stream_graph", "--fold", "none")
    assert run("draw", example, "--topology", "word-count", *layer, "--to", drawn)[0] == 0
    (topology,) = imported(drawn)
    drawn_graph = penstock.draw(example, "word-count", layer="stream_graph").networkx()
    for found in (topology, penstock.import_graph(drawn_graph)):
        names = {name for _, name, _ in operators(found)}
        assert {"Kafka: lines", "Tokenize", "Count by word"} <= names
        (counted,) = (reads for _, name, reads in operators(found) if name == "Count by word")
        assert counted == ["Tokenize hash"]


def test_names_are_unique_and_refusals_are_said(tmp_path):
    (tmp_path / "a.dot").write_text("digraph G { x -> y } digraph G { x -> z }")
    (tmp_path / "b.edges").write_text("x x\n")
    code, written, said = run("import", tmp_path, "--out", tmp_path / "out.jsonl")
    names = [json.loads(line)["name"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (code, written, names) == (0, "", ["G", "G-2"])
    assert f"refused: {tmp_path / 'b.edges'}: node 'x'" in said
    assert run("import", tmp_path / "b.edges", "--out", tmp_path / "none.jsonl")[0] == 7
    assert run("import", tmp_path / "a.dot", tmp_path / "b.edges", "--strict")[0] == 7


@pytest.mark.parametrize(
    ("file", "data", "says"),
    [
        ("a.dot", b"digraph {", "pydot finds no DOT in it"),
        ("a.dot", b"\xff\xfe", "is not UTF-8"),
        ("a.graphml", b"<graphml>", "it is no GraphML"),
        ("a.graphml", b"", "no such"),
        ("a.csv", b"source,target\na,b,c,d\n", "line 2: found 4 cells"),
        ("a.tsv", b"a\tb\n\tc\n", "line 2"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, file, data, says):
    path = tmp_path / file
    path.write_bytes(data or b" ")
    code, _, said = run("import", path)
    assert code == 3
    assert says in said or not data
    assert str(path) in said


def test_pydot_is_asked_for_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot", None)
    (tmp_path / "a.dot").write_text("digraph { a -> b }")
    code, _, said = run("import", tmp_path / "a.dot")
    assert (code, "pip install 'penstock-spark[graphs]'" in said) == (2, True)


def test_plan_names_import_for_a_graph(tmp_path):
    (tmp_path / "a.dot").write_text("digraph { a -> b }")
    code, _, said = run("plan", tmp_path / "a.dot", "--out", tmp_path / "store")
    assert (code, "penstock import" in said) == (3, True)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("option", ["cost=x", "parallelism", "=x", "uid="])
def test_a_wrong_take_is_refused(tmp_path, option):
    (tmp_path / "a.edges").write_text("a b\n")
    assert run("import", tmp_path / "a.edges", "--take", option)[0] == 2


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": [{"id": 1}], "links": []},
        {"directed": True, "nodes": [{"id": 1}], "links": None},
        {"directed": True, "nodes": None, "links": []},
    ],
)
def test_what_is_no_graph_stays_as_it_is(given):
    assert as_topology(given, "file.json", 0) == given


@pytest.mark.parametrize("inner", [{"a": 1}, {}, ["nodes"], "nodes", None, 7])
@pytest.mark.parametrize("key", ["flink_plan", "plan", "execution_plan"])
def test_what_holds_no_plan_under_the_key_of_one_stays_as_it_is(key, inner):
    given = {"name": "a", key: inner}
    assert as_topology(given, "file.json", 0) == given
