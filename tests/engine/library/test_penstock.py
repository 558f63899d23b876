"""`import penstock` as users write it: what is allowed, what comes back, and what is said of wrong calls."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
import penstock.plans.errors
from penstock.plans.tables import TABLES
from penstock.plans.topology.topologies_of_lines import topology_id
from tests.plans.topology.builders import simple

EVERY_KEY = simple("every", parallelism=3, max_parallelism=64, chaining=False, config={"a.b": "c"})
EVERY_KEY["transformations"][1] |= {"managed_memory": {"OPERATOR": 5}, "uid": "u", "parallelism": 2}
GIVEN = [simple("a"), EVERY_KEY]
WRONG = simple("wrong", paralelism=1)


def rows(plan: penstock.Plan, *left_out: str) -> dict[str, list[dict[str, object]]]:
    """All rows of all tables, in an order of their own."""
    return {
        name: sorted(table.drop_columns([*left_out] if name == "topologies" else []).to_pylist(), key=repr)
        for name, table in plan.tables.items()
    }


def transformations_of(topologies: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows of two frames' second: each knows its topology by name."""
    return [{"topology": t["name"], **row} for t in topologies for row in t["transformations"]]  # type: ignore


def topologies_of(topologies: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in t.items() if key != "transformations"} for t in topologies]


EXPECTED = rows(penstock.plan(GIVEN))
TWO = (topologies_of(GIVEN), transformations_of(GIVEN))
FORMS = {
    "one after the other": lambda: "\n".join(json.dumps(t, indent=2) for t in GIVEN),
    "array": lambda: json.dumps(GIVEN, indent=1),
    "bytes": lambda: json.dumps(GIVEN).encode(),
    "list of texts": lambda: [json.dumps(t) for t in GIVEN],
    "dict and text": lambda: [GIVEN[0], json.dumps(GIVEN[1])],
    "generator": lambda: (t for t in GIVEN),
    "polars rows": lambda: pl.DataFrame(GIVEN),
    "lazy rows": lambda: pl.LazyFrame(GIVEN),
    "pandas rows": lambda: pd.DataFrame(GIVEN),
    "arrow rows": lambda: pl.DataFrame(GIVEN).to_arrow(),
    "arrow batch": lambda: pl.DataFrame(GIVEN).to_arrow().combine_chunks().to_batches()[0],
    "two of polars": lambda: tuple(pl.DataFrame(frame) for frame in TWO),
    "two of pandas": lambda: [pd.DataFrame(frame) for frame in TWO],
    "two of arrow": lambda: tuple(pl.DataFrame(frame).to_arrow() for frame in TWO),
    "two kinds": lambda: (pd.DataFrame(TWO[0]), pl.DataFrame(TWO[1])),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_topologies_are_taken_in_every_form(form):
    found = penstock.plan(FORMS[form]())
    assert (found.inputs, found.planned, found.rejected) == (2, 2, 0), found.tables["rejected"].to_pylist()
    # The fingerprint is of a topology as it was written, with or without empty names.
    assert rows(found, "fingerprint") == rows(penstock.plan(GIVEN), "fingerprint")


@pytest.mark.parametrize("indent", [None, 2])
def test_paths_are_read_and_wrong_topologies_are_rows(tmp_path, indent):
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps([*GIVEN, WRONG], indent=indent))
    for given in (path, str(path), [path], f"{tmp_path}/*.json"):
        found = penstock.plan(given)
        assert (found.inputs, found.planned, found.rejected) == (3, 2, 1)
        assert found.tables["rejected"]["error"].to_pylist() == ["UnknownKey"]


def test_one_topology_is_a_dict_or_a_text():
    for given in (simple("a"), json.dumps(simple("a")), json.dumps(simple("a"), indent=4)):
        assert penstock.plan(given).tables["topologies"]["name"].to_pylist() == ["a"]


def test_integers_may_have_any_width_if_they_fit():
    topologies = pa.table({"name": ["a"], "parallelism": pa.array([3], pa.uint8())})
    columns = {"topology": ["a", "a"], "id": [1, 2], "kind": ["source", "sink"], "inputs": [[], [1]]}
    narrow = {"id": pa.array([1, 2], pa.int8()), "inputs": pa.array([[], [1]], pa.list_(pa.uint64()))}
    expected = rows(penstock.plan((topologies, pa.table(columns))))
    assert rows(penstock.plan((topologies, pa.table(columns | narrow)))) == expected
    with pytest.raises(penstock.SchemaError, match=r"column id: integers exceed the type int"):
        penstock.plan((topologies, pa.table(columns | {"id": [1, 2**40]})))


