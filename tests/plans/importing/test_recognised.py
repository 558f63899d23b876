"""Files that are told by what is in them, whatever they are called, and things that are known and no jobs."""

import json
import subprocess
import sys
from importlib import import_module

import networkx
import pytest

from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.importers import IMPORTERS, Importer
from penstock.plans.importing.task_graphs import read_stg
from tests.plans.importing.imports import imported, operators, run

NODES = [
    {"id": 1, "type": "Source: a", "pact": "Data Source", "contents": "x", "parallelism": 2},
    {
        "id": 2, "type": "Sink: b", "pact": "Data Sink", "contents": "y", "parallelism": 2,
        "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
    },
]  # fmt: skip
STG = "2\n0 0 0\n1 5 1 0\n2 3 1 1 # after 1\n3 0 1 2\n"
DAX = (
    '<?xml version="1.0"?>\n<!-- a comment -->\n<adag xmlns="http://pegasus.isi.edu/schema/DAX" name="wf">'
    '<job id="ID1" name="split"/><job id="ID2" name="cat"/>'
    '<child ref="ID2"><parent ref="ID1"/></child></adag>'
)
PEGASUS = """pegasus: '5.0'
name: wf
jobs:
- {type: job, id: ID1, name: split}
- {type: job, id: ID2, name: cat}
jobDependencies:
- {id: ID1, children: [ID2]}
"""
ALIBABA = "M1,1,j_1,1,Terminated,1,2,100,0.5\nR2_1,3,j_1,1,Terminated,1,2,100,0.5\n"
EXPLAIN = """== Abstract Syntax Tree ==
LogicalSink(table=[out])
+- LogicalJoin(condition=[=($0, $1)])

== Optimized Execution Plan ==
Sink(table=[out], fields=[a])
+- Join(joinType=[InnerJoin])
   :- Exchange(distribution=[hash[a]])
   :  +- Scan(table=[orders])(reuse_id=[1])
   +- Exchange(distribution=[single])
      +- Calc(select=[a])
         +- Reused(reference_id=[1])
"""
INFO = (
    "----------------------- Execution Plan -----------------------\n"
    f"{json.dumps({'nodes': NODES})}\n--------------------------------------------------------------\n\n"
    "No description provided.\n"
)
GRAPH = networkx.DiGraph(name="enrich")
GRAPH.add_edge("orders", "join", partitioner="hash")
GRAPH.add_edge(7, "join")
TWO = [("source", "split_ID1", []), ("sink", "cat_ID2", ["split_ID1"])]
FORMS = {
    "node-link": (json.dumps(networkx.node_link_data(GRAPH, edges="links"), indent=1),
                  [("source", "orders", []), ("source", "7", []), ("sink", "join", ["orders hash", "7"])]),
    "stg": (STG, [("source", "task 0", []), ("one_input", "task 1", ["task 0"]),
                  ("one_input", "task 2", ["task 1"]), ("sink", "task 3", ["task 2"])]),
    "dax": (DAX, TWO),
    "pegasus": (PEGASUS, TWO),
    "alibaba-batch-task": (ALIBABA, [("source", "M1", []), ("sink", "R2_1", ["M1"])]),
    "flink-explain": (EXPLAIN, [
        ("source", "Scan(table=[orders])", []),
        ("one_input", "Calc(select=[a])", ["Scan(table=[orders])"]),
        ("two_input", "Join(joinType=[InnerJoin])", ["Scan(table=[orders]) hash", "Calc(select=[a]) global"]),
        ("sink", "Sink(table=[out], fields=[a])", ["Join(joinType=[InnerJoin])"]),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_recognised_by_content(tmp_path, form):
    text, expected = FORMS[form]
    (tmp_path / "a.txt").write_text(text)
    (topology,) = imported(tmp_path / "a.txt")
    assert topology["config"]["penstock.import.form"] == form
    assert sorted(operators(topology)) == sorted(expected)


@pytest.mark.parametrize(
    "text", [INFO, json.dumps(NODES, indent=2), f"== Physical Execution Plan ==\n{INFO[63:]}"]
)
def test_flinks_json_is_found_where_it_is_printed(tmp_path, text):
    (tmp_path / "job.txt").write_text(text)
    (topology,) = imported(tmp_path / "job.txt")
    assert topology["name"] == "job"
    assert [node["name"] for node in topology["stream_graph"]["nodes"]] == ["Source: a", "Sink: b"]


NO_JOBS = {
    "a.sql": ("CREATE TABLE a (x INT);\nINSERT INTO a SELECT 1;\n", "a SQL script"),
    "a.jar": ("PK\x03\x04 and more", "a jar"),
    "J.java": ("// a job\npackage a.b;\n", "a Java program"),
    "g.gexf": ('<?xml version="1.0"?>\n<gexf xmlns="x"></gexf>', "a GEXF graph"),
    "g.json": ('{"elements": {"nodes": []}}', "a graph of Cytoscape"),
    "n.jsonl": (json.dumps(NODES[1]), "a node of a plan by itself"),
    "a.tgff": ("@TASK_GRAPH 0 {\n\tPERIOD 300\n\tTASK t0_0\tTYPE 1\n\tARC a0_0 FROM t0_0 TO t0_1 TYPE 2\n}\n",
               "task graphs of TGFF"),
    "c.tgff": ("# made by tgff\n@HYPERPERIOD 300\n@COMMUN_QUANT 0 {\n0 1\n}\n", "task graphs of TGFF"),
    "a.sdf3": ('<?xml version="1.0"?>\n<sdf3 type="sdf"><sdf name="a"/></sdf3>', "a graph of SDF3"),
    "flux.yaml": ('name: "t"\nspouts:\n  - id: "s"\nbolts:\n  - id: "b"\n', "a topology of Storm (Flux)"),
    "g.gml": ("graph [\n  directed 1\n  node [ id 0 ]\n]\n", "a GML graph"),
    "g.gdf": ("nodedef>name VARCHAR\na\nedgedef>node1,node2\na,b\n", "a graph of GUESS (GDF)"),
    "v.jsonl": ('{"id": 1, "label": "p", "outE": {}}', "a vertex of GraphSON"),
    "v.json": ('{"mode": "NORMAL", "vertices": [], "edges": []}', "(GraphSON)"),
    "t.json": ('{"id": 1, "children": [{"id": 2}]}', "a tree"),
    "m.mmd": ("flowchart LR\n  a --> b\n", "a Mermaid diagram"),
    "n.mmd": ("graph TD;\n  a{x} --> b;\n", "a Mermaid diagram"),
    "p.puml": ("@startuml\na --> b\n@enduml\n", "a PlantUML diagram"),
    "k.txt": ("Topologies:\n   Sub-topology: 0\n    Source: S (topics: [t])\n      --> P\n",
              "a topology of Kafka Streams"),
    "s.txt": ("== Physical Plan ==\n*(1) Project [id#0L]\n+- Scan ExistingRDD[id#0L]\n", "a plan of Spark"),
    "d.yaml": ("example:\n  default_args: {}\n  schedule_interval: '@daily'\n", "a DAG of Airflow"),
    "a.yaml": ("- a: 1\n  b: [2]\n- a: 2\n", "YAML that begins with '- a: 1'"),
    "w.xml": ("<workflow><task/></workflow>", "XML that begins with '<workflow>"),
    "r.plan": ("StreamMaterialize { columns: [a] }\n└─StreamTableScan {}\n", "a tree of a query's plan"),
    "l.txt": ("Project [a#0]\n+- Filter (a#0 > 1)\n   +- Relation [a#0] csv\n", "a tree of a query's plan"),
    "r.txt": ("(2) MapPartitionsRDD[3] at map at <console>:1 []\n |  x []\n", "a plan of Spark"),
    "g.txt": ("# made by hand\ngraph [\n  directed 1\n]\n", "a GML graph"),
    "k2.txt": ("Sub-topologies:\n  Sub-topology: 0\n    Source: S (topics: t)\n",
               "a topology of Kafka Streams"),
    "d.txt": ("c a comment\np sp 3 2\na 1 2 5\na 2 3 1\n", "a graph of DIMACS"),
    "x.dat": ("MTGX 1\nMTGX 2\n", "text that begins with 'MTGX 1'"),
    "a.bin": ("a\0b", "a binary file"),
    "o.json": ('{"a": 1, "b": []}', "an object with the keys a, b"),
}  # fmt: skip
READ = "DOT, GraphML, Pajek, edge lists"


@pytest.mark.parametrize("name", NO_JOBS)
def test_what_is_known_and_no_job_is_named_with_what_to_do(tmp_path, name):
    text, what = NO_JOBS[name]
    (tmp_path / name).write_text(text)
    code, _, said = run("import", tmp_path / name)
    assert code in (3, 7)
    assert what in said
    assert "hint: " in said
    assert said.count(what) == 1


@pytest.mark.parametrize("name", ["a.tgff", "a.yaml", "x.dat", "o.json"])
def test_a_refusal_names_what_is_read(tmp_path, name):
    (tmp_path / name).write_text(NO_JOBS[name][0])
    assert READ in run("import", tmp_path / name)[2]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"a": 1}', "an object with the keys a"),
        ('{"id": 1, "outE": {}}', "a vertex of GraphSON"),
        ("{a: 1}", "unexpected character"),
    ],
)
def test_objects_in_no_known_form_are_refused_once_for_a_file(tmp_path, line, what):
    (tmp_path / "a.jsonl").write_text(f"{line}\n" * 50)
    code, _, said = run("import", tmp_path / "a.jsonl")
    assert (code, said.count("refused: "), what in said) == (7, 1, True), said
    assert "a.jsonl, line 1: " in said
    assert "(and 49 more like it in the file)" in said
    assert "50 of 50" in said


