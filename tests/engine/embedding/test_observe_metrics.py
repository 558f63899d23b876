"""Metrics of subtasks as those of an Observation, without Spark."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.engine.run.runtime.dataframe_of_job import (
    metrics_of_reports,
    reports_column,
    require_observation,
)
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.functions.add_up_metrics import metrics_of_subtask
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.task.sink_operators import placeholder_row


def report(subtask, attempt, number, **metrics):
    who = {"vertex": 1, "subtask": subtask, "attempt": attempt, "number": number}
    return json.dumps({**who, "metrics": metrics})


def test_the_last_report_of_each_subtask_counts():
    sizes = {"sum": 4, "count": 2, "min": 1, "max": 3}
    reports = [
        report(0, 0, 1, Map={"seen": 1}),
        report(0, 1, 2, Map={"seen": 5}, Other={"seen": 2, "sizes": sizes}),
        report(0, 1, 1, Map={"seen": 3}),
        report(0, 0, 2, Map={"seen": 9}),
        report(1, 0, 1, Map={"seen": 7, "sizes": {"sum": 9, "count": 1, "min": 9, "max": 9}}),
    ]
    expected = {"seen": 14, "sizes": {"sum": 13, "count": 3, "min": 1, "max": 9}}
    assert metrics_of_reports(reports) == expected
    assert metrics_of_reports([]) == {}


def test_functions_of_a_fused_operator_have_their_metrics_together():
    contexts = [OperatorContext(operator_name="A, B", metrics={}) for _ in range(3)]
    for number, context in enumerate(contexts[:2]):
        group = RuntimeContext(context).get_metrics_group()
        group.counter("seen").inc(number + 1)
        group.add_group("own").gauge("decimal", lambda: Decimal("2.5"))  # type: ignore[arg-type, return-value]
        group.gauge("broken", lambda: "no number")  # type: ignore[arg-type, return-value]
    assert metrics_of_subtask(contexts) == {"A, B": {"seen": 3, "own.decimal": 5.0, "broken": None}}


def test_reports_have_a_column_of_their_own_in_any_case():
    assert reports_column(["id"]) == "reports"
    assert reports_column(["Reports", "reports_"]) == "reports__"


def test_only_an_observation_observes():
    with pytest.raises(TypeError, match=r"must be a new pyspark.sql.Observation, got str"):
        require_observation("name")


def test_a_row_that_nobody_reads_has_a_value_in_each_column():
    inner = pa.struct([pa.field("a", pa.bool_(), nullable=False), pa.field("b", pa.int32())])
    types = [pa.int8(), pa.decimal128(38, 18), pa.timestamp("us", "UTC"), pa.time64("ns"), pa.duration("us")]
    types += [pa.string(), pa.binary(), pa.date32(), pa.list_(pa.int8()), pa.map_(pa.string(), inner), inner]
    schema = pa.schema([pa.field(f"c{at}", kind, nullable=False) for at, kind in enumerate(types)])
    row = placeholder_row(schema)
    assert (row.num_rows, row.schema) == (1, schema)
    assert [column.null_count for column in row.columns] == [0] * len(types)
