"""Schemas of Arrow and types of Spark as output types: every type and value comes out as it was given."""

import datetime
import decimal
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DecimalType,
    IntegerType,
    Row,
    StructField,
    StructType,
)

from penstock.engine.pyflink.common import Instant, Types
from penstock.engine.pyflink.common import Row as FlinkRow
from penstock.engine.pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_columns import codec_of
from penstock.operators.common.arrow_types import arrow_type
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.spark_ddl import parse_spark_type
from penstock.operators.common.spark_schemas import (
    schema_of_stream,
    spark_type,
    type_of_arrow_schema,
    type_of_spark_type,
)
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.formats.java_text import java_text
from penstock.operators.formats.part_formats import stored_batch, stored_schema
from penstock.operators.state.interfaces import MapStateDescriptor, ValueStateDescriptor
from penstock.operators.task.sink_operators import as_declared
from penstock.plans.errors import JobCompileError
from tests.engine.run.runtime.run_in_process import collected

D = Decimal
AT = datetime.datetime(2024, 5, 1, 10, 0, 0, 123456)
FIELD = pa.field
NO_NULL = pa.field("x", pa.int32(), nullable=False)

#: Arrow's types, each with Spark's type, and a value as Arrow has it.
TYPES: list[tuple[pa.DataType, str, Any]] = [
    (pa.decimal128(10, 2), "decimal(10,2)", D("1.50")),
    (pa.decimal128(38, 20), "decimal(38,20)", D("1E-20")),
    (pa.decimal256(30, 2), "decimal(30,2)", D("-1.50")),
    (pa.decimal32(9, 3), "decimal(9,3)", D("1.500")),
    (pa.decimal128(5, -2), "decimal(7,0)", D("1200")),
    (pa.decimal128(2, 4), "decimal(4,4)", D("0.0012")),
    (pa.timestamp("us", "UTC"), "timestamp", AT),
    (pa.timestamp("ns", "Asia/Tokyo"), "timestamp", AT),
    (pa.timestamp("s"), "timestamp_ntz", AT.replace(microsecond=0)),
    (pa.timestamp("ns"), "timestamp_ntz", AT),
    (pa.date32(), "date", AT.date()),
    (pa.date64(), "date", AT.date()),
    (pa.time64("ns"), "time(6)", AT.time()),
    (pa.time32("ms"), "time(6)", AT.time().replace(microsecond=123000)),
    (pa.duration("us"), "interval day to second", datetime.timedelta(days=-1, microseconds=7)),
    (pa.duration("s"), "interval day to second", datetime.timedelta(days=5)),
    (pa.int8(), "tinyint", -128),
    (pa.int64(), "bigint", 2**63 - 1),
    (pa.uint8(), "smallint", 255),
    (pa.uint16(), "int", 2**16 - 1),
    (pa.uint32(), "bigint", 2**32 - 1),
    (pa.uint64(), "decimal(20,0)", 2**64 - 1),
    (pa.float16(), "float", 1.5),
    (pa.float32(), "float", 0.5),
    (pa.float64(), "double", float("-inf")),
    (pa.binary(), "binary", b"\0\xff"),
    (pa.binary(2), "binary", b"ab"),
    (pa.large_binary(), "binary", b""),
    (pa.binary_view(), "binary", b"x"),
    (pa.large_string(), "string", "é"),
    (pa.string_view(), "string", ""),
    (pa.dictionary(pa.int8(), pa.string()), "string", "x"),
    (pa.dictionary(pa.int32(), pa.timestamp("us", "UTC")), "timestamp", AT),
    (pa.null(), "void", None),
    (pa.bool_(), "boolean", True),
    (pa.list_(pa.int32()), "array<int>", [1, None]),
    (pa.large_list(pa.large_string()), "array<string>", ["a", None]),
    (pa.list_(pa.int16(), 2), "array<smallint>", [1, 2]),
    (pa.list_(pa.field("item", pa.uint8(), nullable=False)), "array<smallint>", [1, 2]),
    (pa.map_(pa.string(), pa.decimal128(6, 3)), "map<string,decimal(6,3)>", [("k", D("1.250"))]),
    (pa.map_(pa.int16(), pa.list_(pa.date64())), "map<smallint,array<date>>", [(1, [AT.date()]), (2, None)]),
    (
        pa.struct(
            [NO_NULL, FIELD("y", pa.dictionary(pa.int8(), pa.string())), FIELD("z", pa.duration("ms"))]
        ),
        "struct<x:int,y:string,z:interval day to second>",
        {"x": 1, "y": "b", "z": datetime.timedelta(seconds=1)},
    ),
    (pa.list_(pa.struct([("t", pa.timestamp("ms", "UTC"))])), "array<struct<t:timestamp>>", [{"t": None}]),
]


