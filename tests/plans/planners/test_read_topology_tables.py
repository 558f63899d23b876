"""Given tables: the same rows, fingerprints, refusals and errors as objects and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from penstock.plans.errors import InputError, SchemaError
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.frames.spark_schemas import spark_type
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.tables.column_types import RESOURCES, TOPOLOGY
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.read_topology_tables import read_topology_tables
from penstock.plans.topology.topologies_of_lines import TopologyTables, topology_id
from tests.plans.planners.table_contents import frame_contents
from tests.plans.planners.test_read_topologies import COLLIDING
from tests.plans.topology.builders import every_setting, golden_lines, simple, transformation

Tables = tuple[pa.Table, pa.Table]
_LOOSE = {"inputs": pa.list_(pa.int32()), "names": pa.list_(pa.string())}


def as_tables(given: list[dict[str, Any]]) -> Tables:
    """Valid topologies as the tables that hold them."""
    tables = read_topologies(given)
    assert tables.rejected.is_empty()
    return to_arrow(tables.topologies, "topologies"), to_arrow(tables.transformations, "transformations")


def changed(rows: pa.Table, topology: str, id_: int, **columns: Any) -> pa.Table:
    """`rows` with other values in one row."""
    found = rows.to_pylist()
    (row,) = (row for row in found if (row[TOPOLOGY], row["id"]) == (topology_id(topology), id_))
    row |= columns
    return with_rows(rows, found)


def with_rows(table: pa.Table, rows: list[dict[str, Any]]) -> pa.Table:
    """A table of the same columns, whose values may be null."""
    fields = [pa.field(field.name, _LOOSE.get(field.name, field.type)) for field in table.schema]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def written(folder: Path, tables: Tables, kind: str = "parquet") -> Path:
    """A folder with both tables, rows of transformations in several files and out of order."""
    for name, table in zip(("topologies", "transformations"), tables, strict=True):
        (folder / name).mkdir(parents=True)
        parts = [table] if name == "topologies" else [table.slice(1), table.slice(0, 1)]
        for number, part in enumerate(parts):
            if kind == "delta":
                write_deltalake(folder / name, part, mode="append")
            else:
                pq.write_table(part, folder / name / f"part-{number}.parquet")
    return folder


def test_right_tables_in_delta_and_parquet(tmp_path: Path):
    given = [
        line["topology"]
        for line in golden_lines(4)
        if "transformations" in line["topology"] and line["expected"].get("error_stage") != "stream_graph"
    ]
    chain = [transformation(1, "source")]
    chain += [transformation(i, inputs=[i - 1]) for i in range(2, 2 * BLOCK + 1)]
    unbounded = simple("unbounded", config={"execution.runtime-mode": "automatic"})
    unbounded["transformations"][0]["kind"] = "legacy_source"
    given += [every_setting(), simple("batch", config={"execution.runtime-mode": "AUTOMATIC"}), unbounded]
    given += [{"name": "chain", "transformations": chain}]
    expected = frame_contents(read_topologies(given))
    assert any('"BATCH"' in row for row in expected["job_settings"])
    for kind in ("parquet", "delta"):
        found = read_topologies(written(tmp_path / kind, as_tables(given), kind))
        assert found.inputs == len(given)
        assert frame_contents(found) == expected


def test_delta_tables_with_deletion_vectors(spark: SparkSession, tmp_path: Path):
    for name, table in zip(
        ("topologies", "transformations"), as_tables([simple("a"), simple("b"), simple("c")]), strict=True
    ):
        path = str(tmp_path / name)
        writer = spark.createDataFrame(table).coalesce(1).write.format("delta")
        writer.option("delta.enableDeletionVectors", "true").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE topology_id = xxhash64('b')")
    assert sorted(read_topologies(tmp_path).topologies["name"]) == ["a", "c"]


WITH_WRONG_ROWS = [
    *("dangling", "forward", "cycle", "kind", "value", "range", "key", "missing", "option", "batch"),
    *("null", "nan", "order", "fine"),
]


def with_wrong_rows() -> Tables:
    given = [simple(name) for name in WITH_WRONG_ROWS]
    given[9]["config"] = {"execution.runtime-mode": "BATCH"}
    topologies, rows = as_tables(given)
    spec = {"task_heap_memory_bytes": 1, "task_off_heap_memory_bytes": 0, "managed_memory_bytes": 0}
    for name, id_, columns in (
        ("dangling", 2, {"inputs": [9]}),
        ("forward", 2, {"inputs": [3], "uid_hash": "xyz", "names": ["a", None]}),
        ("cycle", 2, {"inputs": [2], "managed_memory": [("OPERATOR", 0), ("PYTHON", 1)]}),
        ("kind", 2, {"kind": "one_inputs"}),
        ("value", 2, {"chaining": "never", "slot_scope": ["PYTHON", "x"]}),
        ("range", 2, {"parallelism": 0, "max_parallelism": 99999, "buffer_timeout": -2}),
        ("key", 2, {"tag": "late"}),
        ("missing", 2, {"kind": "partition", "inputs": [1]}),
        ("batch", 1, {"kind": "legacy_source"}),
        ("null", 2, {"kind": None, "inputs": [1, None]}),
        ("nan", 2, {"min_resources": {"cpu_cores": float("-inf"), **spec}}),
        ("nan", 2, {"preferred_resources": {"cpu_cores": float("nan"), **spec}}),
        ("order", 2, {"id": -7}),
    ):
        rows = changed(rows, name, id_, **columns)
    found = topologies.to_pylist()
    (option,) = (row for row in found if row["name"] == "option")
    option["config"] = [("execution.runtime-mode", "FOO"), ("x", None)]
    return with_rows(topologies, found), rows


def test_wrong_rows():
    read = read_topology_tables(*with_wrong_rows())
    assert read.topologies["name"].to_list() == ["fine"]
    errors = {row["name"]: {error["error"] for error in row["errors"]} for row in read.rejected.to_dicts()}
    expected = {
        "dangling": "DanglingInput",
        "forward": "ForwardInput",
        "cycle": "Cycle",
        "kind": "UnknownKind",
        "value": "UnknownValue",
        "range": "OutOfRange",
        "key": "KeyNotAllowed",
        "missing": "MissingKey",
        "option": "InvalidOptionValue",
        "batch": "IllegalStateException",
    }
    assert [name for name, error in expected.items() if error not in errors[name]] == []


def with_wrong_ids_and_names() -> Tables:
    names = ("twice", "gap", "double", "empty", "gone", "right", "id", "name", "form", *COLLIDING[:1])
    topologies, rows = as_tables([simple(name) for name in names])
    found = [row for row in topologies.to_pylist() if row["name"] != "gone"]
    by_name = {row["name"]: row for row in found}
    again = [dict(by_name["twice"]), {**by_name[COLLIDING[0]], "name": COLLIDING[1]}]
    by_name["id"][TOPOLOGY] += 1
    by_name["name"]["name"] = None
    by_name["form"]["form"] = "stream_graph"
    found = [{**row, "source_file": "x.jsonl", "source_line": 5} for row in [*found, *again]]
    of = {name: topology_id(name) for name in ("gap", "double", "empty", "right")}
    all_rows = [
        row
        for row in rows.to_pylist()
        if row[TOPOLOGY] != of["empty"] and (row[TOPOLOGY], row["id"]) != (of["gap"], 2)
    ]
    all_rows += [row for row in all_rows if (row[TOPOLOGY], row["id"]) == (of["double"], 2)]
    all_rows += [{**row, TOPOLOGY: None} for row in all_rows if row[TOPOLOGY] == of["right"]]
    return with_rows(topologies, found), with_rows(rows, all_rows)


def test_ids_names_and_missing_halves():
    assert sorted(read_topology_tables(*with_wrong_ids_and_names()).rejected["error"].unique()) == [
        "DuplicateId",
        "DuplicateTopologyName",
        "EmptyTopology",
        "IdOutOfOrder",
        "MissingKey",
        "NoTopology",
        "TopologyIdCollision",
        "TopologyIdMismatch",
        "UnknownValue",
    ]


def sources(name: str, ids: list[int]) -> TopologyTables:
    """What is read of one topology of sources with these ids."""
    rows = pa.table(
        {
            TOPOLOGY: pa.array([topology_id(name)] * len(ids), pa.int64()),
            "id": pa.array(ids, pa.int32()),
            "kind": ["source"] * len(ids),
            "inputs": pa.array([[]] * len(ids), pa.list_(pa.int32())),
        }
    )
    return read_topology_tables(pa.table({"name": [name]}), rows)


def test_ids_below_one_are_refused():
    """As many as the last id, in two blocks in order, but not from 1 on."""
    read = sources("below", [*range(1 - BLOCK, 1), *range(BLOCK + 1, 2 * BLOCK + 1)])
    assert read.topologies.is_empty()
    assert read.rejected["errors"][0][0]["error"] in ("IdOutOfOrder", "OutOfRange")


def test_ids_that_leave_out_some_within_a_block_are_refused():
    """The last block is full, and only one is not."""
    errors = sources("gap", [*range(BLOCK + 1, 2 * BLOCK + 1), 1]).rejected["errors"][0].to_list()
    assert {error["error"] for error in errors} == {"IdOutOfOrder", "MoreErrors"}
    assert (errors[0]["location"], errors[-1]["found"]) == (
        f"transformation {BLOCK + 1}",
        f"{BLOCK - 20:,} more errors",
    )


def test_the_error_of_an_id_does_not_depend_on_the_order_of_rows():
    """Two rows with one topology_id, one of them with another's name."""
    topologies, rows = as_tables([simple("a"), simple("b")])
    same_id = with_rows(topologies, [{**row, TOPOLOGY: topology_id("a")} for row in topologies.to_pylist()])
    expected = ["TopologyIdCollision", "TopologyIdCollision", "NoTopology"]
    for order in ([0, 1], [1, 0]):
        assert read_topology_tables(same_id.take(order), rows).rejected["error"].to_list() == expected


