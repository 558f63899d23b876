"""The tables of plans.tables, read back from golden lines: the opposite of plans.plan_json.

What plan JSON does not hold (factories, reasons, resources, …) is filled with the zero of its type.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables import TABLES
from tests.passes.frames import zero_of

Line = dict[str, Any]
Rows = dict[str, list[dict[str, Any]]]

FROM_GOLDEN = (
    "topologies",
    "rejected",
    "stream_nodes",
    "stream_edges",
    "job_vertices",
    "chained_operators",
    "job_edges",
    "intermediate_data_sets",
)


def golden_lines(path: Path) -> list[Line]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def tables_from_golden(spark: SparkSession, lines: Iterable[Line]) -> dict[str, DataFrame]:
    rows: Rows = defaultdict(list)
    for line in lines:
        _add_topology(rows, line["topology"], line["expected"])
    return {table: _frame(spark, table, rows[table]) for table in FROM_GOLDEN}


def _frame(spark: SparkSession, table: str, rows: list[dict[str, Any]]) -> DataFrame:
    """topology_id is given as the topology's name and hashed by Spark."""
    schema, columns = spark_schema(table), TABLES[table]
    key, *others = schema.fields
    values = [
        (
            row["topology_id"],
            *(row.get(f.name, None if f.nullable else zero_of(columns.field(f.name).type)) for f in others),
        )
        for row in rows
    ]
    named = StructType([StructField("topology_id", StringType(), key.nullable), *others])
    df = spark.createDataFrame(values, named)
    return df.select(F.xxhash64("topology_id").alias("topology_id"), *(f.name for f in others))


def _add_topology(rows: Rows, topology: Line, expected: Line) -> None:
    name = expected["name"]
    if "error" in expected:
        rows["rejected"].append({"topology_id": name, **expected})
        return
    form = "stream_graph" if "stream_graph" in topology else "transformations"
    rows["topologies"].append(
        {
            "topology_id": name,
            "name": name,
            "form": form,
            "parallelism": topology.get("parallelism", 1),
            "fingerprint": sha256(json.dumps(topology).encode()).hexdigest(),
        }
    )
    if "stream_graph" in expected:
        _add_stream_graph(rows, name, expected["stream_graph"])
    _add_job_graph(rows, name, expected["job_graph"])


def _add_stream_graph(rows: Rows, name: str, graph: Line) -> None:
    rows["stream_nodes"] += [{"topology_id": name, **node} for node in graph["nodes"]]
    outputs: dict[int, int] = defaultdict(int)
    inputs: dict[int, int] = defaultdict(int)
    for edge in graph["edges"]:
        source, target = edge["source"], edge["target"]
        row = {"topology_id": name, "out_index": outputs[source], "in_index": inputs[target], **edge}
        rows["stream_edges"].append(row)
        outputs[source] += 1
        inputs[target] += 1


def _add_job_graph(rows: Rows, name: str, graph: Line) -> None:
    heads = {
        v["id"]: next(o["node"] for o in v["operators"] if o["chain_index"] == 1) for v in graph["vertices"]
    }
    order = {vertex_id: i for i, vertex_id in enumerate(graph["topological_order"])}
    for i, vertex in enumerate(graph["vertices"]):
        key = {"topology_id": name, "vertex": heads[vertex["id"]]}
        rows["job_vertices"].append(
            {
                **vertex,
                **key,
                "vertex_id": vertex["id"],
                "creation_order": i,
                "topological_order": order[vertex["id"]],
            }
        )
        places = {ids[0]: (place, ids) for place, ids in enumerate(vertex["operator_ids"])}
        for operator in vertex["operators"]:
            place, ids = places.get(operator["operator_id"], (None, []))
            row = {
                **operator,
                **key,
                "operator_order": place,
                "user_defined_operator_id": (ids[1:] or [None])[0],
            }
            rows["chained_operators"].append(row)
        for n, output in enumerate(vertex["outputs"]):
            kind = {"data_set_id": output["id"], "result_partition_type": output["type"], "output_index": n}
            rows["intermediate_data_sets"].append({**output, **key, **kind})
        for n, edge in enumerate(vertex["inputs"]):
            ends = {"target_vertex": key["vertex"], "source_vertex": heads[edge["source"]], "input_index": n}
            rows["job_edges"].append({**edge, **ends, "topology_id": name, "data_set_id": edge["data_set"]})
