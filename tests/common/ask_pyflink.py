"""Writes pyflink_trips.jsonl: what the real PyFlink makes of values and keys. Not a test.

usage: python ask_pyflink.py > pyflink_trips.jsonl, with a Python that has apache-flink 2.3.0, in time zone UTC.

Every value goes the way of a key of `key_by`: encoded by PyFlink's coder, read by Flink's serializer of a Row
with one field, hashed and put into a key group there, written again, decoded by PyFlink. A line has a type, and
of each value: its expression, the hash and key group of the Java Row, and the repr of what came back.
"""

# ruff: noqa: E402
import datetime
import json
import random
from decimal import Decimal

from pyflink.common import Instant, Row, RowKind, Types  # type: ignore[import-not-found]
from pyflink.fn_execution.coders import from_type_info_proto  # type: ignore[import-not-found]
from pyflink.fn_execution.flink_fn_execution_pb2 import TypeInfo  # type: ignore[import-not-found]
from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]

random.seed(7)
NAMES = {"datetime": datetime, "Decimal": Decimal, "Instant": Instant, "Row": Row, "RowKind": RowKind, "Types": Types}
WORDS = ["", "a", "key-é-0", "naïve", "日本語", "\U0001f600 smile", "x" * 300, "n" * 255, "m" * 256]
INTS = [0, 1, -1, 127, -128, 255, 256, 32767, 65535, 65536, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 2**31, -(2**31) - 1, 2**32, 2**39, 2**47 - 1, -(2**55), 2**63 - 1, -(2**63), 9_000_000_007]
FLOATS = [0.0, -0.0, 1.0, 1.5, 0.1, -2.75e10, 1e-40, 3.4e38, float("inf"), float("-inf"), float("nan")]
DATES = [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(1600, 3, 1)]
TIMES = [datetime.time(0, 0), datetime.time(23, 59, 59, 999000), datetime.time(1, 2, 3, 456789)]
STAMPS = [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 12, 30, 1, 123000), datetime.datetime(2001, 9, 9, 1, 46, 40, 678901)]
DECIMALS = ["0", "1.10", "-1.1", "1E+3", "0.000001", "12345678901234567890.123456789", "-0", "0E-10", "1e30"]
BYTES = [b"", b"a", b"\x00\xff\x80", bytes(range(256))]
DICTS = [{}, {"a": 1}, {"n": 1, "m": 2}, {f"k{i}": i for i in range(20)}, {c: ord(c) for c in "zyxwvu"}, {"x": None}]


def spread(bits: int) -> list[int]:
    return [random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(20)]


def fitting(values: list[int], bits: int) -> list[int]:
    return [value for value in values if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)]