def test_a_file_that_is_not_known_stops_no_other(tmp_path):
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "b.dot").write_text("digraph { a -> b }")
    (tmp_path / "c.dot").write_text("digraph { a -> ")
    code, written, said = run("import", tmp_path)
    assert (code, len(written.splitlines())) == (0, 1)
    assert f"refused: {tmp_path}/a.yaml: this is YAML" in said
    assert f"refused: {tmp_path}/c.dot, line 1, column 16" in said


def test_standard_input_is_read_whole_and_by_its_content(tmp_path):
    (tmp_path / "a.txt").write_text("digraph { a -> b }")
    for text in ("digraph { a -> b }", f"{json.dumps(networkx.node_link_data(GRAPH, edges='links'))}\n"):
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "import", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout)["config"]["penstock.import.file"] == "-"


GRAPHS_IN_JSON = {
    "vis.js": {"nodes": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}],
               "edges": [{"from": "b", "to": "a", "arrows": "from", "label": "hash"}]},
    "nodes and edges": {"nodes": [{"name": "A"}, {"name": "B"}],
                        "links": [{"source": 0, "target": 1, "partitioner": "hash"}]},
    "cytoscape": {"elements": [{"data": {"id": "a", "name": "A"}}, {"data": {"id": "b", "label": "B"}},
                               {"data": {"source": "a", "target": "b", "partitioner": "HASH"}}]},
    "json-graph": {"graph": {"nodes": {"a": {"label": "A"}, "b": {"label": "B"}},
                             "edges": [{"source": "a", "target": "b", "label": "hash"}]}},
    "adjacency": {"directed": True, "graph": [], "nodes": [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}],
                  "adjacency": [[{"id": 2, "partitioner": "hash"}], []]},
    "arroyo": {"nodes": [{"nodeId": 0, "operator": "x", "description": "A", "parallelism": 2},
                         {"nodeId": 1, "operator": "y", "description": "B", "parallelism": 2}],
               "edges": [{"srcId": 0, "destId": 1, "edgeType": "Shuffle"}]},
}  # fmt: skip


