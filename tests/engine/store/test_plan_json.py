"""Plan JSON, built from tables, is what the golden data holds."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from tests.engine.store.tables_from_golden import Line, golden_lines, tables_from_golden

GOLDEN = Path(__file__).parent / "golden"


def tables_of(spark: SparkSession, lines: list[Line]) -> dict[str, pl.DataFrame]:
    """Not by toArrow, which refuses null structs whose fields are not null."""
    frames: dict[str, Any] = dict(tables_from_golden(spark, lines))
    return {
        name: from_arrow(pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False)))
        for name, frame in frames.items()
    }


def comparable(plan):
    """The layers that are exported, without orders that Flink does not define."""
    kept = {k: v for k, v in plan.items() if k not in ("execution_graph", "slots")}
    for vertex in kept.get("job_graph", {}).get("vertices", ()):
        vertex["operators"].sort(key=lambda o: (o["chain_index"], o["node"]))
    graph = kept.get("stream_graph", {"nodes": [], "edges": []})
    graph["nodes"].sort(key=lambda node: node["id"])
    graph["edges"].sort(key=lambda edge: edge["source"])
    return kept


@pytest.mark.parametrize("file", ["random.jsonl.gz", "nexmark.jsonl.gz"])
def test_lines_hold_every_key_and_value_of_the_golden_plans(spark: SparkSession, file: str):
    lines = golden_lines(GOLDEN / file)
    rows = to_plan_lines(tables_of(spark, lines)).rows()
    found = {name: comparable(json.loads(line)) for name, line in rows}
    expected = {line["expected"]["name"]: comparable(line["expected"]) for line in lines}
    assert len(rows) == len(lines)
    for name, plan in expected.items():
        assert {key: found[name][key] for key in plan} == plan


def test_a_refused_input_without_a_name_still_has_its_line(spark: SparkSession):
    tables = tables_of(spark, golden_lines(GOLDEN / "random.jsonl.gz")[:1])
    row: tuple[object, ...] = (None, None, "fleet.jsonl", 7, "input", "NotJson", "line 7: found {", [])
    unreadable = pl.DataFrame([row], schema=tables["rejected"].schema, orient="row")
    lines = to_plan_lines({**tables, "rejected": unreadable}).rows()
    assert [json.loads(line) for name, line in lines if name is None] == [
        {"name": None, "error_stage": "input", "error": "NotJson", "message": "line 7: found {"}
    ]


def test_a_plan_without_job_graph_tables_has_stream_graphs_only(spark: SparkSession):
    tables = tables_of(spark, golden_lines(GOLDEN / "random.jsonl.gz")[:3])
    some = {t: tables[t] for t in ("topologies", "rejected", "stream_nodes", "stream_edges")}
    assert {frozenset(json.loads(line)) for _, line in to_plan_lines(some).rows()} == {
        frozenset({"name", "stream_graph"})
    }
