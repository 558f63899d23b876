"""CSV against what PyFlink 2.3.0 read; where a text stands here, Flink wrote it."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.file_source import FileSource
from penstock.operators.formats import csv_files
from penstock.operators.formats import csv_files as csv_blocks
from penstock.operators.formats.csv_files import CsvReaderFormat
from penstock.operators.formats.csv_rows import CsvSchema
from penstock.operators.formats.data_types import DataTypes
from tests.operators.connectors.run_connectors import read_values
from tests.operators.connectors.small_csv_schemas import numbers, two


def read(folder, schema, text):
    path = folder / "in.csv"
    path.write_bytes(text.encode())
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    return read_values(source, 2)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (
            two(),
            'a,b\nc,d\r\n"q,1","x""y"\n,\n"",""\rlast,row',
            [("a", "b"), ("c", "d"), ("q,1", 'x"y'), ("", ""), ("", ""), ("last", "row")],
        ),
        (two(), ' e , f \n "q" , "r" \n', [(" e ", " f "), (' "q" ', ' "r" ')]),
        (two(), 'a"b,c\n', [('a"b', "c")]),
        (two(), '"a" ,"b"\t\n"c""d"  ,"e\nf" \r\n', [("a", "b"), ('c"d', "e\nf")]),
        (two().set_column_separator("\t"), '"a" \t"b" \n""\t\n', [("a", "b"), ("", "")]),
        (two().set_escape_char("\\"), '"a\\"" ,"b\\\\" \n', [('a"', "b\\")]),
        (two(), '"a\nb",c\n', [("a\nb", "c")]),
        (two(), "a,b,\n", [("a", "b")]),
        (two(), "\ufeffa,b\n", [("a", "b")]),
        (two(), "", []),
        (two().set_any_property_name("rest"), "a,b,c,d\n", [("a", "b")]),
        (two().set_use_header(), "b,a\n1,2\n", [("1", "2")]),
        (two().set_use_header(), "a,b\n", []),
        (two().set_use_header().set_strict_headers(), '"a","b"\n1,2\n', [("1", "2")]),
        (two().set_skip_first_data_row(), "x,a\n1,2\n", [("1", "2")]),
        (two().set_use_header().set_skip_first_data_row(), "a,b\nx,a\n1,2\n", [("1", "2")]),
        (
            two().set_allow_comments(),
            '#x,a\n1,2\n #3,4\n5,#6\n"#7\n#8",9\n',
            [("1", "2"), ("5", "#6"), ("#7\n#8", "9")],
        ),
        (two().set_allow_comments().set_use_header(), "#c\na,b\nd,e\n", [("d", "e")]),
        (two(), "#x,a\n", [("#x", "a")]),
        (two().set_null_value("N"), 'N,a\n"N",2\n,3\n', [(None, "a"), (None, "2"), ("", "3")]),
        (
            two().set_escape_char("\\"),
            'a\\,b,c\n"x\\"y",\\n\na\\tb,\\0\\r\\x\\\\\n',
            [("a,b", "c"), ('x"y', "\n"), ("a\tb", "\0\rx\\")],
        ),
        (two().set_quote_char("'"), "'a,b',\"c\"\n", [("a,b", '"c"')]),
        (two().disable_quote_char(), '"a","c"\n', [('"a"', '"c"')]),
        (two().set_column_separator("|"), 'a|b\n"x|y"|z\n', [("a", "b"), ("x|y", "z")]),
        (
            CsvSchema.builder().add_string_column("a"),
            'x\n\ny\n \n""\nz\n',
            [("x",), ("",), ("y",), (" ",), ("",), ("z",)],
        ),
        (
            CsvSchema.builder()
            .add_number_column("i")
            .add_boolean_column("b")
            .add_number_column("d", Types.DOUBLE()),
            "1,true,1.5\n 3 , TRUE , 4.5 \n-7,yes,1e3\n",
            [(1, True, 1.5), (3, True, 4.5), (-7, False, 1000.0)],
        ),
        (
            CsvSchema.builder()
            .add_number_column("f", Types.FLOAT())
            .add_number_column("d", DataTypes.DECIMAL(5, 2)),
            "0.1,3.456\n1,123456.7\n",
            [(0.10000000149011612, Decimal("3.46")), (1.0, None)],
        ),
        (
            CsvSchema.builder()
            .add_array_column("a")
            .add_array_column("n", ",", Types.INT())
            .set_column_separator("|"),
            'x;y|1,2\n|\n"x;y"|"1,2"\n x ; y | 1 , 2 \nx;;y|1\n',
            [
                (["x", "y"], [1, 2]),
                ([], []),
                (["x", "y"], [1, 2]),
                ([" x ", " y "], [1, 2]),
                (["x", "", "y"], [1]),
            ],
        ),
        (
            CsvSchema.builder().add_number_column("n").add_array_column("a").set_null_value("N"),
            "N,N\n1,N;x\n",
            [(None, [None]), (1, [None, "x"])],
        ),
    ],
)
def test_flink_reads_the_same(tmp_path, schema, text, expected):
    rows = read(tmp_path, schema.build(), text)
    assert [tuple(row) for row in rows] == expected
    assert all(row._names == schema.build().row_type.get_field_names() for row in rows)


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (two(), "a\nb,c\n", "must have 2"),
        (two(), "e,f\n\n", "must have 2"),
        (two(), "a,b,c\n", "at most 2"),
        (two(), '"a"b,c\n', "line 1"),
        (two(), 'a,"b\n', "line 1"),
        (two().set_use_header().set_strict_headers(), "b,a\n1,2\n", "header"),
        (two().set_use_header().set_strict_headers(), "a,b,c\n1,2\n", "header"),
        (CsvSchema.builder().add_number_column("i"), "\n", "is not a whole number"),
        (CsvSchema.builder().add_number_column("i"), "1.5\n", "is not a whole number"),
        (CsvSchema.builder().add_number_column("i"), "1_0\n", "is not a whole number"),
        (CsvSchema.builder().add_number_column("i", Types.INT()), "3000000000\n", "32 bits"),
        (CsvSchema.builder().add_number_column("i", Types.DOUBLE()), "inf\n", "is not a number"),
    ],
)
def test_what_flink_refuses_is_refused(tmp_path, schema, text, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(tmp_path, schema.build(), text)
    assert "in.csv" in raised.value.__notes__[0]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(['"', ",", "\n", "1", "0x1", "-7", "N", " ", "é", "\r", "\n1,2\n", '"a""b",3\n'])
    ),
    st.sampled_from([two(), two().set_null_value("N"), two().disable_quote_char(), numbers()]),
    st.integers(1, 20),
)
def test_blocks_are_read_as_records_are(tmp_path_factory, parts, builder, block_bytes):
    folder = tmp_path_factory.mktemp("csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "_BLOCK", block_bytes)
        blocks = outcome(folder, builder.build(), "".join(parts))
        patch.setattr(csv_files, "can_be_plain", lambda schema: False)
        assert outcome(folder, builder.build(), "".join(parts)) == blocks


def test_plain_blocks_are_read_by_arrow(tmp_path):
    schema = numbers().build()
    path = tmp_path / "in.csv"
    path.write_bytes(b'1,"a\n""b"\n2,c')
    with path.open("rb") as file:
        blocks = list(csv_blocks.plain_blocks(file, schema))
    assert blocks == [b'1,"a\n""b"\n', b"2,c"]
    rows = [csv_blocks.rows_of_block(block or b"", schema, ["n", "x"]) for block in blocks]
    assert [tuple(row) for block in rows for row in block or ()] == [(1, 'a\n"b'), (2, "c")]


def outcome(folder, schema, text):
    try:
        return [tuple(row) for row in read(folder, schema, text)]
    except (ValueError, UnicodeError) as error:
        return type(error), str(error)


def test_a_file_is_read_in_chunks_and_compressed_ones_too(tmp_path):
    import gzip

    text = "".join(f"{number},x\n" for number in range(10_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    schema = CsvSchema.builder().add_number_column("n").add_string_column("x").build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()
    assert [row[0] for row in read_values(source)] == list(range(10_000))
