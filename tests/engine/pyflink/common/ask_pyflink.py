"""Rewrites pyflink_trips.jsonl: what the real PyFlink makes of values and keys. Not a test.

usage: TZ=UTC python ask_pyflink.py < pyflink_trips.jsonl > new, with a Python that has apache-flink 2.3.0.

A line has a type, and a list for each value: its expression, then, written by this script, the hash and the
key group (of 32768) of the Java key, the repr of what came back, and the number of its row kind. Every value
goes the way of a key of `key_by`: encoded by PyFlink's coder, read by Flink's serializer of a Row with one
field, hashed and put into a key group there, written again, decoded by PyFlink.
"""
# mypy: disable-error-code="import-not-found, import-untyped"

import datetime
import json
import sys
from decimal import Decimal

from pyflink.common import Instant, Row, RowKind, Types
from pyflink.fn_execution.coders import from_type_info_proto
from pyflink.fn_execution.flink_fn_execution_pb2 import TypeInfo
from pyflink.java_gateway import get_gateway

NAMES = {
    "datetime": datetime,
    "Decimal": Decimal,
    "Instant": Instant,
    "Row": Row,
    "RowKind": RowKind,
    "Types": Types,
}


def main() -> None:
    jvm = get_gateway().jvm
    memory = jvm.org.apache.flink.core.memory
    utils = jvm.org.apache.flink.streaming.api.utils.PythonTypeUtils
    assignment = jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment
    for line in map(json.loads, sys.stdin):
        java_type = Types.ROW([eval(line["type"], NAMES)]).get_java_type_info()
        proto = TypeInfo()
        proto.ParseFromString(utils.TypeInfoToProtoConverter.toTypeInfoProto(java_type, None).toByteArray())
        coder = from_type_info_proto(proto).get_impl()
        serializer = utils.TypeInfoToSerializerConverter.typeInfoSerializerConverter(java_type)
        found = []
        for expression, *_ in line["keys"]:
            encoded = coder.encode(Row(eval(expression, NAMES)))
            key = serializer.deserialize(memory.DataInputDeserializer(encoded))
            again = memory.DataOutputSerializer(64)
            serializer.serialize(key, again)
            back = coder.decode(bytes(again.getCopyOfBuffer()))[0]
            kind = back.get_row_kind().value if isinstance(back, Row) else 0
            group = assignment.assignToKeyGroup(key, 32768)
            found.append([expression, key.hashCode(), group, repr(back), kind])
        print(json.dumps({"type": line["type"], "keys": found}))


if __name__ == "__main__":
    main()
