"""Messages against what Flink 2.3.0's schemas made of the same rows and bytes."""

import datetime
import pickle
from decimal import Decimal

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.formats.csv_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.operators.formats.json_values import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    type_of_json_schema,
)
from penstock.operators.formats.part_formats import (
    ByteArraySchema,
    Encoder,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)

SIMPLE = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.INT(), Types.BOOLEAN()])
NESTED = Types.ROW_NAMED(
    ["r", "arr", "by"],
    [
        Types.ROW_NAMED(["p", "q"], [Types.INT(), Types.STRING()]),
        Types.BASIC_ARRAY(Types.STRING()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ],
)
TIMES = Types.ROW_NAMED(
    ["d", "t", "ts", "dec", "f", "i"],
    [
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.BIG_DEC(),
        Types.DOUBLE(),
        Types.INSTANT(),
    ],
)
MOMENT = Row(
    d=datetime.date(2024, 1, 2),
    t=datetime.time(3, 4, 5),
    ts=datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
    dec=Decimal("1.50"),
    f=1e10,
    i=Instant(1, 500_000_000),
)
TO_CSV, FROM_CSV = CsvRowSerializationSchema.Builder, CsvRowDeserializationSchema.Builder
TO_JSON, FROM_JSON = JsonRowSerializationSchema.builder, JsonRowDeserializationSchema.builder


def travel(schema):
    return pickle.loads(pickle.dumps(schema))


@pytest.mark.parametrize(
    ("builder", "row", "expected"),
    [
        (TO_CSV(SIMPLE), Row("x y", 1, True), b'"x y",1,true\n'),
        (TO_CSV(SIMPLE), Row(None, None, None), b",,\n"),
        (TO_CSV(SIMPLE).set_null_literal("N"), Row(None, None, None), b"N,N,N\n"),
        (
            TO_CSV(SIMPLE).set_line_delimiter("\r\n").set_field_delimiter("|"),
            Row("x", 1, True),
            b'"x"|1|true\r\n',
        ),
        (TO_CSV(SIMPLE).set_line_delimiter(""), Row("x", 1, True), b"x,1,true"),
        (TO_CSV(SIMPLE).disable_quote_character(), Row("x,y", 1, True), b"x,y,1,true\n"),
        (TO_CSV(NESTED), Row(Row(1, "z"), ["u", "v"], b"hi!"), b"1;z,u;v,aGkh\n"),
        (
            TO_CSV(NESTED)
            .set_array_element_delimiter(":")
            .set_quote_character("'")
            .set_escape_character("\\"),
            Row(Row(1, "z'"), ["u", "v,"], b"hi!"),
            b"'1:z''','u:v,',aGkh\n",
        ),
        (
            TO_CSV(TIMES),
            MOMENT,
            b'2024-01-02,03:04:05,"2024-01-02 03:04:05.678",1.50,1.0E10,"1970-01-01 00:00:01.5Z"\n',
        ),
        (
            TO_JSON().with_type_info(SIMPLE),
            Row('x "y" é\n/', 1, True),
            '{"a":"x \\"y\\" é\\n/","b":1,"c":true}'.encode(),
        ),
        (TO_JSON().with_type_info(SIMPLE), Row(None, None, None), b'{"a":null,"b":null,"c":null}'),
        (
            TO_JSON().with_type_info(NESTED),
            Row(Row(1, "z"), ["u", "v"], b"hi!"),
            b'{"r":{"p":1,"q":"z"},"arr":["u","v"],"by":"aGkh"}',
        ),
        (
            TO_JSON().with_type_info(TIMES),
            MOMENT,
            b'{"d":"2024-01-02","t":"03:04:05Z","ts":"2024-01-02T03:04:05.678Z","dec":1.50,"f":1.0E10,'
            b'"i":"1970-01-01T00:00:01.500Z"}',
        ),
        (
            TO_JSON().with_type_info(
                Types.ROW_NAMED(
                    ["m", "l", "o"],
                    [
                        Types.MAP(Types.STRING(), Types.INT()),
                        Types.LIST(Types.STRING()),
                        Types.OBJECT_ARRAY(Types.ROW([Types.INT()])),
                    ],
                )
            ),
            Row({"k": 1}, ["s"], [Row(5)]),
            b'{"m":{"k":1},"l":["s"],"o":[{"f0":5}]}',
        ),
        (TO_JSON().with_type_info(Types.ROW([Types.DOUBLE()])), Row(float("nan")), b'{"f0":"NaN"}'),
    ],
)
def test_flink_serializes_the_same(builder, row, expected):
    assert travel(builder.build()).serialize(row) == expected


CSV_TIMES = b"2024-01-02,03:04:05,2024-01-02 03:04:05.678,1.50,1e10,1970-01-01 00:00:01.5Z"


@pytest.mark.parametrize(
    ("builder", "message", "expected"),
    [
        (FROM_CSV(SIMPLE), b"x,1,true", ("x", 1, True)),
        (FROM_CSV(SIMPLE), b" x , 1 , TRUE ", (" x ", 1, True)),
        (FROM_CSV(SIMPLE), b",1,true", ("", 1, True)),
        (FROM_CSV(SIMPLE), b'"a ""b",1,yes\n', ('a "b', 1, False)),
        (FROM_CSV(SIMPLE), b"x,1,true\ny,2,false", ("x", 1, True)),
        (FROM_CSV(SIMPLE).set_ignore_parse_errors(True), b"x,1", ("x", 1, None)),
        (FROM_CSV(SIMPLE).set_ignore_parse_errors(True), b"x,q,true", ("x", None, True)),
        (FROM_CSV(SIMPLE).set_null_literal("N").set_field_delimiter("|"), b"N|N|N", (None, None, None)),
        (FROM_CSV(SIMPLE).set_allow_comments(True), b"#x,1,true\ny,2,true", ("y", 2, True)),
        (
            FROM_CSV(NESTED).set_array_element_delimiter(":"),
            b"1:z,u:v,aGkh",
            (Row(p=1, q="z"), ["u", "v"], b"hi!"),
        ),
        (FROM_CSV(NESTED).set_array_element_delimiter(":"), b"1:z,,", (Row(p=1, q="z"), [], b"")),
        (FROM_CSV(TIMES), CSV_TIMES, tuple(MOMENT)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":"x","b":1,"c":true}', ("x", 1, True)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":1,"b":"7","c":"TRUE"}', ("1", 7, True)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":{"z":1},"b":1.7,"c":0}', ('{"z":1}', 1, False)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":true,"b":" 3 ","c":"no"}', ("true", 3, False)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":[1,2]}', ("[1,2]", None, None)),
        (FROM_JSON().type_info(SIMPLE), b'{"a":null,"zz":1}', (None, None, None)),
        (FROM_JSON().type_info(SIMPLE).ignore_parse_errors(), b'{"a":"x","b":"q"}', ("x", None, None)),
        (
            FROM_JSON().type_info(NESTED),
            b'{"r":{"p":1},"arr":["u",null],"by":"aGkh"}',
            (Row(p=1, q=None), ["u", None], b"hi!"),
        ),
        (
            FROM_JSON().type_info(TIMES),
            b'{"d":"2024-01-02","t":"03:04:05Z","ts":"2024-01-02T03:04:05.678Z","dec":"1.50","f":"1e10",'
            b'"i":"1970-01-01T00:00:01.5Z"}',
            tuple(MOMENT),
        ),
        (FROM_JSON().type_info(Types.ROW([Types.BIG_DEC()])), b'{"f0":1.50}', (Decimal("1.50"),)),
        (
            FROM_JSON().type_info(Types.ROW([Types.MAP(Types.STRING(), Types.INT())])),
            b'{"f0":{"a":1,"b":null}}',
            ({"a": 1, "b": None},),
        ),
    ],
)
def test_flink_deserializes_the_same(builder, message, expected):
    row = travel(builder.build()).deserialize(message)
    assert tuple(row) == expected
    if isinstance(expected[-1], Decimal):
        assert str(row[0]) == "1.50"


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (FROM_CSV(SIMPLE).set_ignore_parse_errors(True), b"x,1,true,z"),
        (FROM_CSV(SIMPLE).set_ignore_parse_errors(True), b""),
        (FROM_JSON().type_info(SIMPLE), b"null"),
        (FROM_JSON().type_info(SIMPLE).ignore_parse_errors(), b"nope"),
    ],
)
def test_some_messages_are_no_row(builder, message):
    assert builder.build().deserialize(message) is None


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (FROM_CSV(SIMPLE), b"x,1"),
        (FROM_CSV(SIMPLE), b"x,1,true,z"),
        (FROM_CSV(SIMPLE), b"x,,true"),
        (FROM_CSV(SIMPLE), b""),
        (FROM_CSV(NESTED), b"1,u,aGkh"),
        (FROM_CSV(TIMES), CSV_TIMES.replace(b"2 03:04:05.678", b"2T03:04:05.678")),
        (FROM_JSON().type_info(SIMPLE), b'{"a":"x","b":"q"}'),
        (FROM_JSON().type_info(SIMPLE), b"[1]"),
        (FROM_JSON().type_info(SIMPLE), b"nope"),
        (FROM_JSON().type_info(SIMPLE), b""),
        (FROM_JSON().type_info(SIMPLE).fail_on_missing_field(), b'{"b":1}'),
        (FROM_JSON().type_info(NESTED), b'{"r":5}'),
        (FROM_JSON().type_info(TIMES), b'{"t":"03:04:05"}'),
        (FROM_JSON().type_info(TIMES), b'{"ts":"2024-01-02 03:04:05"}'),
    ],
)
def test_what_flink_refuses_is_refused(builder, message):
    with pytest.raises(ValueError, match="failed to deserialize"):
        builder.build().deserialize(message)