@pytest.mark.parametrize("form", GRAPHS_IN_JSON)
def test_graphs_in_json(tmp_path, form):
    (tmp_path / "a.json").write_text(json.dumps(GRAPHS_IN_JSON[form], indent=1))
    (topology,) = imported(tmp_path / "a.json")
    assert topology["config"]["penstock.import.form"] == form
    assert operators(topology) == [("source", "A", []), ("sink", "B", ["A hash"])]


def test_an_edge_of_arroyo_that_flink_would_refuse_is_left_to_flink(tmp_path):
    document = json.loads(json.dumps(GRAPHS_IN_JSON["arroyo"]))
    document["edges"][0]["edgeType"] = "Forward"
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert operators(imported(tmp_path / "a.json")[0])[1] == ("sink", "B", ["A forward"])
    document["nodes"][1]["parallelism"] = 1
    (tmp_path / "a.json").write_text(json.dumps(document))
    (topology,) = imported(tmp_path / "a.json")
    assert operators(topology)[1] == ("sink", "B", ["A"])
    assert "edge attribute edgeType" in topology["config"]["penstock.import.ignored"]


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ('[{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]', 2),
        ('[{"data": {"id": "a"}}, {"data": {"id": "b"}}, {"data": {"source": "a", "target": "b"}}]', 1),
        ('{"links": [{"source": "a", "target": "b"}]}', 1),
        ('{"nodes": ["a", "b"], "edges": [["a", "b"]]}', 1),
        ('{"edges": [["a", "b"], ["b", "c"]]}', 2),
        ('{"nodes": {"a": {"parallelism": 2}, "b": {}}, "edges": [{"from": "a", "to": "b"}]}', 1),
        ('{"nodes": [{"id": 5}, {"id": 7}], "links": [{"source": {"id": 5}, "target": {"id": 7}}]}', 1),
    ],
)
def test_shapes_of_graphs_in_json(tmp_path, text, edges):
    (tmp_path / "a.json").write_text(text)
    (topology,) = imported(tmp_path / "a.json")
    assert sum(len(reads) for _, _, reads in operators(topology)) == edges


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}, "'2', which no node has as its id"),
        ({"nodes": [{"id": 1}, {"id": 1}], "links": [{"source": 1, "target": 1}]}, "2 nodes of this id"),
        ({"nodes": [{"id": 1}], "edges": [{"begin": 1, "end": 1}]}, "edges with the keys begin, end"),
        ({"nodes": [{"name": "a"}], "links": [{"source": 0, "target": 7}]}, "'the node at 7'"),
        ({"directed": False, "nodes": [{"id": 1}], "links": []}, "an undirected graph"),
        ({"nodes": [{"id": 1}], "links": []}, "1 node and no edge"),
        (
            {"parts": [{"id": 1}], "links": [{"source": 1, "target": 2}]},
            "an object with the keys parts, links",
        ),
    ],
)
def test_what_is_wrong_with_a_graph_in_json(tmp_path, document, says):
    (tmp_path / "a.json").write_text(json.dumps(document))
    code, written, said = run("import", tmp_path / "a.json")
    assert (code, written) == (7, "")
    assert says in said


