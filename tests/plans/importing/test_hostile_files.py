"""Files of graphs that are odd, broken or meant to do harm: read rightly, or refused with the reason."""

import json
from pathlib import Path

import networkx
import numpy as np
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenGraph
from penstock.plans.importing.importers import importer_of_name
from penstock.plans.importing.read_graphs import read_graphs

GRAPHML = '<graphml><graph edgedefault="directed">{}</graph></graphml>'
NODES = '<node id="a"/><node id="b"/>'
EDGE = '<edge source="a" target="b"/>'
ENTITIES = "".join(f'<!ENTITY e{number} "{f"&e{number - 1};" * 10}">' for number in range(1, 12))
BOMB = f'<!DOCTYPE graphml [<!ENTITY e0 "ha">{ENTITIES}]>' + GRAPHML.format('<node id="&e11;"/>')
OTHER_FILE = '<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + GRAPHML.format('<node id="&x;"/>')


def run(*arguments: object, text: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def graph_of(path: Path) -> GivenGraph:
    importer = importer_of_name(str(path))
    assert importer is not None
    (graph,) = read_graphs(str(path), importer)
    assert isinstance(graph, GivenGraph)
    return graph


def edges_of(path: Path, text: str) -> list[tuple[str, str, dict[str, str]]]:
    path.write_bytes(text.encode())
    graph = graph_of(path)
    return [(edge.source, edge.target, dict(edge.attributes)) for edge in graph.edges]


@pytest.mark.parametrize(
    ("name", "text", "edges"),
    [
        ("a.csv", '"a,1","b ""q"""\r\n"x\ny",z\r\n', [("a,1", 'b "q"', {}), ("x\ny", "z", {})]),
        ("a.csv", "a\u2028x,b\rb,c\r", [("a\u2028x", "b", {}), ("b", "c", {})]),
        ("a.csv", "\ufeffId,Source,Target\n1,a,b\n", [("a", "b", {"id": "1"})]),
        (
            "a.csv",
            "# one\n\na,b,HASH\n,\nb,c,-1.5e3\n",
            [("a", "b", {"partitioner": "HASH"}), ("b", "c", {"weight": "-1.5e3"})],
        ),
        (
            "a.edges",
            'a b {"weight": 3}\nb c {}\n',
            [("a", "b", {"weight": 3}), ("b", "c", {})],
        ),
        ("a.edges", "a#1 b\nb c#2\nc#2 d\n", [("a#1", "b", {}), ("b", "c#2", {}), ("c#2", "d", {})]),
        ("a.txt", "% sym unweighted\n% 2 3 3\n1 2\n2 3\n", [("1", "2", {}), ("2", "3", {})]),
        ("a.txt", "1 2\t0.5\t1082040961\n", [("1", "2", {"weight": "0.5", "column 4": "1082040961"})]),
        (
            "a.txt",
            '"a b" \'c d\' HASH\n\'c d\' "e \\"f"\n',
            [("a b", "c d", {"partitioner": "HASH"}), ("c d", 'e "f', {})],
        ),
        ("a.txt", 'a->b -> c\nb -> "d e"\n', [("a", "b", {}), ("b", "c", {}), ("b", "d e", {})]),
        ("a.txt", "Map->Filter Sink\n", [("Map->Filter", "Sink", {})]),
        (
            "a.txt",
            "Map -> Filter\tSink\nA\tMap -> Filter\n",
            [("Map -> Filter", "Sink", {}), ("A", "Map -> Filter", {})],
        ),
        (
            "a.txt",
            "Customer Orders,Join\nJoin,Print\n",
            [("Customer Orders", "Join", {}), ("Join", "Print", {})],
        ),
        ("a.txt", "a,1 b,2\nb,2 c\n", [("a,1", "b,2", {}), ("b,2", "c", {})]),
        (
            "a.csv",
            "a;b;hash\nb;c;1,5\n",
            [("a", "b", {"partitioner": "hash"}), ("b", "c", {"weight": "1,5"})],
        ),
        ("a.csv", "from|to\na|b\n", [("a", "b", {})]),
        ("a.txt", "# FromNodeId\tToNodeId\n1\t2\n", [("1", "2", {})]),
        (
            "a.edgelist",
            "a b {'weight': 3, 'partitioner': 'hash'}\n",
            [("a", "b", {"weight": 3, "partitioner": "hash"})],
        ),
        ("a.txt", "# c\na b 1\nc {'x': 1}\nc 0\n", [("a b", "c", {"x": 1})]),
        ("a.adjlist", "a 1\nb {'x': 1}\nb 0\n", [("a", "b", {"x": 1})]),
        ("a.txt", "a 1\nb {}\nb " + "9" * 5_000, [("a", "1", {}), ("b", "9" * 5_000, {})]),
        ("a.csv", "sep=;\nsource;target\na;b\n", [("a", "b", {})]),
        ("a.adjlist", "a b c\nb c\nc\n", [("a", "b", {}), ("a", "c", {}), ("b", "c", {})]),
        ("a.tgf", "1 Orders\n2 a b\n#\n1 2 hash\n", [("1", "2", {"label": "hash"})]),
        (
            "a.dot",
            "/* c */ strict digraph { a:p:n -> {b c}; a -> b /* again */ }",
            [("a", "b", {}), ("a", "c", {})],
        ),
        (
            "a.dot",
            'digraph { "a:b":p -> "c\\"d" [label=<<b>hash</b>>] }',
            [("a:b", 'c"d', {"label": "<<b>hash</b>>"})],
        ),
        (
            "a.dot",
            "digraph { a -> b; edge [partitioner=hash]; b -> c; { edge [tag=t]; c -> d } c -> e [tag=u] }",
            [
                ("a", "b", {}),
                ("b", "c", {"partitioner": "hash"}),
                ("c", "d", {"partitioner": "hash", "tag": "t"}),
                ("c", "e", {"partitioner": "hash", "tag": "u"}),
            ],
        ),
        (
            "a.dot",
            "digraph { a -> {node [x=1]; b -> c} -> d }",
            [(one, other, {}) for one, other in ("bc", "ab", "ac", "bd", "cd")],
        ),
        ("a.dot", 'digraph { "a":"x" -> "b":"y":n; "b" -> c }', [("a", "b", {}), ("b", "c", {})]),
        ("a.dot", "digraph { a [x=1;y=2] a -> b }", [("a", "b", {})]),
        ("a.dot", "digraph { 1.5 -> -2; -2 -> .7 }", [("1.5", "-2", {}), ("-2", ".7", {})]),
        ("a.dot", 'DiGraph { node [name="x"] a [obj_dict=1]; a -> b [src=1] }', [("a", "b", {"src": "1"})]),
        ("a.dot", "digraph { a -> b [dir=back]; b -> c [style=invis] }", [("b", "a", {})]),
        ("a.dot", "graph { a -- b [dir=forward]; b -- c [dir=back] }", [("a", "b", {}), ("c", "b", {})]),
        (
            "a.dot",
            'digraph { "a" + "b" -> "c\\\n d"\n# line\n -> e // x\n}',
            [("ab", "c d", {}), ("c d", "e", {})],
        ),
        (
            "a.dot",
            "digraph { a, b -> c [k=1][l=2], d -> e }".replace(", d", "; d"),
            [("a", "c", {"k": "1", "l": "2"}), ("b", "c", {"k": "1", "l": "2"}), ("d", "e", {})],
        ),
        ("a.dot", "strict digraph { a -> b [x=1]; a -> b [y=2] }", [("a", "b", {"x": "1", "y": "2"})]),
        (
            "a.dot",
            "digraph { a -> b [key=1]; a -> b [key=2]; a -> b [key=1, x=3] }",
            [("a", "b", {"key": "1", "x": "3"}), ("a", "b", {"key": "2"})],
        ),
        (
            "a.dot",
            "digraph { a -> subgraph { b } -> {c; d} }",
            [("a", "b", {}), ("b", "c", {}), ("b", "d", {})],
        ),
        ("a.dot", "digraph { a -> <x<!-- > -->y> }", [("a", "<x<!-- > -->y>", {})]),
        ("a.dot", "digraph { é -> b\u00a0c }", [("é", "b\u00a0c", {})]),
        ("a.dot", "digraph { subgraph s {a b} x -> subgraph s }", [("x", "a", {}), ("x", "b", {})]),
        ("a.dot", "digraph {" + "{" * 20_000 + "a->b" + "}" * 20_001, [("a", "b", {})]),
        ("a.graphml", GRAPHML.format(NODES + EDGE * 2), [("a", "b", {})] * 2),
    ],
)
def test_odd_files_are_read_as_they_are_meant(name, text, edges, tmp_path):
    found = edges_of(tmp_path / name, text)
    assert sorted(found, key=str) == sorted(edges, key=str)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", '"a,b\nc,d\n', "line 2: found unexpected end of data"),
        ("a.csv", "a" * 200_000 + ",b\n", "line 1: found field larger"),
        ("a.csv", "from,to,from\na,b,c\n", "two columns 'from'"),
        ("a.txt", "Hello world, this is text.\n", "found 'this is text.' after source and target"),
        ("a.edges", "a b hash more\n", "found 'hash more'"),
        ("a.txt", "a b\nc,d\n", "line 2: found 'c,d'"),
        ("a.csv", "a,b\nb;c\n", "line 2: found 'b;c'"),
        ("a.txt", "('a', 'b')\n('b', 'c')\n", "Python tuples"),
        ("a.txt", "a\0 b\n", "it contains a zero byte, like UTF-16 and binary files"),
        ("a.txt", "a -> b c\n", "line 1: found 'b c' next to an arrow"),
        ("a.txt", 'a "b\n', "line 1: found '\"b', a quoted name that does not end"),
        ("a.edgelist", "a b {'x': }\n", "which is not an object"),
        ("a.csv", "source,target,cost\na,,3\n", "line 2: found ['a', '', '3'], which has no target"),
        ("a.csv", "Id,Label\n1,Orders\n", "found 'Id, Label', a table of nodes"),
        (
            "a.csv",
            "source,target,source_parallelism\na,b,2\na,c,3\n",
            "parallelism '3' of 'a', which has '2'",
        ),
        ("a.dot", "digraph {\n  a -> b;\n  a -- c\n}", "line 3, column 5: found '--'; allowed: ->"),
        ("a.dot", "graph { a -> b }", "found '->'; allowed: --"),
        ("a.dot", "digraph { a -> b [x] }", "column 20: found ']'; allowed: = and a value"),
        ("a.dot", "digraph { 1a -> b }", "found '1a', a number followed by a name or number"),
        ("a.dot", "digraph { a-b }", "'-', which is not valid in DOT outside of quotes"),
        ("a.dot", 'digraph { "a }', "a quoted name that does not end"),
        ("a.dot", "digraph { a /* }", "a comment that does not end"),
        ("a.dot", "digraph { a -> <b }", "an HTML string that does not end"),
        ("a.dot", "digraph { a -> ; }", "found ';'; allowed: a node or a subgraph"),
        ("a.dot", "digraph { node -> b }", "found '->'; allowed: ["),
        ("a.dot", "digraph { a -> b } x", "found 'x'; allowed: digraph or graph"),
        ("a.dot", "digraph { x -> subgraph s }", "no subgraph before is called 's'"),
        ("a.graphml", BOMB, "entity 'e0'"),
        ("a.graphml", OTHER_FILE, "entity 'x'"),
        ("a.graphml", "<html/>", "no graph"),
        ("a.graphml", "<graphml>" + GRAPHML[9:-10].format(NODES) * 2 + "</graphml>", "2 graphs"),
        ("a.graphml", GRAPHML.format(f'<node id="n"><graph>{NODES}</graph></node>'), "a graph inside a node"),
        ("a.graphml", GRAPHML.format(f"{NODES}<hyperedge/>"), "hyperedges"),
        (
            "a.graphml",
            GRAPHML.format(NODES + EDGE.replace("edge", "edges")),
            "an element 'edges' in the graph",
        ),
        ("a.graphml", GRAPHML.format(NODES + EDGE.replace("target", "t")), "an edge without a target"),
        ("a.graphml", GRAPHML.format("<node/>"), "a node without an id"),
        ("a.graphml", GRAPHML.format(f"{NODES}{NODES}{EDGE}"), "two nodes with the id 'a'"),
        ("a.graphml", GRAPHML.format(f'<node id="a"/>{EDGE}'), "an edge of 'b', which is not a node"),
        ("a.graphml", '<a b="\x1b]0;">', "invalid XML"),
        ("a.graphml", '<?xml version="1.0" encoding="UTF-88"?><graphml/>', "unknown encoding: UTF-88"),
    ],
)
def test_what_cannot_be_read_rightly_is_refused(name, text, said, tmp_path, recwarn):
    with pytest.raises(InputError) as raised:
        edges_of(tmp_path / name, text)
    assert said in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)
    assert not recwarn


