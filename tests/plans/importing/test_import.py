"""Graphs and workflows of other tools as topologies: `penstock import` and `penstock.import_graph`."""

import json

import networkx
import pytest

import penstock
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.importing.given_graph import (
    AS_GIVEN,
    ASSUMED_KEY,
    FORM_KEY,
    IGNORED_KEY,
    GivenEdge,
    GivenGraph,
    GivenNode,
    ImportOptions,
    SeveralInputs,
    topology_of_graph,
)
from penstock.plans.importing.known_forms import as_topology
from penstock.plans.layers import PlanOptions
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
        "g.dot": "looks (color, rankdir, shape)",
        "g.graphml": "node attribute width",
        "g.edges": "comments '# a comment', '# so'",
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
    assert plan_in_process([found], PlanOptions(Layer.STREAM_GRAPH)).inputs == 1


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
        "tag from port, which does not occur",
        "uid from label, which does not occur",
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
        ([1, 2], {}, "got list"),
        (networkx.DiGraph([(1, 2, {"partitioner": "hsh"})]), {}, "did you mean hash"),
        (networkx.DiGraph([(1, 2)]), {"parallelism": 0}, "a whole number from 1"),
        (networkx.DiGraph([(1, 2)]), {"partitioner": "hsh"}, "did you mean hash"),
        (networkx.DiGraph([(1, 2)]), {"take": {"cost": "x"}}, "got 'cost'"),
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


# Names that a terminal, Graphviz, XML or HTML would take for something else.
ODD_NAMES = (
    *(
        'a"b',
        "a\\b",
        "a\\nb",
        "line\nbreak",
        "x & y",
        "&amp; &lt;",
        "<b>html</b>",
        "tab\t",
        "\u202eevil",
        "x\\",
    ),
    *("parallelism 3", "\\N", "a -> b", "Source: a", "{rec|ord}", "\\\\", " lead"),
)


@pytest.mark.parametrize("ending", ["dot", "graphml"])
def test_what_draw_writes_comes_back_with_names_and_parallelism(tmp_path, ending):
    given = [{"id": 1, "kind": "source", "name": "s", "parallelism": 1_500}]
    given += [
        {
            "id": id_,
            "kind": "one_input",
            "name": name,
            "inputs": [id_ - 1],
            "parallelism": id_,
            "max_parallelism": 999,
        }
        for id_, name in enumerate(ODD_NAMES, 2)
    ]
    source, drawn = tmp_path / "a.jsonl", tmp_path / f"b.{ending}"
    source.write_text(json.dumps({"name": 'j "1"\\n', "transformations": given}))
    assert run("draw", source, "--layer", "stream_graph", "--to", drawn)[0] == 0
    (topology,) = imported(drawn)
    found = [
        (one["name"], one["parallelism"], one.get("max_parallelism"))
        for one in topology["transformations"]
        if "name" in one
    ]
    assert found == [(one["name"], one["parallelism"], one.get("max_parallelism")) for one in given]
    assert ending == "graphml" or topology["name"] == 'j "1"\\n'
    assert [reads for _, _, reads in operators(topology)][1] == ["s rebalance"]


YED = """<graphml xmlns:y="http://www.yworks.com/xml/graphml">
  <key for="node" id="d6" yfiles.type="nodegraphics"/><key for="edge" id="d10" yfiles.type="edgegraphics"/>
  <key for="node" id="d4" attr.name="parallelism" attr.type="int"><default>7</default></key>
  <graph edgedefault="directed" id="G">
    <node id="n0"><data key="d4">2</data><data key="d6"><y:ShapeNode><y:Geometry x="0"/>
      <y:NodeLabel visible="true">Or
      ders<y:LabelModel>x</y:LabelModel></y:NodeLabel></y:ShapeNode></data><port name="p"/></node>
    <node id="n1"><data key="d6"><y:ShapeNode><y:NodeLabel>Join</y:NodeLabel></y:ShapeNode></data></node>
    <edge id="e0" source="n0" target="n1" sourceport="p"><data key="d10"><y:PolyLineEdge>
      <y:EdgeLabel>hash</y:EdgeLabel></y:PolyLineEdge></data></edge>
  </graph>
</graphml>"""


def test_names_of_yed_are_its_labels(tmp_path):
    (tmp_path / "a.graphml").write_text(YED)
    (topology,) = imported(tmp_path / "a.graphml")
    assert operators(topology) == [("source", "Or ders", []), ("sink", "Join", ["Or ders hash"])]
    assert [one.get("parallelism") for one in topology["transformations"] if "name" in one] == [2, 7]
    assert topology["config"][IGNORED_KEY] == (
        "edge attribute id; id of the graph 'G'; ids of nodes that have names 'n0', 'n1'; ports 'p'"
    )