@pytest.mark.parametrize("of", [pa.table, pl.DataFrame])
def test_a_topology_that_only_transformations_name_is_rejected_by_its_name(of):
    columns = {"topology": ["a", "a", "zz", "é"], "id": [1, 2, 1, 1], "inputs": [[], [1], [], []]}
    operators = of({**columns, "kind": ["source", "sink", "source", "source"]})
    found = penstock.plan((of({"name": ["a"], "parallelism": [2]}), operators))
    assert (found.inputs, found.planned, found.rejected) == (3, 1, 2)
    rejected = found.tables["rejected"].select(["topology_id", "name", "error", "message"]).to_pylist()
    assert [row["topology_id"] for row in rejected] == [topology_id("zz"), topology_id("é")]
    assert [(row["name"], row["error"]) for row in rejected] == [("zz", "NoTopology"), ("é", "NoTopology")]
    assert rejected[0]["message"] == (
        "topology: found transformations of topology zz; allowed: a name in topologies; hint: add a row with "
        "this name to topologies, or correct the name in transformations"
    )


def test_a_layer_is_a_member_or_its_name():
    found = [penstock.plan(simple("a"), until=until) for until in (penstock.Layer.JOB_GRAPH, "job_graph")]
    assert [sorted(plan.tables) for plan in found] == [sorted(found[0].tables)] * 2
    assert "job_vertices" in found[0].tables
    assert "execution_vertices" not in found[0].tables
    assert len(penstock.plan([simple("a"), WRONG], until="topology").tables["rejected"]) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, "got int 5"),
        (None, "got NoneType"),
        ([5], "got int 5"),
        ("", "the path ''"),
        ("nowhere.jsonl", "no such file"),
        (["nowhere.jsonl", {"name": "a"}], "paths and dict"),
        ("[{}", "an array that is not closed"),
        (pl.DataFrame({"a": [1]}), "got a"),
        (pl.DataFrame({"name": ["a"], "kind": ["source"]}), "two frames"),
        ([pl.DataFrame({"a": [1]})] * 3, "3 items"),
        ((pl.DataFrame({"name": ["a"]}), 5), "2 items"),
        (pd.DataFrame({"name": ["a"], "transformations": [5]}), None),
        (
            (pl.DataFrame({"name": ["a"]}), pl.DataFrame({"id": [1]})),
            "names the topology is missing",
        ),
        (pl.Series([1]), "got int 1"),
        (
            (pl.DataFrame({"name": ["a"]}), pl.DataFrame({"topology": ["a", None]})),
            "in each row, got None",
        ),
    ],
)
def test_what_is_no_topologies_is_said_with_what_is_allowed(given, said):
    if said is None:
        assert penstock.plan(given).rejected == 1
        return
    with pytest.raises(penstock.InputError, match=said) as raised:
        penstock.plan(given)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("argument", "allowed"),
    [
        ({"until": "slot"}, "topology, stream_graph, job_graph, execution_graph, slots"),
        ({"until": 3}, "job_graph"),
        ({"planner": "sparc"}, "auto, process, workers, blocks, joins, columnar, flink"),
        ({"spark": 5}, "a SparkSession"),
        ({"slot_sharing": "x"}, "local-input-preferred, task-balanced-preferred"),
        ({"network": "flink-1"}, "flink-2.3, flink-1.20"),
        ({"slots_per_task_manager": 0}, "a whole number from 1"),
        ({"slots_per_task_manager": True}, "a whole number from 1"),
        ({"task_manager_memory": 4}, "a string such as '1728m'"),
        ({"task_manager_memory": "1x"}, "memory unit"),
        ({"max_line_bytes": "1m"}, "a whole number"),
    ],
)
def test_wrong_arguments_are_said_with_what_is_allowed(argument, allowed):
    with pytest.raises(penstock.ConfigurationError, match=allowed.replace(".", r"\.")):
        penstock.plan(simple("a"), **argument)