PAJEK = '*Network n\n% made by hand\n*Vertices 3\n1 "a b" 0.1 0.2 box\n2 c\n*{}\n1 2 1.0 l hash\n2 3 2\n'


def test_pajek(tmp_path):
    (tmp_path / "a.net").write_text(PAJEK.format("arcs"))
    (topology,) = imported(tmp_path / "a.net")
    assert (topology["name"], topology["config"]["penstock.import.form"]) == ("n", "pajek")
    assert operators(topology) == [
        ("source", "a b", []), ("one_input", "c", ["a b hash"]), ("sink", "3", ["c"])
    ]  # fmt: skip
    assert topology["config"]["penstock.import.ignored"] == (
        "comments '% made by hand'; edge attribute weight; looks (place, shape)"
    )
    (tmp_path / "a.net").write_text(
        "*VERTICES 3\n1 a\n2 b\n3 c\n*Arcslist\n1 2 3\n*matrix\n0 0 0\n0 0 1\n0 0 0\n"
    )
    (topology,) = imported(tmp_path / "a.net")
    assert operators(topology)[-1] == ("sink", "c", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PAJEK.format("edges"), "an undirected graph"),
        (PAJEK.format("partition"), "line 6: found the section '*partition'"),
        (PAJEK.format("arcs") + "3 4\n", "line 9: found vertex '4'; allowed: a number from 1 to 3"),
        (PAJEK.format("arcs") + "2 3 1 l\n", "line 9: found 'l'; allowed: pairs"),
        (PAJEK.format("matrix"), "line 7: found 'l'; allowed: a number of the matrix"),
        ("*Vertices 2\n*Matrix\n0 1.2.3\n", "line 3: found '1.2.3'; allowed: a number of the matrix"),
        (f"*Vertices {'9' * 5_000}\n", "line 1: found '*Vertices 99"),
        (f"*Vertices 2\n{'9' * 5_000} a\n", "line 2: found vertex '99"),
    ],
)
def test_what_is_wrong_in_pajek(tmp_path, text, says):
    (tmp_path / "a.net").write_text(text)
    code, _, said = run("import", tmp_path / "a.net")
    assert (code in (3, 7), says in said) == (True, True), said


