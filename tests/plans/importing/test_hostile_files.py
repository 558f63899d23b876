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
from penstock.plans.importing.read_graphs import form_of_graph, read_graphs

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


def edges_of(path: Path, text: str) -> list[tuple[str, str, dict[str, str]]]:
    path.write_bytes(text.encode())
    form = form_of_graph(str(path))
    assert form is not None
    (graph,) = read_graphs(str(path), form)
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
        ("a.dot", "digraph { x -> subgraph s }", "no subgraph before is called 's'"),
        ("a.graphml", BOMB, "entity 'e0'"),
        ("a.graphml", OTHER_FILE, "entity 'x'"),
        ("a.graphml", "<html/>", "no graph"),
        ("a.graphml", "<graphml>" + GRAPHML[9:-10].format(NODES) * 2 + "</graphml>", "2 graphs"),
        ("a.graphml", GRAPHML.format(f'<node id="n"><graph>{NODES}</graph></node>'), "inside of a node"),
        ("a.graphml", GRAPHML.format(f"{NODES}<hyperedge/>"), "hyperedges"),
        ("a.graphml", GRAPHML.format(f"{NODES}{NODES}{EDGE}"), "two nodes with the id 'a'"),
        ("a.graphml", GRAPHML.format(f'<node id="a"/>{EDGE}'), "an edge of 'b', which is no node"),
        ("a.graphml", '<a b="\x1b]0;">', "no XML"),
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
    (graph,) = read_graphs(str(tmp_path / "a.dot"), "dot")
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
