"""Files that are told by what is in them, whatever they are called, and things that are known and no jobs."""

import json

import networkx
import pytest

from penstock.plans.errors import InputError
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
}


@pytest.mark.parametrize("name", NO_JOBS)
def test_what_is_known_and_no_job_is_named_with_what_to_do(tmp_path, name):
    text, what = NO_JOBS[name]
    (tmp_path / name).write_text(text)
    code, _, said = run("import", tmp_path / name)
    assert code in (3, 7)
    assert what in said
    assert "hint: " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DAX.replace("?>", ' encoding="UTF-88"?>', 1), "unknown encoding: UTF-88"),
        (DAX.replace("<adag", '<!DOCTYPE a [<!ENTITY x "y">]><adag'), "entities"),
        (STG.replace("1 5 1 0", "1 5 1 9"), "line 3"),
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