def environment() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


#: Types that pa.array cannot make of Python's values.
ODD = ("decimal128(5, -2)", "decimal128(2, 4)", str(TYPES[32][0]))


def array(values: list[Any], kind: Any) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return array(values, kind.value_type).dictionary_encode().cast(kind)
    if str(kind) in ODD:
        return pa.array(values, pa.decimal256(70, 20)).cast(kind)
    return pa.array(values, kind)


def batch_of(schema: pa.Schema, values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [array([value, value], field.type) for value, field in zip(values, schema, strict=True)],
        schema=schema,
    )


@pytest.mark.parametrize(("kind", "name", "value"), TYPES, ids=lambda one: str(one)[:40])
def test_every_type_comes_out_as_it_was_given(kind: pa.DataType, name: str, value: Any) -> None:
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False), ("c", kind)])
    type_info: Any = type_of_arrow_schema(schema)
    columns = schema_of_stream(type_info).given
    assert [field.dataType.simpleString() for field in columns] == ["int", name]
    assert [field.nullable for field in columns] == [False, True]
    field = type_info.get_field_types()[1]
    column = array([value, None, value], kind)
    codec = codec_of(field)
    again = codec.encode(codec.decode(column))
    assert again.to_pylist() == column.to_pylist()
    assert again.type == (kind if "view" not in str(kind) else arrow_type(field))
    # to Spark, and to files, in the types of Spark
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3], pa.int32()), column], schema=schema)
    for_spark = as_declared(rows, to_arrow_schema(schema_of_stream(type_info).carried, timezone="UTC"))
    for_files = stored_batch(rows, stored_schema(type_info))
    for batch in (for_spark, for_files):
        assert from_arrow_schema(batch.schema)[1].dataType.simpleString() == name
        assert batch.column(1).null_count == (3 if kind == pa.null() else 1)


def test_the_next_function_gets_the_columns_of_the_schema() -> None:
    given_schema = pa.schema([(f"c{at}", kind) for at, (kind, _, _) in enumerate(TYPES)])
    given_batch = batch_of(given_schema, [value for _, _, value in TYPES])
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    schema = pa.schema([(field.name, plain.get(field.type, field.type)) for field in given_schema])

    def give(batch: pa.RecordBatch) -> pa.RecordBatch:
        return given_batch

    def same(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        assert batch.schema.equals(schema), batch.schema
        assert batch.slice(0, 1).to_pylist() == given_batch.slice(0, 1).to_pylist()
        return [batch.slice(0, 1)]

    stream = environment().from_collection([1], Types.INT()).map_batches(give, given_schema)
    again = stream.map_batches(same, given_schema)
    through_rows = again.map(lambda row: row, again.get_type()).map_batches(same)
    between_chains = through_rows.rebalance().map_batches(same)
    keyed = between_chains.key_by("c0").reduce(lambda a, b: a).map_batches(same)
    (row,) = collected(keyed)
    assert row.c0 == D("1.50")
    assert row.c41 == Row(x=1, y="b", z=datetime.timedelta(seconds=1))


KINDS = st.recursive(
    st.sampled_from([kind for kind, _, _ in TYPES if not pa.types.is_nested(kind) and str(kind) not in ODD]),
    lambda inner: st.one_of(
        st.builds(
            lambda kind, nullable: pa.list_(pa.field("item", kind, nullable or pa.types.is_null(kind))),
            inner,
            st.booleans(),
        ),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)
#: The sample of each type, and further values.
SINGLE = {str(kind): [value] for kind, _, value in TYPES}
SINGLE[str(pa.timestamp("us", "UTC"))] += [datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)]
SINGLE[str(pa.decimal128(10, 2))] += [D("-99999999.99"), D(0)]
SINGLE[str(pa.float64())] += [0.1, -0.0, 5e-324]


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        return st.dictionaries(st.text(max_size=2), values_or_none(kind.item_type), max_size=2).map(
            lambda entries: list(entries.items())
        )
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values_or_none(field.type) for field in kind})
    if pa.types.is_fixed_size_list(kind):
        return st.lists(values_or_none(kind.value_type), min_size=2, max_size=2)
    if pa.types.is_nested(kind):
        element = kind.value_field
        one = values_or_none(element.type) if element.nullable else values_of(element.type)
        return st.lists(one, max_size=3)
    return st.sampled_from(SINGLE[str(kind)])