def test_builders_refuse():
    with pytest.raises(ValueError, match="delimiter must be"):
        TO_CSV(SIMPLE).set_line_delimiter(";")
    with pytest.raises(ValueError, match="must have 3 fields"):
        TO_CSV(SIMPLE).build().serialize(Row("x", 1))
    for builder in (TO_CSV, FROM_CSV):
        with pytest.raises(TypeError, match="must not be None"):
            builder(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be a row type"):
            builder(Types.INT())
        with pytest.raises(TypeError, match="cannot represent"):
            builder(Types.ROW([Types.MAP(Types.STRING(), Types.STRING())])).build()
    with pytest.raises(TypeError, match="Typeinfo should be set"):
        TO_JSON().build()
    with pytest.raises(TypeError, match="a type is required"):
        FROM_JSON().build()
    with pytest.raises(ValueError, match="cannot be combined"):
        FROM_JSON().type_info(SIMPLE).fail_on_missing_field().ignore_parse_errors().build()


def test_types_of_json_schemas():
    schema = """{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"},
        "c": {"type": "number"}, "d": {"type": "boolean"},
        "e": {"type": "array", "items": {"type": "string"}},
        "f": {"type": "object", "properties": {"g": {"$ref": "#/definitions/x"}}},
        "h": {"type": "string", "format": "date"}, "i": {"type": "string", "format": "time"},
        "j": {"type": "string", "format": "date-time"}, "k": {"type": ["null", "string"]},
        "l": {"type": "string", "contentEncoding": "base64"},
        "m": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "n": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}},
        "definitions": {"x": {"type": "number"}}}"""
    assert str(FROM_JSON().json_schema(schema).build().type_info) == (
        "RowTypeInfo(a: String, b: BigDecimal, c: BigDecimal, d: Boolean, e: BasicArrayTypeInfo<String>, "
        "f: RowTypeInfo(g: BigDecimal), h: DateTypeInfo, i: TimeTypeInfo, j: TimestampTypeInfo, k: String, "
        "l: PrimitiveArrayTypeInfo<Byte>, m: BigDecimal, n: RowTypeInfo(f0: String, f1: BigDecimal))"
    )
    for wrong in ('{"type": ["string", "number"]}', '{"type": "null"}', '{"type": "array"}', '{"$ref": "#"}'):
        with pytest.raises(ValueError, match=r"."):
            type_of_json_schema(wrong)


def test_other_schemas():
    assert SimpleStringSchema("latin-1").serialize("é€") == b"\xe9?"
    assert SimpleStringSchema().deserialize("é".encode()) == "é"
    assert ByteArraySchema().deserialize(ByteArraySchema().serialize(b"x")) == b"x"
    extractor = RowFieldExtractorSchema(1)
    assert extractor.serialize(Row("a", b"key")) == b"key"
    assert extractor.serialize(Row("a", None)) == b""
    with pytest.raises(TypeError, match="must be bytes"):
        RowFieldExtractorSchema(0).serialize(Row("a", b"key"))
    with pytest.raises(ValueError, match="non-negative"):
        RowFieldExtractorSchema(-1)
    for refused in (SerializationSchema, Encoder):
        with pytest.raises(NoJavaError):
            refused(object())