@pytest.mark.slow
def test_plans_are_written_and_read_again(tmp_path):
    store = tmp_path / "store"
    made = penstock.plan([*GIVEN, WRONG])
    first, again = made.write(store), made.write(str(store))
    assert (first, first.unchanged, repr(first)) == (1, False, "1")
    assert (again, again.unchanged, repr(again)) == (1, True, "1 (unchanged)")
    opened = penstock.open_store(store)
    assert [(v.number, v.topologies, v.rejected) for v in opened.versions] == [(1, 2, 1)]
    read = penstock.read_plan(opened)
    assert rows(read) == rows(made)
    assert list(read.tables) == list(made.tables) == [name for name in TABLES if name in made.tables]
    of_one = penstock.read_plan(store, 1, topology="wrong")
    assert (of_one.planned, of_one.rejected, len(of_one.tables["stream_nodes"])) == (0, 1, 0)
    assert read.write(tmp_path / "copy") == 1
    penstock.plan(simple("b"), until="job_graph").write(opened)
    assert len(penstock.open_store(store).versions) == 2
    assert penstock.read_plan(store, 1).inputs == 3
    for wrong in (lambda: penstock.read_plan(store, 9), lambda: penstock.read_plan(store, topology="no")):
        with pytest.raises(penstock.StoreError):
            wrong()
    with pytest.raises(penstock.StoreError, match="not a plan store"):
        penstock.open_store(tmp_path)
    wrong_stores: tuple[Any, ...] = (5, "")
    for argument in wrong_stores:
        with pytest.raises(penstock.ConfigurationError, match="a path"):
            penstock.open_store(argument)
    with pytest.raises(penstock.ConfigurationError, match="whole number"):
        penstock.read_plan(store, cast("Any", "1"))


def test_a_table_that_is_not_there_is_said_with_those_that_are():
    tables = penstock.plan(simple("a"), until="stream_graph").tables
    with pytest.raises(penstock.ConfigurationError, match=r"must be one of topologies, .*, got 'slots'"):
        tables["slots"]  # type: ignore[index]
    assert tables.get("job_edges") is None
    assert "slots" not in tables


def test_objects_show_themselves_shortly_and_escaped(tmp_path):
    store = tmp_path / "<script>"
    made = penstock.plan(simple("<script>\x1b[31m"))
    made.write(store)
    for shown in (made, made.tables, penstock.open_store(store), penstock.read_plan(store)):
        assert len(repr(shown)) < 1_000
        assert "\x1b" not in repr(shown)
        html = getattr(shown, "_repr_html_", str)()
        assert "<script>" not in html
        assert "\x1b" not in html
    assert "1 planned, 0 rejected of 1" in repr(made)
    assert "<td>stream_nodes</td><td>3</td>" in made._repr_html_()


def test_the_module_has_its_public_names_and_no_others():
    assert dir(penstock) == sorted(penstock.__all__)
    assert len(dir(penstock)) < 40
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    source = ast.parse(Path(penstock.__file__).read_text(encoding="utf-8"))
    froms = (node for node in ast.walk(source) if isinstance(node, ast.ImportFrom))
    known = {alias.asname for node in froms for alias in node.names}
    assert known - {None} == set(penstock.__all__)  # what type checkers read
    known_errors = dir(import_module("penstock.plans.errors"))
    raised = {name for name in known_errors if name.endswith("Error")} - {"TopologyError"}
    assert raised == set(penstock.errors.__all__)
    assert issubclass(penstock.errors.InputError, penstock.PenstockError)
    with pytest.raises(AttributeError, match=r"it has .*plan"):
        penstock.planned  # noqa: B018


def fresh(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_importing_is_quick_and_planning_needs_neither_spark_nor_pandas(tmp_path):
    code = (
        "import sys, time; started = time.process_time()\n"
        "import penstock; took = time.process_time() - started\n"
        "assert took < 0.3, took\n"
        "def loaded(*names): return {name.split('.')[0] for name in sys.modules} & set(names)\n"
        "assert not loaded('polars', 'pyarrow')\n"
        f"planned = penstock.plan({json.dumps(simple('a'))!r})\n"
        "repr(planned), planned._repr_html_(), penstock.plan([{'name': 'b'}])\n"
        "import polars\n"
        "rows = [{'id': 1, 'kind': 'source', 'inputs': []}]\n"
        "frame = polars.DataFrame([{'name': 'a', 'transformations': rows}])\n"
        "penstock.plan(frame)\n"
        "assert not loaded('pyspark', 'py4j', 'delta', 'pandas')\n"
        "print('done')"
    )
    assert fresh(code, tmp_path) == "done\n"


def test_folders_of_ones_own_may_have_the_names_of_packages(tmp_path):
    for name in ("engine", "operators", "plans"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWN = True")
    code = (
        "import engine, operators, plans, penstock\n"
        f"penstock.plan({json.dumps(simple('a'))!r})\n"
        "print(engine.OWN, operators.OWN, plans.OWN)"
    )
    assert fresh(code, tmp_path) == "True True True\n"