LISTS = [[], [1], [1, 2, 3], [-5, 2**31 - 1], list(range(100))]
WORD_LISTS = [[], [""], ["a", "é"], ["b"] * 3]
CASES: list[tuple[str, list[object]]] = [
    ("Types.BYTE()", [*fitting(INTS, 8)]),
    ("Types.SHORT()", [*fitting(INTS, 16)]),
    ("Types.INT()", [*INTS, *spread(32), True, 1.9, -1.9]),
    ("Types.LONG()", [*LONGS, *spread(64)]),
    ("Types.STRING()", [*WORDS, *[f"user-{i}" for i in range(20)]]),
    ("Types.BOOLEAN()", [True, False, 1, 0, 2]),
    ("Types.FLOAT()", [*FLOATS, 1, 1e300]),
    ("Types.DOUBLE()", [*FLOATS, *[i / 7 for i in range(20)], 3, True]),
    ("Types.BIG_DEC()", [*map(Decimal, DECIMALS), 5, 1.5]),
    ("Types.SQL_DATE()", [*DATES, datetime.datetime(2020, 1, 2, 3, 4)]),
    ("Types.SQL_TIME()", [*TIMES]),
    ("Types.SQL_TIMESTAMP()", [*STAMPS]),
    ("Types.INSTANT()", [Instant(0, 0), Instant(1, 2), Instant(-1, 999_999_999), Instant(2**40, 5)]),
    ("Types.PICKLED_BYTE_ARRAY()", [*WORDS, *LONGS, *FLOATS, True, None, b"ab", ("a", 1), ("a", 1.5, None), (1, (2, "x")), ["a", 2], 2**70, *DATES, Decimal("1.10"), (), ("u", "v", True)]),
    ("Types.TUPLE([Types.INT(), Types.STRING()])", [(i, f"t{i}") for i in range(8)]),
    ("Types.TUPLE([Types.LONG()])", [(5,), (-1,)]),
    ("Types.TUPLE([Types.TUPLE([Types.INT(), Types.BOOLEAN()]), Types.DOUBLE(), Types.STRING()])", [((1, True), 0.5, "a"), ((2, False), -0.0, "")]),
    ("Types.TUPLE([Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT())])", [(one, DICTS[i]) for i, one in enumerate(LISTS)]),
    ("Types.TUPLE([Types.ROW([Types.INT()]), Types.SQL_DATE(), Types.BIG_DEC()])", [(Row(3), DATES[1], Decimal("2.50"))]),
    ("Types.ROW([Types.INT(), Types.STRING()])", [Row(1, "r"), Row(None, "r"), Row(2, None), Row(None, None), *[Row.of_kind(k, 7, "k") for k in RowKind]]),
    ("Types.ROW_NAMED(['a', 'b'], [Types.ROW([Types.LONG(), Types.LIST(Types.STRING())]), Types.FLOAT()])", [Row(Row(2**40, ["x", "y"]), 1.5), Row(b=2.5, a=Row(1, [])), Row(None, 0.0)]),
    ("Types.ROW([Types.TUPLE([Types.INT(), Types.INT()]), Types.BASIC_ARRAY(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.INT()), Types.PRIMITIVE_ARRAY(Types.BYTE())])", [Row((1, 2), ["a", None], [1, 2], b"ab"), Row(None, [], [], b"")]),
    ("Types.ROW([Types.MAP(Types.STRING(), Types.LIST(Types.INT())), Types.PICKLED_BYTE_ARRAY()])", [Row({"a": [1, 2], "b": []}, "x"), Row(None, 5)]),
    ("Types.LIST(Types.INT())", [*LISTS]),
    ("Types.LIST(Types.STRING())", [*WORD_LISTS]),
    ("Types.LIST(Types.BYTE())", [*BYTES]),
    ("Types.LIST(Types.LIST(Types.LONG()))", [[], [[1], []], [[1, 2], [3]]]),
    ("Types.LIST(Types.TUPLE([Types.INT(), Types.STRING()]))", [[(1, "a"), (2, "b")]]),
    ("Types.MAP(Types.STRING(), Types.INT())", [*DICTS]),
    ("Types.MAP(Types.INT(), Types.STRING())", [{}, {i * 7919: str(i) for i in range(40)}, {3: "a", 2: "b", 1: "c"}]),
    ("Types.MAP(Types.LONG(), Types.DOUBLE())", [{2**33: 1.0, -5: 2.0, 7: None}]),
    ("Types.PRIMITIVE_ARRAY(Types.BYTE())", [*BYTES, bytearray(b"xy")]),
    ("Types.PRIMITIVE_ARRAY(Types.BOOLEAN())", [[], [True, False]]),
    ("Types.PRIMITIVE_ARRAY(Types.SHORT())", [[], [1, -5, 300]]),
    ("Types.PRIMITIVE_ARRAY(Types.INT())", [*LISTS]),
    ("Types.PRIMITIVE_ARRAY(Types.LONG())", [[2**40, -1]]),
    ("Types.PRIMITIVE_ARRAY(Types.FLOAT())", [[1.5, -0.0]]),
    ("Types.PRIMITIVE_ARRAY(Types.DOUBLE())", [[1.5, float("nan")]]),
    ("Types.BASIC_ARRAY(Types.STRING())", [*WORD_LISTS, ["a", None]]),
    ("Types.BASIC_ARRAY(Types.LONG())", [[], [1, None, 2**40]]),
    ("Types.BASIC_ARRAY(Types.BOOLEAN())", [[True, None]]),
    ("Types.OBJECT_ARRAY(Types.TUPLE([Types.INT(), Types.STRING()]))", [[], [(1, "a"), None]]),
    ("Types.OBJECT_ARRAY(Types.ROW([Types.INT()]))", [[Row(1), None, Row(None)]]),
]


def main() -> None:
    """Print a line a type."""
    jvm = get_gateway().jvm
    utils = jvm.org.apache.flink.streaming.api.utils.PythonTypeUtils
    assignment = jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment
    for text, values in CASES:
        java_type = Types.ROW([eval(text, NAMES)]).get_java_type_info()
        proto = TypeInfo()
        proto.ParseFromString(
            utils.TypeInfoToProtoConverter.toTypeInfoProto(java_type, None).toByteArray()
        )
        coder = from_type_info_proto(proto).get_impl()
        serializer = utils.TypeInfoToSerializerConverter.typeInfoSerializerConverter(java_type)
        found = []
        for value in values:
            encoded = coder.encode(Row(value))
            key = serializer.deserialize(jvm.org.apache.flink.core.memory.DataInputDeserializer(encoded))
            again = jvm.org.apache.flink.core.memory.DataOutputSerializer(64)
            serializer.serialize(key, again)
            back = coder.decode(bytes(again.getCopyOfBuffer()))[0]
            kind = back.get_row_kind().value if isinstance(back, Row) else 0
            found.append([expression(value), key.hashCode(), assignment.assignToKeyGroup(key, 32768), repr(back), kind])
        print(json.dumps({"type": text, "keys": found}))


def expression(value: object) -> str:
    """Python that gives `value`."""
    if isinstance(value, Row):
        if hasattr(value, "_fields"):
            pairs = ", ".join(f"{name}={expression(one)}" for name, one in zip(value._fields, value, strict=True))
            return f"Row({pairs})"
        return f"Row.of_kind(RowKind.{value.get_row_kind().name}, {', '.join(map(expression, value))})"
    if isinstance(value, Instant):
        return f"Instant({value.seconds}, {value.nanos})"
    if isinstance(value, float):
        return f"float({str(value)!r})"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(expression, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if value else ''})"
    return repr(value)


if __name__ == "__main__":
    main()