def test_resources_that_are_left_out_are_none():
    """The plan and fingerprint are those of zeros, whichever of the two is left out."""
    given = [every_setting()]
    topologies, rows = as_tables(given)
    zero = frame_contents(read_topologies(given))
    for name in ("task_off_heap_memory_bytes", "managed_memory_bytes"):
        found = rows.to_pylist()
        for row in found:
            for column in ("min_resources", "preferred_resources"):
                row[column] = row[column] and {**row[column], name: None}
        assert frame_contents(read_topology_tables(topologies, with_rows(rows, found))) == zero


def test_resources_of_some_rows_only_reach_arrow(spark: SparkSession):
    schema = StructType([StructField("resources", spark_type(RESOURCES))])
    resources = {"cpu_cores": 1.0} | dict.fromkeys(RESOURCES.names[1:], 0)
    rows = spark.createDataFrame([(None,), (resources,)], schema)
    assert rows.toArrow()["resources"].to_pylist() == [None, resources]


def test_keys_that_come_twice_beside_configured_defaults_are_refused(tmp_path: Path):
    entries = pa.array([[("a", "1"), ("a", "2")], [("a", "1")]], pa.map_(pa.string(), pa.string()))
    topologies = pa.table({"name": ["twice", "once"], "config": entries})
    _, rows = as_tables([simple("twice"), simple("once")])
    defaults = JobDefaults(config={"pipeline.max-parallelism": "64"})
    found = read_topologies(written(tmp_path, (topologies, rows)), job_defaults=defaults)
    assert [found.topologies["name"].to_list(), found.rejected["error"].to_list()] == [
        ["once"],
        ["DuplicateKey"],
    ]