def values_or_none(kind: Any) -> st.SearchStrategy[Any]:
    return st.none() | values_of(kind)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_value_of_any_type_comes_out_as_it_was_given(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    values = data.draw(st.lists(values_or_none(kind), min_size=1, max_size=4))
    start = data.draw(st.integers(0, len(values) - 1))
    column = pa.array(values, kind).slice(start)
    type_info: Any = type_of_arrow_schema(pa.schema([("c", kind)]))
    codec = codec_of(type_info.get_field_types()[0])
    again = codec.encode(codec.decode(column))
    assert again.type == kind or "view" in str(kind)
    assert again.to_pylist() == column.to_pylist()
    rows = pa.RecordBatch.from_arrays([column], ["c"])
    columns = to_arrow_schema(schema_of_stream(type_info).carried, timezone="UTC")
    for_spark = as_declared(rows, columns)
    for_spark.validate(full=True)
    back = codec_of(type_of_spark_type(schema_of_stream(type_info).given).get_field_types()[0])  # type: ignore[attr-defined]
    assert repr(back.decode(for_spark.column(0))) == repr(codec.decode(column))


def test_an_index_below_a_null_struct_needs_no_value() -> None:
    empty = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([], pa.string()), safe=False)
    rows = pa.StructArray.from_arrays([empty], ["a"], mask=pa.array([True]))
    found = as_arrow_type(rows, pa.struct([("a", pa.string())]))
    found.validate(full=True)
    assert found.to_pylist() == [None]