DAGGEN = """// DAG automatically generated by daggen
NODE_COUNT 4
NODE 0 1,2 ROOT 0.0 0.0
NODE 1 3 COMPUTATION 68719476736 0.06
NODE 2 3 TRANSFER 33554432 0.0
NODE 3 - END 0.0 0.0
"""


def test_daggen(tmp_path):
    (tmp_path / "a.txt").write_text(DAGGEN)
    (topology,) = imported(tmp_path / "a.txt")
    assert operators(topology) == [
        ("source", "root 0", []),
        ("one_input", "computation 1", ["root 0"]),
        ("one_input", "transfer 2", ["root 0"]),
        ("sink", "end 3", ["computation 1", "transfer 2"]),
    ]
    (tmp_path / "a.txt").write_text(DAGGEN.replace("NODE 2", "NODES 2"))
    assert "line 5: found 'NODES 2" in run("import", tmp_path / "a.txt")[2]
    (tmp_path / "a.txt").write_text(DAGGEN.replace("NODE_COUNT 4", "NODE_COUNT 5").replace("1,2", "1,7"))
    assert "'7', which no node has as its id" in run("import", tmp_path / "a.txt")[2]


def test_dependencies_of_alibaba_that_are_not_there_are_listed(tmp_path):
    rows = "{0},3,j_1,1,Terminated,1,2,100,0.5\n"
    (tmp_path / "a.csv").write_text("".join(map(rows.format, ("M1", "R2_1_9", "R2_1", "J3_2"))))
    (topology,) = imported(tmp_path / "a.csv")
    assert topology["config"]["penstock.import.ignored"].startswith(
        "dependencies on missing tasks: 9 of 'R2_1_9'; "
    )
    assert "restarts of 'R2_1'" in topology["config"]["penstock.import.ignored"]


def test_stages_and_numbers_of_instances_of_alibaba(tmp_path):
    rows = "{0},{1},j_1,1,Terminated,1,2,100,0.5\n"
    tasks = (("M1", 3), ("R2_1_Stg4", "\u00b2"), ("J3_2", "9" * 5_000))
    (tmp_path / "a.csv").write_text("".join(rows.format(*task) for task in tasks))
    (topology,) = imported(tmp_path / "a.csv")
    assert [reads for _, _, reads in operators(topology)] == [[], ["M1"], ["R2_1_Stg4"]]
    assert [one.get("parallelism") for one in topology["transformations"]] == [3, None, None]
    ignored = topology["config"]["penstock.import.ignored"]
    assert "stages of 'R2_1_Stg4'" in ignored
    assert "node attribute instance_num" in ignored


