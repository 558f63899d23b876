import datetime
import gzip
import json
from decimal import Decimal
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors import CsvSink, JsonLinesSink, ParquetSink
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.file_source import (
    FileSource,
    csv_source,
    json_lines_source,
    parquet_source,
)
from penstock.operators.files import lines as splits
from penstock.operators.formats.data_types import DataTypes
from penstock.operators.formats.parquet_files import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetColumnarRowInputFormat,
)
from tests.operators.connectors.run_connectors import (
    files_in,
    read_batches,
    read_subtasks,
    read_values,
    write,
)

ROWS = Types.ROW_NAMED(
    ["n", "s", "d", "at", "dec", "big", "ts", "day", "tags", "attrs", "inner", "raw"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.DOUBLE(),
        Types.INSTANT(),
        Types.BIG_DEC(),
        Types.BIG_INT(),
        Types.SQL_TIMESTAMP(),
        Types.SQL_DATE(),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.ROW_NAMED(["x", "at"], [Types.INT(), Types.INSTANT()]),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ],
)


def row(number):
    if number % 7 == 3:
        return Row(*[None] * 12)
    return Row(
        number,
        f"text {number}",
        number / 3,
        Instant(number - 5, 250_000_000),
        Decimal(f"{number}.5"),
        10**30 + number,
        datetime.datetime(2024, 1, 2, 3, 4, 5, number % 1000 * 1000),
        datetime.date(2024, 1, 1 + number % 28),
        [f"t{one}" for one in range(number % 3)] if number % 5 else None,
        {"a": number} if number % 4 else {},
        Row(number, Instant(number, 0)) if number % 6 else None,
        bytes([number % 256]),
    )


def fields(rows):
    return [tuple(tuple(one) if isinstance(one, Row) else one for one in row) for row in rows]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(splits, "SMALLEST_PIECE", 1000)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_parquet_comes_back(tmp_path, small_pieces, parallelism):
    rows = [row(number) for number in range(2000)]
    sink = ParquetSink(str(tmp_path), ROWS, row_group_rows=100)
    write(sink, [[rows[:50], rows[50:1200]], [], [rows[1200:]]], ROWS)
    assert len(files_in(tmp_path)) == 2
    assert pq.read_schema(tmp_path / files_in(tmp_path)[0]).field("at").type == pa.timestamp("us", "UTC")
    found = read_subtasks(parquet_source(str(tmp_path), type_info=ROWS), parallelism)
    assert sorted(map(str, fields(chain.from_iterable(found)))) == sorted(
        str(tuple(Decimal(f"{one:.18f}") if isinstance(one, Decimal) else one for one in row))
        for row in fields(rows)
    )
    assert all(found), "row groups keep all subtasks busy"
    inferred = parquet_source(str(tmp_path))
    assert str(inferred.type_info).startswith("RowTypeInfo(n: Long, s: String, d: Double, at: Instant, ")
    assert sum(batch.num_rows for batch in read_batches(inferred, parallelism)) == 2000


def test_parquet_columns_by_name(tmp_path):
    pq.write_table(pa.table({"A": [1, 2], "b": ["x", None], "c": [1.0, 2.0]}), tmp_path / "t.parquet")
    wanted = Types.ROW_NAMED(["b", "A"], [Types.STRING(), Types.INT()])
    assert fields(read_values(parquet_source(str(tmp_path), type_info=wanted))) == [("x", 1), (None, 2)]
    other_case = Types.ROW_NAMED(["a", "zz"], [Types.LONG(), Types.STRING()])
    with pytest.raises(ValueError, match="must have the column 'a'"):
        read_values(parquet_source(str(tmp_path), type_info=other_case))
    lenient = ParquetColumnarRowInputFormat(other_case, is_case_sensitive=False)
    source = FileSource.for_bulk_file_format(lenient, str(tmp_path)).build()
    assert fields(read_values(source)) == [(1, None), (2, None)]
    (batch,) = read_batches(source)
    assert batch.schema.names == ["a", "zz"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no file"):
        parquet_source(str(tmp_path / "empty"))
    with pytest.raises(TypeError, match="row type"):
        ParquetColumnarRowInputFormat(Types.INT())  # type: ignore[arg-type]


def test_avro_is_refused():
    for refused in (AvroParquetReaders, AvroParquetWriters):
        with pytest.raises(NoJavaError, match="Avro"):
            refused.for_generic_record(None)


def test_values_without_fields_are_one_column(tmp_path):
    write(ParquetSink(str(tmp_path), Types.LONG()), [[[1, 2], [3]]])
    assert pq.read_table(tmp_path).to_pydict() == {"value": [1, 2, 3]}
    with pytest.raises(TypeError, match="declared type"):
        ParquetSink(str(tmp_path), Types.PICKLED_BYTE_ARRAY())


FLAT = Types.ROW_NAMED(
    ["n", "s", "d", "b", "day"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.SQL_DATE()],
)
FLAT_ROWS = [
    (
        number,
        ["plain", 'quo"te', "com,ma", "", None, " space "][number % 6],
        number / 7 if number % 3 else None,
        number % 2 == 0,
        datetime.date(2024, 1, 1 + number % 28),
    )
    for number in range(3000)
]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_csv_comes_back(tmp_path, small_pieces, parallelism):
    rows = [Row(*one) for one in FLAT_ROWS]
    write(CsvSink(str(tmp_path), FLAT), [[rows[:7], rows[7:1000]], [rows[1000:]]], FLAT)
    assert len(files_in(tmp_path)) == 2
    found = read_subtasks(csv_source(str(tmp_path), type_info=FLAT), parallelism)
    assert sorted(map(str, fields(chain.from_iterable(found)))) == sorted(map(str, FLAT_ROWS))
    assert all(found)
    batches = read_batches(csv_source(str(tmp_path), type_info=FLAT), parallelism)
    assert sum(batch.num_rows for batch in batches) == 3000
    assert batches[0].schema.names == FLAT.get_field_names()


def test_csv_columns_by_name(tmp_path):
    (tmp_path / "a.csv").write_text('n;s;x\n1;"a;b";9\n2;;8\n')
    (tmp_path / "b.csv").write_text("s;n\nc;3\n")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"n;s\n4;d\n"))
    two = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
    source = csv_source(str(tmp_path), type_info=two, delimiter=";")
    assert fields(read_values(source)) == [(1, "a;b"), (2, None), (3, "c"), (4, "d")]
    bare = csv_source(str(tmp_path / "b.csv"), type_info=Types.ROW([Types.STRING(), Types.STRING()]),
                      header=False, delimiter=";")  # fmt: skip
    assert fields(read_values(bare)) == [("s", "n"), ("c", "3")]
    with pytest.raises(ValueError, match="must have the column 'q'"):
        read_values(csv_source(str(tmp_path), type_info=Types.ROW_NAMED(["q"], [Types.INT()]), delimiter=";"))
    with pytest.raises(TypeError, match="in CSV"):
        csv_source(str(tmp_path), type_info=Types.ROW([Types.LIST(Types.INT())]))
    with pytest.raises(TypeError, match="in CSV"):
        CsvSink(str(tmp_path), Types.ROW([Types.INSTANT(), Types.LIST(Types.INT())]))