def test_columns_may_be_left_out_but_not_be_wrong():
    topologies, rows = as_tables([simple("a")])
    expected = frame_contents(read_topologies([simple("a")]))
    nulls = with_rows(rows, [{**row, "managed_memory": None, "slot_scope": None} for row in rows.to_pylist()])
    assert frame_contents(read_topology_tables(topologies, nulls)) == expected
    few = read_topology_tables(topologies.select(["name"]), rows.select(["id", TOPOLOGY, "kind", "inputs"]))
    assert few.topologies["name"].to_list() == ["a"]
    for wrong, said in (
        ((topologies, rows.drop_columns("kind")), r"column kind \(string\) is missing"),
        ((topologies, rows.set_column(1, "id", rows["id"].cast(pa.string()))), "id must be int, got string"),
        ((topologies.append_column("extra", pa.array([1])), rows), "extra is not a column of topologies"),
    ):
        with pytest.raises(SchemaError, match=said):
            read_topologies(wrong)


def test_a_missing_table_and_a_folder_among_files(tmp_path: Path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "a.parquet").touch()
    with pytest.raises(InputError, match=r"cannot read .*/topologies"):
        read_topologies(tmp_path)
    given: Any = [tmp_path, tmp_path / "x.jsonl"]
    with pytest.raises(InputError, match="contains tables and cannot be read together"):
        read_topologies(given)