def test_explain_loses_no_edge(tmp_path):
    (tmp_path / "a.txt").write_text(EXPLAIN.replace("(reuse_id=[1])", "").replace("(reuse_id=[1])", ""))
    code, _, said = run("import", tmp_path / "a.txt")
    assert (code, "no operator has reuse_id=[1]" in said) == (3, True)
    (tmp_path / "a.txt").write_text(EXPLAIN.replace("[single]", "[range[a]]"))
    (topology,) = imported(tmp_path / "a.txt")
    assert "Exchange'(distribution=[range[a]])'" in topology["config"]["penstock.import.ignored"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DAX.replace("?>", ' encoding="UTF-88"?>', 1), "unknown encoding: UTF-88"),
        (DAX.replace("<adag", '<!DOCTYPE a [<!ENTITY x "y">]><adag'), "entities"),
        (STG.replace("1 5 1 0", "1 5 1 9"), "line 3"),
        (STG.replace("0 0 0\n", "0 0 \u00b2\n"), "which is in no known form"),
        (
            DAGGEN.replace("NODE_COUNT 4", f"NODE_COUNT {'9' * 5_000}").replace("1,2", "1,7"),
            "'7', which no node",
        ),
        (ALIBABA.replace(",0.5\nR", "\nR"), "line 1"),
        (PEGASUS.replace("id: ID1, name", "name"), "Pegasus"),
    ],
)
def test_what_is_wrong_in_them_is_said_with_its_place(tmp_path, text, said):
    (tmp_path / "wrong").write_text(text)
    code, _, beside = run("import", tmp_path / "wrong")
    assert code in (3, 7)
    assert said in beside


def test_an_empty_task_graph_is_wrong_in_its_first_line():
    with pytest.raises(InputError, match="empty, line 1: found no whole numbers"):
        read_stg("", "empty", "empty")


def test_other_commands_say_that_import_takes_them(tmp_path):
    (tmp_path / "info.txt").write_text(INFO)
    code, _, said = run("show", tmp_path / "info.txt")
    assert code == 3
    assert "penstock import" in said


def test_every_importer_has_a_reader_and_a_form_of_its_own():
    for importer in IMPORTERS:
        module, _, function = importer.reader.partition(":")
        assert callable(getattr(import_module(f"penstock.plans.importing.{module}"), function)), importer
        assert importer.begins or importer.takes or importer.endings, importer
    assert len({importer.form for importer in IMPORTERS}) == len(IMPORTERS)


def test_a_record_is_all_that_an_importer_needs(tmp_path, monkeypatch):
    """It is recognised, read, noted and named by other commands."""

    def read(text, file, name):
        ends = [line.split("/") for line in text.splitlines()[1:]]
        nodes = [GivenNode(key, {}) for key in sorted({key for edge in ends for key in edge})]
        return GivenGraph(name, nodes, [GivenEdge(source, target, {}) for source, target in ends])

    monkeypatch.setattr("penstock.plans.importing.read_pajek.read_slashes", read, raising=False)
    slashes = Importer("slashes", "slashes", "read_pajek:read_slashes", lambda text: text.startswith("@/"))
    monkeypatch.setattr("penstock.plans.importing.importers.IMPORTERS", (*IMPORTERS, slashes))
    (tmp_path / "graph.any").write_text("@/\na/b\nb/c\n")
    code, lines, beside = run("import", tmp_path / "graph.any")
    assert (code, len(json.loads(lines)["transformations"])) == (0, 3)
    assert "1 topology imported from slashes" in beside
    code, _, said = run("show", tmp_path / "graph.any")
    assert (code, "got a graph" in said) == (3, True)
