"""Scripts without running them, against the StreamGraphs that the real PyFlink 2.3.0 submitted.

`api_calls.txt` has a function for each method of the API and each rule of PyFlink's fusing, which was run in
STREAMING, BATCH and AUTOMATIC mode, in threads, and with python.operator-chaining.enabled=false
(`capture_graphs.py` captures the graphs anew). The graphs
of `case_graphs.jsonl.gz` are those of tests/pyflink/cases.txt, with `print` and `execute` as the end, and
their JobGraphs. Ids are counted from the first transformation of a script.
"""

import ast
import contextlib
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.engine.library.run_script import jobs_of_script
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.run.lowering.transformations import topology_of
from penstock.engine.run.runtime.run_context import EnvironmentSettings
from penstock.plans.errors import PenstockError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import LAYER_TABLES, PlanOptions
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.vocabulary import Layer

HERE = Path(__file__).parent
PYFLINK = HERE.parents[2] / "pyflink"
#: Flink's verdict, which planning finds out itself.
LEFT_OUT = {"chainable"}


def captured(file):
    with gzip.open(HERE / file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


API_RUNS = captured("graphs.jsonl.gz")
CASE_RUNS = captured("case_graphs.jsonl.gz")


def api_scripts():
    """A script for each function of api_calls.txt without the others, which take long to compile."""
    text = (HERE / "api_calls.txt").read_text(encoding="utf-8")
    begin, main, end = text.partition('if __name__ == "__main__":\n')
    lines = begin.splitlines(keepends=True)
    cases = {}
    for node in reversed(ast.parse(begin).body):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            place = slice(node.decorator_list[0].lineno - 1, node.end_lineno)
            cases[node.name] = "".join(lines[place])
            del lines[place]
    return {name: "".join([*lines, case, main, end]) for name, case in cases.items()}


def jobs(script, arguments, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        return jobs_of_script(str(path), arguments, EnvironmentSettings())


def failure_of(script, arguments, tmp_path):
    """What a run that PyFlink refuses ends with here."""
    try:
        return jobs(script, arguments, tmp_path).failure
    except PenstockError as error:
        return error


def comparable(graph):
    by_key = {
        "nodes": {row["id"]: {**row, "slot_scope": sorted(row["slot_scope"])} for row in graph["nodes"]},
        "edges": {
            row["edge_id"]: {key: value for key, value in row.items() if key not in LEFT_OUT}
            for row in graph["edges"]
        },
    }
    settings = {key: value for key, value in graph.items() if key != "partitioners_compared"}
    return {**settings, **by_key, "sources": sorted(graph["sources"]), "sinks": sorted(graph["sinks"])}


def as_captured(job):
    """The job's graph with the keys of a captured one."""
    lowered = job.lowered.submitted
    graph = comparable(lowered.stream_graph)
    for node, given in graph["nodes"].items():
        row = {key: value for key, value in given.items() if key != "description"}
        description = lowered.physical[node].description
        if description not in (None, row["name"]):
            row["description"] = description
        graph["nodes"][node] = row
    return graph


def numbered(graph, known):
    """The graph with numbers for the ids of cached data sets, which Flink draws at random."""
    for row in [*graph["nodes"].values(), *graph["edges"].values()]:
        for key in {"persistent_data_set", "consumes_data_set"} & row.keys():
            row[key] = known.setdefault(row[key], len(known))
    return graph


def without_unknown_keys(graph, wanted):
    """Only the keys that were captured."""
    rows = {key: wanted[key] for key in ("nodes", "edges")}
    return {
        **{key: graph[key] for key in wanted if key not in rows},
        **{
            key: {
                name: {k: v for k, v in row.items() if k in rows[key].get(name, row) or k == "description"}
                for name, row in graph[key].items()
            }
            for key in rows
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("options", sorted({tuple(run["run"][1:]) for run in API_RUNS}))
def test_every_call_is_submitted_as_pyflink_submits_it(options, tmp_path):
    """And the topology of every job is planned to the same plan when it is exported and read again."""
    topologies: list[dict[str, Any]] = []
    by_name = api_scripts()
    runs = [run for run in API_RUNS if tuple(run["run"][1:]) == options]
    assert runs
    for run in runs:
        arguments = run["run"]
        script = by_name[arguments[0]]
        if run["refused"]:
            assert failure_of(script, arguments, tmp_path) is not None, arguments
            continue
        found = jobs(script, arguments, tmp_path)
        assert found.failure is None, (arguments, found.failure)
        names = [name or job.name for job, (name, _) in zip(found.jobs, run["graphs"], strict=True)]
        assert [job.name for job in found.jobs] == names, arguments
        data_sets: dict[str, int] = {}
        own_data_sets: dict[str, int] = {}
        for job, (_, graph) in zip(found.jobs, run["graphs"], strict=True):
            wanted, own = comparable(graph), as_captured(job)
            assert numbered(own, own_data_sets) == numbered(wanted, data_sets), arguments
            topologies.append({**topology_of(job), "name": f"{job.name} {len(topologies)}"})
    assert_same_after_export(topologies)


def assert_same_after_export(topologies):
    planned = planned_frames(topologies)
    lines = to_topology_lines(planned)
    again = planned_frames([json.loads(line) for line in lines["line"]])
    assert lines.height + planned["rejected"].height == len(topologies)
    assert again["rejected"].is_empty()
    for table in ("topologies", "transformations", *LAYER_TABLES[Layer.STREAM_GRAPH], "chained_operators"):
        assert comparable_rows(planned[table]).equals(comparable_rows(again[table])), table


def planned_frames(topologies):
    tables = plan_in_process(topologies, PlanOptions(Layer.JOB_GRAPH)).tables
    return {name: from_arrow(table) for name, table in tables.items()}


def comparable_rows(rows):
    maps = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Map)]
    rows = rows.drop("source_file", "source_line", strict=False)
    return rows.with_columns(pl.col(name).map.entries() for name in maps).sort(*rows.columns[:2], pl.all())


def scripts():
    prologue, epilogue = (PYFLINK / "prologue.txt").read_text(), (PYFLINK / "epilogue.txt").read_text()
    end = 'with out.execute_and_collect("case") as results:'
    before, _, _ = epilogue.partition(end)
    assert before != epilogue
    epilogue = f"{before}out.print()\n        env.execute(sys.argv[3])\n"
    return {
        part.split("|")[0].strip(): prologue + part.split("\n", 1)[1].rstrip() + "\n" + epilogue
        for part in re.split(r"^### ", (PYFLINK / "cases.txt").read_text(), flags=re.MULTILINE)[1:]
    }


def test_all_cases_are_submitted_as_pyflink_submits_them(tmp_path):
    by_name = scripts()
    topologies, wanted = [], {}
    for run in CASE_RUNS:
        ((name, graph),) = run["graphs"]
        (job,) = jobs(by_name[run["run"][0]], [*run["run"][1:], name], tmp_path).jobs
        expected = comparable(graph)
        for row in expected["nodes"].values():
            row["description"] = job.lowered.submitted.physical[row["id"]].description
            if row["description"] in (None, row["name"]):
                del row["description"]
        assert without_unknown_keys(as_captured(job), expected) == expected, name
        topologies.append(topology_of(job))
        wanted[name] = run["job_graph"]
    tables = plan_in_process(topologies, PlanOptions(Layer.JOB_GRAPH)).tables
    lines = to_plan_lines({name: from_arrow(table) for name, table in tables.items()})["line"]
    found = {plan["name"]: plan["job_graph"] for plan in map(json.loads, lines)}
    for name, graph in wanted.items():
        if name == "sum_min_max.BATCH.1" and "equal_partitioner" in LEFT_OUT:
            continue
        assert operators(found[name]) == operators(graph), name
        assert found[name]["topological_order"] == graph["topological_order"], name


def operators(graph):
    keys = ("name", "parallelism", "max_parallelism", "invokable", "operator_ids")
    of_operator = ("operator_id", "name", "chain_index")
    return {
        vertex["id"]: (
            *(vertex[key] for key in keys),
            [(output["type"], output["consumers"]) for output in vertex["outputs"]],  # ids follow from nodes'
            sorted(
                (*(operator[key] for key in of_operator), sorted(operator["managed_memory_fraction"].items()))
                for operator in vertex["operators"]
            ),
        )
        for vertex in graph["vertices"]
    }