#: What a function gives for a schema, and what comes out: values, or the error.
A = pa.schema([("a", pa.int32())])
BATCHES: dict[str, tuple[Any, Any, Any]] = {
    "int64 for int32": (pa.array([1], pa.int64()), pa.int32(), [1]),
    "int64 too large": (pa.array([2**40]), pa.int32(), "column 'a' must be int32, got int64: Integer value"),
    "1.7 for int32": (pa.array([1.7]), pa.int32(), "column 'a' must be int32, got double: Float value 1.7"),
    "2.0 for int32": (pa.array([2.0]), pa.int32(), [2]),
    "decimal for int32": (pa.array([D("1.7")]), pa.int32(), "column 'a' must be int32"),
    "half up": (
        pa.array([D("1.555"), D("-1.555"), D("1.545")]),
        pa.decimal128(10, 2),
        ["1.56", "-1.56", "1.55"],
    ),
    "one digit more": (pa.array([D("99.9")], pa.decimal128(3, 1)), pa.decimal128(3, 0), ["100"]),
    "too many digits": (pa.array([D("99.9")]), pa.decimal128(2, 0), "must be decimal128(2, 0)"),
    "nanoseconds": (
        pa.array([-1], pa.timestamp("ns")),
        pa.timestamp("us"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    ),
    "no zone": (pa.array([AT]), pa.timestamp("us", "UTC"), "must be timestamp[us, tz=UTC], got timestamp"),
    "a zone": (pa.array([AT], pa.timestamp("us", "UTC")), pa.timestamp("us"), "must be timestamp[us], got"),
    "no zone within": (
        pa.array([[AT]]),
        pa.list_(pa.timestamp("us", "UTC")),
        "a timestamp without time zone cannot become one in UTC",
    ),
    "text": (pa.array(["x"]), pa.int32(), "column 'a' must be int32, got string"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_another_type(name: str) -> None:
    column, kind, expected = BATCHES[name]
    batch = pa.RecordBatch.from_arrays([column], ["a"])
    stream = environment().from_collection([1], Types.INT())
    stream = stream.map_batches(lambda _: batch, pa.schema([("a", kind)]))
    if isinstance(expected, str):
        with pytest.raises(UserFunctionError) as raised:
            collected(stream)
        assert expected in str(raised.value)
    else:
        found = [row.a for row in collected(stream)]
        assert [str(one) if isinstance(one, D) else one for one in found] == expected


@pytest.mark.parametrize(
    ("given_by_function", "expected"),
    [
        (lambda batch: pa.Table.from_batches([batch, batch]), 4),
        (lambda batch: [batch, batch], 4),
        (lambda batch: (batch for _ in range(2)), 4),
        (lambda batch: batch.slice(0, 0), 0),
        (lambda batch: None, "must return a pyarrow RecordBatch, got NoneType"),
        (lambda batch: {"value": batch.column(0)}, "must return a pyarrow RecordBatch, got dict"),
        (lambda batch: batch.to_pandas(), "must return a pyarrow RecordBatch, got DataFrame"),
        (lambda batch: batch.rename_columns(["b"]), "the columns must be value, got b"),
        (lambda batch: batch.append_column("b", batch.column(0)), "the columns must be value, got value, b"),
    ],
)
def test_what_a_function_may_give(given_by_function: Any, expected: Any) -> None:
    stream = environment().from_collection([1, 2], Types.INT()).map_batches(given_by_function)
    if isinstance(expected, int):
        assert len(collected(stream)) == expected
    else:
        with pytest.raises(UserFunctionError, match=expected):
            collected(stream)


def giving(batch: pa.RecordBatch) -> Any:
    return lambda _: batch


def test_nulls_are_refused_where_the_schema_allows_none() -> None:
    inner = pa.struct([NO_NULL])
    schemas = {
        "column 'a' must not be null as declared, got a null": pa.field("a", pa.int32(), nullable=False),
        "column 'a.x' must not be null as declared, got a null": pa.field("a", inner),
        "column 'a.element' must not be null as declared, got a null": pa.field(
            "a", pa.list_(pa.field("item", pa.int32(), nullable=False))
        ),
        "column 'a.element.x' must not be null as declared, got a null": pa.field("a", pa.list_(inner)),
        "column 'a.value' must not be null as declared, got a null": pa.field(
            "a", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))
        ),
    }
    columns: list[Any] = [
        pa.array([None], pa.int32()),
        pa.array([{"x": None}], pa.struct([("x", pa.int32())])),
        pa.array([[1, None]]),
        pa.array([[{"x": None}]], pa.list_(pa.struct([("x", pa.int32())]))),
        pa.array([[("k", None)]], pa.map_(pa.string(), pa.int32())),
    ]
    for (said, field), column in zip(schemas.items(), columns, strict=True):
        batch = pa.RecordBatch.from_arrays([column], ["a"])
        stream = environment().from_collection([1], Types.INT())
        with pytest.raises(UserFunctionError, match=said):
            collected(stream.map_batches(giving(batch), pa.schema([field])))


def test_schemas_that_spark_cannot_have_are_refused_by_column() -> None:
    for kind in (pa.decimal256(40, 2), pa.list_(pa.decimal256(40, 2)), pa.list_view(pa.int32())):
        stream = environment().from_collection([1], Types.INT())
        with pytest.raises(TypeError, match="column 'c': Spark has no type for Arrow's"):
            stream.map_batches(lambda batch: batch, pa.schema([("c", kind)]))


def test_names_that_occur_twice() -> None:
    schema = pa.schema([("a", pa.int32()), ("a", pa.string())])
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"])], schema=schema)
    stream = environment().from_collection([1], Types.INT()).map_batches(lambda _: batch, schema)
    assert schema_of_stream(stream.get_type()).given.names == ["a", "a"]
    assert collected(stream) == [FlinkRow(a=1, a_2="x")]


def test_batches_without_columns_and_with_the_name_of_timestamps_are_exchanged() -> None:
    numbers = environment().from_collection([1, 2], Types.INT())
    none = numbers.map_batches(lambda batch: batch.drop_columns(["value"]), "struct<>")
    assert collected(none.rebalance().map(str, "string")) == ["Row()", "Row()"]
    schema = pa.schema([("$timestamp", pa.int64())])
    named = numbers.map_batches(
        lambda batch: pa.RecordBatch.from_arrays([pa.array([7] * len(batch))], schema=schema), schema
    )
    assert [row["$timestamp"] for row in collected(named.rebalance().map_batches(lambda batch: batch))] == [
        7,
        7,
    ]


def test_text_of_values_is_that_of_their_type() -> None:
    type_info: Any = type_of_arrow_schema(pa.schema([("a", pa.dictionary(pa.int8(), pa.float64()))]))
    assert java_text(type_info.get_field_types()[0])(1e10) == "1.0E10"


def test_a_union_of_columns_of_two_types() -> None:
    large = pa.schema([("s", pa.large_string())])
    stream = environment().from_collection(["a"], Types.STRING())
    one = stream.map_batches(lambda batch: pa.RecordBatch.from_arrays([batch.column(0)], ["s"]), large)
    other = stream.map(lambda text: FlinkRow(s=text), Types.ROW_NAMED(["s"], [Types.STRING()]))
    seen = one.union(other).map_batches(lambda batch: batch, pa.schema([("s", pa.string())]))
    assert [row.s for row in collected(seen)] == ["a", "a"]


def test_files_have_the_types_of_the_schema(tmp_path: Path) -> None:
    schema = pa.schema(
        [("d", pa.decimal128(10, 2)), ("t", pa.timestamp("ns", "Asia/Tokyo")), ("u", pa.uint16())]
    )
    batch = batch_of(schema, [D("1.50"), AT, 7])
    type_info = type_of_arrow_schema(schema)
    pq.write_table(
        pa.Table.from_batches([stored_batch(batch, stored_schema(type_info))]), tmp_path / "a.parquet"
    )
    written = pq.read_schema(tmp_path / "a.parquet")
    assert written.types == [pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.int32()]


# Spark's types as output types.


@pytest.mark.parametrize(
    "declared", ["a int, b decimal(10,2) not null", parse_spark_type("a int, b decimal(10,2) not null")]
)
def test_sparks_types_go_wherever_an_output_type_goes(declared: Any) -> None:
    class Out(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield tag, value
            yield value

    class Keyed(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", declared))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.last.update(value)
            yield self.last.value()

    tag = OutputTag("side", declared)
    both_ways: Any = BothWays()
    env = environment()
    rows = env.from_collection([(1, D("1.005"))], declared)
    one = rows.process(Out(), declared)
    streams = [
        rows,
        rows.map(lambda row: row, declared),
        rows.flat_map(lambda row: [row], output_type=declared),
        one,
        one.get_side_output(tag),
        rows.map_batches(lambda batch: batch, declared),
        rows.key_by(lambda row: row.a, "int").process(Keyed(), declared),
        rows.key_by("a").process(Keyed(), declared),
        rows.connect(rows).map(both_ways, declared),
    ]  # fmt: skip
    for stream in streams:
        assert schema_of_stream(stream.get_type()).given == parse_spark_type(
            "a int, b decimal(10,2) not null"
        )
        assert {row.b for row in collected(stream)} == {D("1.01")}
    assert rows.map(lambda row: row.a, "int").get_type() == Types.INT()
    assert rows.map(lambda row: row.a, IntegerType()).get_type() == Types.INT()
    assert MapStateDescriptor("m", "string", DecimalType(5, 1)).type_info is not None


@pytest.mark.parametrize("value", [Row(b="x", a=1), FlinkRow(b="x", a=1), (1, "x"), {"b": "x", "a": 1}])
def test_state_takes_rows_as_streams_do(value: Any) -> None:
    class Kept(KeyedProcessFunction):
        def __init__(self, kept: Any) -> None:
            self.kept = kept

        def open(self, runtime_context: Any) -> None:
            one = ValueStateDescriptor("one", "a int not null, b string")
            self.one = runtime_context.get_state(one)
            self.by_name = runtime_context.get_map_state(MapStateDescriptor("m", "string", "a int, b string"))

        def process_element(self, element: Any, ctx: Any) -> Any:
            self.one.update(self.kept)
            self.by_name.put("x", self.kept)
            yield self.by_name.get("x")

    def kept(stored: Any) -> Any:
        keyed = environment().from_collection([1], "int").key_by(lambda n: n)
        return collected(keyed.process(Kept(stored), "a int, b string"))

    assert kept(value) == [FlinkRow(a=1, b="x")]
    with pytest.raises(UserFunctionError, match="must not be null as declared, got None"):
        kept((None, "x"))
    with pytest.raises(UserFunctionError, match=r"must be Integer, got .* of class str"):
        kept(("x", "x"))


class BothWays:
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1


def mapped(value: Any, declared: Any) -> Any:
    (row,) = collected(environment().from_collection([1], Types.INT()).map(lambda _: value, declared))
    return row


def test_values_that_would_lose_a_part_are_refused() -> None:
    for declared in ("tinyint", "smallint", "int", "bigint", "boolean", "array<int>", "map<string,bigint>"):
        value: Any = {"array<int>": [1.7], "map<string,bigint>": {"a": 1.7}}.get(declared, 1.7)
        with pytest.raises(UserFunctionError, match=r"1\.7"):
            mapped(value, declared)
    assert mapped(1.7, Types.INT()) == 1  # as in PyFlink
    assert mapped(2.0, "int") == 2
    assert mapped(True, "boolean") is True
    with pytest.raises(UserFunctionError, match="300"):
        mapped([300], "array<tinyint>")
    for value, declared in (
        (5, "time"),
        (5, "interval day to second"),
        ([5], "array<string>"),
        ({5: "x"}, "map<string,string>"),
        (5, "string collate UNICODE"),
    ):
        with pytest.raises(UserFunctionError, match=r"must be Spark's.*, got 5 of class int"):
            mapped(value, declared)
    with pytest.raises(UserFunctionError, match="must not be null as declared, got None"):
        mapped((None,), "a int not null")


@pytest.mark.parametrize(
    ("value", "rounded"), [("1.005", "1.01"), ("-1.005", "-1.01"), ("1.004999", "1.00"), ("7", "7.00")]
)
def test_decimals_are_rounded_half_up(value: str, rounded: str) -> None:
    with decimal.localcontext(prec=3):
        assert str(mapped(D(value), "decimal(10,2)")) == rounded
        assert str(mapped([D(value)], "array<decimal(10,2)>")[0]) == rounded
    with pytest.raises(UserFunctionError, match="it does not fit"):
        mapped(D("99.995"), "decimal(4,2)")
    with pytest.raises(UserFunctionError, match="NaN"):
        mapped(D("NaN"), "decimal(4,2)")


@pytest.mark.parametrize("row", [Row(b="x", a=1), FlinkRow(b="x", a=1), {"b": "x", "a": 1}])
def test_rows_go_by_name(row: Any) -> None:
    expected = FlinkRow(a=1, b="x")
    assert mapped(row, "a int, b string") == expected
    assert mapped(row, Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])) == expected
    assert mapped(FlinkRow(row), "s struct<a int, b string>").s == Row(a=1, b="x")


def test_rows_of_other_names() -> None:
    with pytest.raises(UserFunctionError, match="'b'"):
        mapped(Row(a=1, c="x"), "a int, b string")
    with pytest.raises(UserFunctionError, match="its fields are a, c"):
        mapped([Row(a=1, c="x")], "array<struct<a int, b string>>")
    assert mapped(Row(x=1, y="x"), Types.ROW([Types.INT(), Types.STRING()])) == FlinkRow(f0=1, f1="x")
    assert mapped(Row(x=1, y="x"), Types.TUPLE([Types.INT(), Types.STRING()])) == (1, "x")
    assert mapped(Row("x", "y")(1, "x"), "x int, y string") == FlinkRow(x=1, y="x")
    assert mapped(Row("x", "x")(1, "x"), "x int, x string") == FlinkRow(x=1, x_2="x")


def test_an_instant_may_be_a_datetime() -> None:
    aware = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000, tzinfo=datetime.UTC)
    assert mapped(aware, Types.INSTANT()) == Instant(-1, 250_000_000)
    assert mapped(aware.astimezone().replace(tzinfo=None), Types.INSTANT()) == Instant(-1, 250_000_000)
    local = aware.astimezone().replace(tzinfo=None)
    assert [mapped(one, "timestamp") for one in (aware, Instant(-1, 250_000_000))] == [local, local]
    assert mapped([np.int64(7)], "array<decimal(3,1)>") == [D(7)]
    stream = environment().from_collection([aware, Instant(5, 7)], Types.INSTANT())
    assert collected(stream) == [Instant(-1, 250_000_000), Instant(5, 7)]
    with pytest.raises(UserFunctionError, match="must be Instant"):
        mapped(aware.date(), Types.INSTANT())