def test_a_header_may_be_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "SMALLEST_PIECE", 10)
    name = "n" * 100
    (tmp_path / "a.csv").write_text(f"{name}\n" + "".join(f"{number}\n" for number in range(200)))
    source = csv_source(str(tmp_path), type_info=Types.ROW_NAMED([name], [Types.INT()]))
    for parallelism in (1, 5, 50):
        assert sorted(row[0] for row in read_values(source, parallelism)) == list(range(200))


def test_csv_without_header_and_with_another_delimiter(tmp_path):
    write(CsvSink(str(tmp_path), FLAT, header=False, delimiter="|"), [[[Row(1, "a|b", 0.5, True, None)]]])
    (name,) = files_in(tmp_path)
    assert (tmp_path / name).read_text() == '1|"a|b"|0.5|true|\n'


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_json_lines_come_back(tmp_path, small_pieces, parallelism):
    type_info = Types.ROW_NAMED(
        ["n", "s", "l", "r"],
        [Types.LONG(), Types.STRING(), Types.LIST(Types.INT()), Types.ROW_NAMED(["x"], [Types.DOUBLE()])],
    )
    rows = [Row(number, f"é {number}\n", [1, None], Row(number / 2)) for number in range(1000)]
    write(JsonLinesSink(str(tmp_path), type_info), [[rows[:500]], [rows[500:]]], type_info)
    first = (tmp_path / files_in(tmp_path)[0]).read_text().split("\n")[1]
    assert json.loads(first) == {"n": 1, "s": "é 1\n", "l": [1, None], "r": {"x": 0.5}}
    source = json_lines_source(str(tmp_path), type_info=type_info)
    found = read_subtasks(source, parallelism)
    assert sorted(fields(chain.from_iterable(found)), key=lambda one: one[0]) == fields(rows)
    assert all(found)
    columns = [batch.to_pylist() for batch in read_batches(source, parallelism)]
    assert sorted((one["n"], one["l"], one["r"]["x"]) for some in columns for one in some) == [
        (number, [1, None], number / 2) for number in range(1000)
    ]


def test_json_without_type(tmp_path):
    values = [{"a": [1, None]}, [1.5, "x"], "text", None, 3]
    write(JsonLinesSink(str(tmp_path)), [[values]])
    source = json_lines_source(str(tmp_path))
    assert read_values(source) == values
    with pytest.raises(ValueError, match="schema is not declared"):
        source.batches()
    (tmp_path / "bad.jsonl").write_text('\n{"a": 1}\n{"a":\n')
    with pytest.raises(ValueError, match=r"line b'\{\"a\":'"):
        read_values(json_lines_source(str(tmp_path / "bad.jsonl")))


def test_data_types_are_types():
    row_type = DataTypes.ROW(
        [DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.ARRAY(DataTypes.STRING()))]
    )
    assert str(row_type) == "RowTypeInfo(a: Integer, b: ObjectArrayTypeInfo<String>)"
    assert DataTypes.DECIMAL(10, 2) == Types.BIG_DEC()
    with pytest.raises(ValueError, match="38 digits"):
        DataTypes.DECIMAL(39, 2)