def as_arrow_tables(**columns: pa.Array) -> tuple[pa.Table, pa.Table]:
    """Topologies a and b, a source and a sink each; `columns` of either table are added or replaced."""
    ids = [topology_id(name) for name in ("a", "a", "b", "b")]
    tables = {
        "topologies": {"name": pa.array(["a", "b"])},
        "transformations": {
            "topology_id": pa.array(ids),
            "id": pa.array([1, 2, 1, 2], pa.int32()),
            "kind": pa.array(["source", "sink"] * 2),
            "inputs": pa.array([[], [1]] * 2, pa.list_(pa.int32())),
        },
    }
    for name, column in columns.items():
        tables["topologies" if name in ("name", "config") else "transformations"][name] = column
    return pa.table(tables["topologies"]), pa.table(tables["transformations"])


def test_maps_with_a_key_twice(tmp_path: Path):
    config = pa.array([[("k", "1"), ("k", "2")], []], pa.map_(pa.string(), pa.string()))
    weights = pa.array(
        [[], [], [("OPERATOR", 1)], [("OPERATOR", 1), ("OPERATOR", 2)]], pa.map_(pa.string(), pa.int32())
    )
    tables = as_arrow_tables(config=config, managed_memory=weights)
    for name, table in zip(("topologies", "transformations"), tables, strict=True):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "part.parquet")
    found = read_topologies(tmp_path)
    assert list(found.rejected["error"]) == ["DuplicateKey", "DuplicateKey"]


def test_flavours_and_empty_tables():
    topologies, rows = as_arrow_tables(kind=pa.array(["source", "sink"] * 2).dictionary_encode())
    assert list(read_topologies((topologies, rows)).topologies["name"]) == ["a", "b"]
    assert read_topologies((topologies.slice(0, 0), rows.slice(0, 0))).inputs == 0
    orphans = read_topologies((topologies.slice(0, 0), rows))
    assert list(orphans.rejected["error"]) == ["NoTopology", "NoTopology"]


def test_text_that_is_not_utf8():
    bounds = pa.py_buffer(np.arange(3, dtype=np.int32))
    name = pa.Array.from_buffers(pa.string(), 2, [None, bounds, pa.py_buffer(b"a\xff")])
    with pytest.raises(SchemaError, match=r"table topologies, column name: .*Invalid UTF8"):
        read_topologies(as_arrow_tables(name=name))


def test_a_folder_with_other_columns_cannot_be_read(tmp_path: Path):
    for name, table in zip(("topologies", "transformations"), as_arrow_tables(), strict=True):
        (tmp_path / name).mkdir()
        pq.write_table(table.append_column("extra", pa.nulls(len(table))), tmp_path / name / "part.parquet")
    with pytest.raises(InputError, match="extra is not a column of topologies"):
        read_topologies(tmp_path)