# Types as text, without Spark.

DDL = [
    "a int, b string", "a: int, b: string", "struct<a int, b:string not null>", "int", "decimal", "dec(5)",
    "numeric(5,2)", "a decimal(38,38) not null comment 'it is'",
    "`a b` long, `c``d` array<map<string,struct<>>>",
    "timestamp without time zone", "timestamp_ntz", "timestamp_ltz", "t TIMESTAMP", "time", "time(3)",
    "interval", "interval year to month", "interval month", "i interval day", "interval hour to second",
    "string collate UNICODE_CI", "s string collate utf8_lcase", "a varchar(5), b char(3), c character(2)",
    "a tinyint, b byte, c smallint, d short, e integer, f bigint, g real, h float, i double, j void",
    "binary", "variant", "map<string, array<double>>", "date date, time time, timestamp timestamp",
    "geometry(4326)", "a geography(any)", "a int comment \"b\\\"c\"", "timestamp with local time zone",
    "a int, -- the first\n /* and */ b string", "a int comment 'it''s ' \"\\n\\u0041\\101\\%\\x\"",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a itn", "'itn' is not a type of Spark"),
        ("bigin", "'bigin' is not a type of Spark"),
        ("array", "'<' is missing at its end"),
        ("", "a type is missing at its end"),
        ("geometry(5)", "5 is not a spatial reference that Spark knows"),
        ("array<" * 2000 + "int" + ">" * 2000, "it is nested too deeply"),
        ("decimal(٣,1)", "a number is missing before ','"),
        ("a int b string", "a comma is missing before 'b'"),
        ("array<int", "'>' is missing at its end"),
        ("decimal(39,2)", "decimal(39,2) is not a decimal of Spark"),
        ("a int; b int", "';' cannot be read"),
        ("map<int>", "',' is missing before '>'"),
    ],
)
def test_text_that_is_not_a_type(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="Spark type") as raised:
        declared_type(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "declared", ["`a\ud800` int", "array<struct<`a\ud800`:int>>", StructType().add("a\ud800", IntegerType())]
)
def test_names_that_no_file_can_have_are_refused(declared: Any) -> None:
    with pytest.raises(ValueError, match="the name is not UTF-8"):
        declared_type(declared)