def test_labels_are_names_in_every_form(tmp_path):
    link = {"source": 0, "target": 1, "label": "HASH"}
    nodes = [{"id": 0, "label": "Orders"}, {"id": 1, "label": "Print"}]
    document = {"directed": True, "multigraph": False, "graph": {}, "nodes": nodes, "links": [link]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    (tmp_path / "a.dot").write_text(
        'digraph { 0 [label="Orders"] 1 [label=<<b>Print</b>>] 0 -> 1 [label=HASH] }'
    )
    graph = networkx.DiGraph()
    graph.add_node(0, label="Orders")
    graph.add_node(1, label="Print")
    graph.add_edge(0, 1, label="HASH")
    for topology in (
        *imported(tmp_path / "a.json"),
        *imported(tmp_path / "a.dot"),
        penstock.import_graph(graph),
    ):
        assert operators(topology) == [("source", "Orders", []), ("sink", "Print", ["Orders hash"])]
        assert topology["config"][IGNORED_KEY] == "ids of nodes that have names '0', '1'"
        assert "name = the label" in topology["config"][ASSUMED_KEY]


def test_labels_of_dot_as_graphviz_shows_them(tmp_path):
    file = tmp_path / "a.dot"
    file.write_text(
        'digraph { a [label="x?a=1&region=eu&copy=2 &eacute;&#955;&nothing;"]; a -> b -> c; '
        'b [shape=Mrecord, label="{<in> Map\\|it|{<f1> 4|two\\nlines}}"]; c [label="<x> {y|z}"] }'
    )
    (topology,) = imported(file)
    assert [one["name"] for one in topology["transformations"]] == [
        "x?a=1&region=eu&copy=2 \u00e9\u03bb&nothing;",
        "Map|it 4 two lines",
        "<x> {y|z}",
    ]


def test_a_first_line_that_may_name_columns_is_listed(tmp_path):
    file = tmp_path / "a.csv"
    for text, note in (
        ("u,v\na,b\nb,c\n", "first line = an edge, not column names"),
        ("Source,Target,Type\na,b,Undirected\n", "despite undirected in the file"),
    ):
        file.write_text(text)
        assert note in imported(file)[0]["config"]["penstock.import.assumed"]
    file.write_text("a,b\nb,c\n")
    assert "first line" not in imported(file)[0]["config"]["penstock.import.assumed"]


def test_numbers_that_igraph_lacks_are_missing(tmp_path):
    file = tmp_path / "a.graphml"
    file.write_text(
        '<graphml><key id="p" for="node" attr.name="parallelism"/><graph edgedefault="directed">'
        '<node id="a"><data key="p">NaN</data></node><node id="b"/><edge source="a" target="b"/>'
        "</graph></graphml>"
    )
    assert "parallelism" not in imported(file)[0]["transformations"][0]


def test_edges_from_readers_to_what_they_read(tmp_path):
    (tmp_path / "a.dot").write_text(
        "digraph { StreamMaterialize -> StreamHashAgg; StreamHashAgg -> StreamTableScan }"
    )
    (topology,) = imported(tmp_path / "a.dot", "--reverse")
    assert [name for _, name, _ in operators(topology)] == [
        "StreamTableScan",
        "StreamHashAgg",
        "StreamMaterialize",
    ]
    assert "direction = against the edges" in topology["config"][ASSUMED_KEY]
    (topology,) = imported(tmp_path / "a.dot")
    assert "--reverse if they point from readers to their inputs" in topology["config"][ASSUMED_KEY]


def test_more_inputs_than_flink_takes_hint_at_a_union(tmp_path):
    (tmp_path / "a.edges").write_text("".join(f"s{number} j\n" for number in range(128)) + "j k\n")
    code, written, said = run("import", tmp_path / "a.edges")
    assert (code, written) == (7, "")
    assert (
        "node 'j': found 128 inputs; allowed: 63 of a multi_input operator; hint: several inputs as a union "
        "(--several-inputs union)" in said
    )
    (topology,) = imported(tmp_path / "a.edges", "--several-inputs", "union")
    assert len(operators(topology)) == 130


def test_topologies_of_one_name_say_which_file_they_are_of(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.dot").write_text("digraph G { x -> y }")
    topologies = imported(tmp_path)
    assert [topology["name"] for topology in topologies] == ["G", "G-2", "G-3"]
    assert [topology["config"]["penstock.import.file"] for topology in topologies] == [
        str(tmp_path / f"{name}.dot") for name in ("a", "b", "c")
    ]


def test_columns_of_both_ends_are_attributes_of_nodes(tmp_path):
    (tmp_path / "ds2.csv").write_text(
        "# operator_id1,operator_name1,total_number_of_operator_instances1,operator_id2,operator_name2,"
        "total_number_of_operator_instances2\n"
        "b1,Source: Bids,6,m1,Map -> Filter,16\nm1,Map -> Filter,16,k1,Sink,1\n"
    )
    (topology,) = imported(tmp_path / "ds2.csv")
    assert operators(topology) == [
        ("source", "Bids", []), ("one_input", "Map -> Filter", ["Bids"]), ("sink", "Sink", ["Map -> Filter"])
    ]  # fmt: skip
    assert [one["parallelism"] for one in topology["transformations"]] == [6, 16, 1]
    (tmp_path / "b.csv").write_text("source,target,source_parallelism,target_label,w\na,b,4,B,1\nb,c,,C,\n")
    (topology,) = imported(tmp_path / "b.csv")
    assert [one["name"] for one in topology["transformations"]] == ["a", "B", "C"]
    assert topology["transformations"][0]["parallelism"] == 4
    (tmp_path / "c.edges").write_text('a b\na {"parallelism": 4}\n')
    (topology,) = imported(tmp_path / "c.edges")
    assert topology["transformations"][0]["parallelism"] == 4


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
        ("a.dot", b"digraph {", "line 1, column 10: found the end of the file"),
        ("a.dot", b"\xff\xfe", "is not UTF-8"),
        ("a.graphml", b"<graphml>", "it is not GraphML"),
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
        {"directed": True, "nodes": None, "links": []},
        {"name": "a", "edges": []},
    ],
)
def test_what_is_no_graph_stays_as_it_is(given):
    assert as_topology(given, "file.json", 0) == given


@pytest.mark.parametrize("inner", [{"a": 1}, {}, ["nodes"], "nodes", None, 7])
@pytest.mark.parametrize("key", ["flink_plan", "plan", "execution_plan"])
def test_what_holds_no_plan_under_the_key_of_one_stays_as_it_is(key, inner):
    given = {"name": "a", key: inner}
    assert as_topology(given, "file.json", 0) == given
