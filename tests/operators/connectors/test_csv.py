"""CSV against what PyFlink 2.3.0 wrote and read; where a text stands here, Flink wrote it."""

from decimal import Decimal

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.file_sink import FileSink
from penstock.operators.connectors.file_sink_settings import BucketAssigner
from penstock.operators.formats.csv_files import CsvBulkWriters, CsvReaderFormat
from penstock.operators.formats.csv_rows import CsvSchema
from penstock.operators.formats.data_types import DataTypes
from tests.operators.connectors.run_connectors import travel, write
from tests.operators.connectors.small_csv_schemas import TWO_STRINGS, two


def written(folder, schema, rows, type_info=None):
    factory = travel(CsvBulkWriters.for_schema(schema))
    sink = (
        FileSink.for_bulk_format(str(folder), factory)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    write(sink, [[rows]], type_info)
    (path,) = folder.iterdir()
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("schema", "rows", "expected"),
    [
        (
            two(),
            [
                ("", "x"),
                (" ", "a b"),
                ("a,b", 'a"b'),
                ("a;b", "a'b"),
                ("a\nb", "a\rb"),
                ("#a", "-1"),
                ("a\\b", "é"),
            ],
            ',x\n" ","a b"\n"a,b","a""b"\na;b,"a\'b"\n"a\nb","a\rb"\n"#a",-1\n"a\\b",é\n',
        ),
        (two(), [("x" * 24, "x" * 25)], f'{"x" * 24},"{"x" * 25}"\n'),
        (two(), [(None, "x"), (None, None), ("", "null")], ",x\n,\n,null\n"),
        (two().set_null_value("NULL"), [(None, "NULL"), ("x", None)], "NULL,NULL\nx,NULL\n"),
        (two().set_null_value("a b"), [(None, "a b")], 'a b,"a b"\n'),
        (
            two().set_column_separator("|"),
            [("a|b", "c,d"), ("a b", "z"), ("{", "}")],
            '"a|b"|"c,d"\n"a b"|"z"\n"{"|}\n',
        ),
        (two().set_column_separator("\t"), [("a,b", "z(")], "a,b\tz(\n"),
        (two().disable_quote_char(), [("a,b", 'c"d'), ("a\\b", "z")], 'a,b,c"d\na\\b,z\n'),
        (two().set_quote_char("'"), [("a,b", "c'd"), ('a"b', "z")], "'a,b','c''d'\n'a\"b',z\n"),
        (two().set_quote_char("{"), [("ab", "z|"), ("a{b", "~")], "{ab{,{z|{\n{a{{b{,~\n"),
        (two().set_escape_char("\\"), [("a,b", 'c"d'), ("a\\b", "z")], '"a,b","c""d"\n"a\\\\b",z\n'),
        (
            two().set_escape_char("|"),
            [("a|b", "zb"), ("{", "}"), ('q"q', "a,|b"), ("a\\b", "zb")],
            '"a||b",zb\n{,}\n"q""q","a,||b"\na\\b,zb\n',
        ),
        (two().set_line_separator(";;"), [("a;b", "b"), ("c", "d")], '"a;b",b;;c,d;;'),
        (two().set_line_separator(""), [("a", "b"), ("c", "d")], "a,bc,d"),
        (two().set_use_header(), [("a", "b")], "a,b\na,b\n"),
        (
            CsvSchema.builder().add_string_column("a b").add_string_column("c,d").set_use_header(),
            [("a", "b")],
            '"a b","c,d"\na,b\n',
        ),
        (
            CsvSchema.builder().add_number_column("x").add_number_column("y").set_column_separator("1"),
            [(11, 2)],
            "1112\n",
        ),
    ],
)
def test_flink_writes_the_same(tmp_path, schema, rows, expected):
    assert written(tmp_path, schema.build(), [Row(*row) for row in rows], TWO_STRINGS) == expected


def test_flink_writes_the_same_numbers(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_number_column("i")
        .add_number_column("d", DataTypes.DOUBLE())
        .add_number_column("f", DataTypes.FLOAT())
        .add_boolean_column("b")
        .add_number_column("s", DataTypes.SMALLINT())
        .add_number_column("dec", DataTypes.DECIMAL(10, 2))
        .build()
    )
    rows = [
        Row(1, 1.0, 0.1, True, 3, Decimal("1.5")),
        Row(-1, 1e10, 1e10, False, -3, Decimal(-100)),
        Row(None, None, None, None, None, None),
        Row(0, float("nan"), float("inf"), False, 0, Decimal("1e3")),
    ]
    expected = "1,1.0,0.1,true,3,1.5\n-1,1.0E10,1.0E10,false,-3,-1E+2\n,,,,,\n0,NaN,Infinity,false,0,1E+3\n"
    assert written(tmp_path, schema, rows) == expected


def test_flink_writes_the_same_arrays(tmp_path):
    schema = CsvSchema.builder().add_array_column("a").add_array_column("b", ",", Types.INT()).build()
    rows = [
        Row(["x", "y;z"], [1, 2]),
        Row([], []),
        Row(["a b"], [1]),
        Row(None, None),
        Row(["x", None], [1, None]),
    ]
    assert written(tmp_path, schema, rows) == 'x;y;z,"1,2"\n,\n"a b",1\n,\nx;,"1,"\n'


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (CsvSchema.builder().add_array_column("a", ","), '"x,y"\n'),
        (CsvSchema.builder().add_array_column("a", ",").set_array_element_separator("|"), '"x,y"\n'),
        (CsvSchema.builder().add_array_column("a", ",").remove_array_element_separator(0), "x;y\n"),
        (
            CsvSchema.builder()
            .add_array_column("a", ",")
            .remove_array_element_separator(0)
            .set_array_element_separator("|"),
            "x|y\n",
        ),
    ],
)
def test_separators_of_arrays(tmp_path, builder, expected):
    assert written(tmp_path, builder.build(), [Row(["x", "y"])]) == expected


def test_an_array_without_separator_is_refused():
    builder = CsvSchema.builder().add_array_column("a").remove_array_element_separator(0)
    with pytest.raises(ValueError, match="separator"):
        CsvBulkWriters.for_schema(builder.disable_array_element_separator().build())


def test_the_schema():
    schema = two().build()
    assert len(schema) == schema.size() == 2
    assert schema.row_type.get_field_names() == ["a", "b"]
    assert len(CsvSchema.builder().add_columns_from(schema).add_number_column("c").build()) == 3
    assert two().clear_columns().size() == 0
    for call in ("set_column_separator", "set_quote_char", "set_escape_char"):
        with pytest.raises(ValueError, match="single char"):
            getattr(two(), call)("||")
    with pytest.raises(TypeError, match="a type is required"):
        CsvSchema.builder().add_number_column("n", int)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="twice"):
        two().add_string_column("a").build()
    assert "a: String" in str(schema)


def test_streams_of_other_records_are_refused(tmp_path):
    sink = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(two().build())).build()
    with pytest.raises(TypeError, match="2 fields"):
        sink.start(type_info=Types.ROW([Types.STRING()]))
    with pytest.raises(TypeError, match="2 fields"):
        sink.start(type_info=Types.TUPLE([Types.STRING(), Types.STRING()]))
    assert sink.start(type_info=Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(TypeError, match="CSV cannot represent"):
        CsvReaderFormat.for_schema(CsvSchema.builder().add_number_column("d", Types.SQL_DATE()).build())
    with pytest.raises(NoJavaError):
        CsvReaderFormat(object())  # type: ignore[arg-type]