def test_other_arguments_are_no_types() -> None:
    for wrong in (5, int, ["int"], pa.int32(), {"a": "int"}):
        with pytest.raises(TypeError, match=r"output type must be a type such as Types\.INT"):
            declared_type(wrong, "output type")


def test_spark_reads_types_as_this_does_and_frames_have_them(spark: Any) -> None:
    """One full run: text as Spark parses it, and every type of a schema in a DataFrame."""
    for text in DDL:
        assert parse_spark_type(text) == DataType.fromDDL(text), text
    kinds = [(kind, value) for kind, _, value in TYPES]
    schema = pa.schema([pa.field(f"c{at}", kind, at != 6) for at, (kind, _) in enumerate(kinds)])
    given_batch = batch_of(schema, [value for _, value in kinds])
    env = environment()
    stream = env.from_dataframe(spark.range(1)).map_batches(lambda _: given_batch, schema)
    rows = stream.rebalance().map(lambda row: row, stream.get_type())
    for frame in (stream.to_dataframe(), rows.to_dataframe()):
        assert [field.dataType.simpleString() for field in frame.schema] == [name for _, name, _ in TYPES]
        assert [field.nullable for field in frame.schema] == [at != 6 for at in range(len(TYPES))]
        first, second = frame.toArrow().to_pylist()
        assert first == second
        assert (first["c0"], first["c21"], first["c14"]) == (D("1.50"), D(2**64 - 1), TYPES[14][2])
    intervals = stream.map(lambda row: "1 month 2 days", "interval").to_dataframe()
    assert intervals.selectExpr("cast(value as string)").collect()[0][0] == "1 months 2 days"
    with pytest.raises(PySparkException, match=r"column 'i' must be an interval such as .*, got soon"):
        stream.map(lambda row: ("soon",), "i interval").to_dataframe().collect()
    with pytest.raises(JobCompileError, match="FOO does not represent a correct collation"):
        stream.map(lambda row: "a", "string collate FOO").to_dataframe()
    typed = stream.map(
        lambda row: (row.c0, row.c1), "a decimal(10,1), b decimal(38,20) not null"
    ).to_dataframe()
    assert typed.schema == StructType(
        [StructField("a", DecimalType(10, 1)), StructField("b", DecimalType(38, 20), False)]
    )
    assert [row.a for row in typed.collect()] == [D("1.5"), D("1.5")]


def test_flinks_types_stay_what_they_were() -> None:
    type_info: TypeInformation = Types.BIG_DEC()
    assert declared_type(type_info) is type_info
    assert spark_type(type_info).simpleString() == "decimal(38,18)"