def test_defaults_of_dot_hold_for_nodes_that_first_occur_after_them(tmp_path):
    (tmp_path / "a.dot").write_text(
        "digraph { a -> b; node [parallelism=2]; b; c; {node [parallelism=3] d} e; a [parallelism=4] }"
    )
    graph = graph_of(tmp_path / "a.dot")
    found = {node.key: node.attributes.get("parallelism") for node in graph.nodes}
    assert found == {"a": "4", "b": None, "c": "2", "d": "3", "e": "2"}


def test_wrong_attributes_are_said_of_nodes_and_edges(tmp_path):
    (tmp_path / "a.dot").write_text('digraph { a; b [parallelism=x]; a -> b [partitioner="\x1b[31m"] }')
    code, written, said = run("import", tmp_path / "a.dot")
    assert (code, written) == (7, "")
    for wrong in (
        "node 'b': found parallelism 'x' (string); allowed: an integer, 1 or more",
        "an edge from 'a': found",
    ):
        assert wrong in said
    assert "\x1b" not in said


def test_attributes_of_any_type(tmp_path):
    graph = networkx.DiGraph()
    graph.add_node("a", parallelism=np.int64(3), weight=np.zeros(3), kind=None, uid=float("nan"))
    graph.add_edge("a", "b", partitioner=np.str_("hash"), cost=[1])
    source = penstock.import_graph(graph)["transformations"][0]
    assert (source["parallelism"], type(source["parallelism"]), "uid" in source) == (3, int, False)
    graph.nodes["a"]["name"] = np.zeros(3)
    graph.nodes["b"]["parallelism"] = np.zeros(3)
    with pytest.raises(InputError, match="node 'b': found parallelism"):
        penstock.import_graph(graph)


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", ""), ("a.dot", ""), ("a.json", " \n"), ("a.jsonl", "\n\n"), ("-", "")]
)
def test_nothing_is_not_imported_in_silence(name, text, tmp_path):
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    path.write_text(text)
    code, _, said = run("import", "-" if name == "-" else path, "--out", out, text=text)
    assert (code, "nothing to import in" in said, out.exists()) == (3, True, False)


@pytest.mark.slow
def test_a_version_of_a_store_is_an_input_of_plan_and_none_of_import(tmp_path):
    store, other = tmp_path / "store", tmp_path / "other"
    for name in ("first", "second"):
        given = [{"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}]
        penstock.plan([{"name": name, "transformations": given}]).write(store)
    assert run("plan", f"{store}@1", "--out", other)[0] == 0
    written = run("export", other, "--format", "topologies")[1]
    assert [json.loads(line)["name"] for line in written.splitlines()] == ["first"]
    assert run("plan", f"{store}@3", "--out", other)[0] == 4
    assert run("plan", f"{store}@1", store, store, "--out", other)[0] == 0
    refused = run("rejected", other)[1]
    assert "/store@2.jsonl:1" in refused
    assert "which line 1 of" in refused
    code, _, said = run("import", store)
    assert (code, "a plan store" in said, "penstock plan" in said) == (3, True, True)
