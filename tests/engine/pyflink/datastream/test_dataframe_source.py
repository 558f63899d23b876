"""Record batches of Spark as records of a declared type; no Spark is needed."""

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.pyflink.datastream.stream_settings import schema_of_type
from penstock.operators.common.arrow_types import type_info_of_arrow
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.dataframe_source import DataFrameSource
from penstock.operators.exchange.blocks import values_of_batch

UTC = datetime.UTC


def source_of(schema: pa.Schema) -> DataFrameSource:
    alone = schema.names == ["value"]
    type_info = type_info_of_arrow(schema.field(0).type if alone else schema)
    return DataFrameSource("a dataframe", type_info, schema_of_type(type_info))


def test_rows_of_what_spark_gives() -> None:
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(10, 2)),
            ("inner", pa.struct([("s", pa.string()), ("when", pa.timestamp("us", "UTC"))])),
            ("many", pa.list_(pa.int32())),
        ]
    )
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000, tzinfo=UTC)
    rows = [
        {"n": 1, "at": moment, "price": Decimal("2.50"), "inner": {"s": "a", "when": moment}, "many": [1]},
        {"n": None, "at": None, "price": None, "inner": None, "many": None},
    ]
    source = source_of(schema)
    values = values_of_batch(source.checked(pa.RecordBatch.from_pylist(rows, schema)), source.type_info)
    before = Instant(-1, 250_000_000)
    assert values == [
        Row(n=1, at=before, price=Decimal("2.50"), inner=Row(s="a", when=before), many=[1]),
        Row(n=None, at=None, price=None, inner=None, many=None),
    ]


def test_values_of_one_column() -> None:
    schema = pa.schema([("value", pa.string())])
    source = source_of(schema)
    assert source.type_info == Types.STRING()
    batch = pa.RecordBatch.from_pydict({"value": ["a", None]}, schema)
    assert source.checked(batch) is batch


def test_names_are_those_of_the_type() -> None:
    declared = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    source = DataFrameSource(None, declared, schema_of_type(declared))
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1], pa.int32()), "y": ["s"]})
    assert source.checked(batch).to_pylist() == [{"a": 1, "b": "s"}]
    with pytest.raises(ValueError, match="must have 2 columns as declared, got 1"):
        source.checked(batch.select(["x"]))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_values_that_do_not_fit(value: int) -> None:
    source = DataFrameSource(None, Types.INT(), schema_of_type(Types.INT()))
    with pytest.raises(pa.ArrowInvalid):
        source.checked(pa.RecordBatch.from_pydict({"value": pa.array([value], pa.int64())}))


def test_workers_get_no_dataframe() -> None:
    source = source_of(pa.schema([("n", pa.int64())]))
    assert source.dataframe() == "a dataframe"
    arrived: Any = pickle.loads(pickle.dumps(source))
    assert arrived.dataframe() is None
    assert arrived.schema == source.schema
    assert source.splits(3) == [[], [], []]
