"""A planner as a program: `python a_program.py [HOW…]`; HOW says in which way it is odd."""

import json
import os
import sys
import time
from io import BufferedReader
from typing import cast

import pyarrow as pa

how = sys.argv[1:]
greeting = {"decides": "chaining", "reads": ["stream_edges", "stream_nodes"], "device": "a GPU"}
if "silent" in how:
    print("cannot find the model", file=sys.stderr)
    sys.exit(3)
if "strange" in how:
    greeting = {"decides": "everything", "reads": []}
if "table" in how:
    greeting["reads"] = ["stream_edges", "prices"]
if "text" in how:
    os.write(1, b"Welcome\x1b[31m!\n")
os.write(1, f"{json.dumps(greeting)}\n".encode())
count = 0
tables = cast(BufferedReader, sys.stdin.buffer)
while tables.peek(1):
    count += 1
    edges, nodes = (pa.ipc.open_stream(tables).read_all() for _ in range(2))
    names = " ".join(nodes.column("name").to_pylist())
    if "bad" in names:
        print("no idea about 'bad'", file=sys.stderr)
        os._exit(1)
    if "slow" in names:
        time.sleep(60)
    answer = edges.select(["topology_id", "target", "in_index"])
    answer = answer.append_column("chainable", pa.array([False] * len(answer)))
    if "wrong" in names:
        answer = answer.drop_columns(["chainable"])
    answer = answer.replace_schema_metadata({"penstock.device_seconds": "0.25", "calls": str(count)})
    if "garbage" in names:
        os.write(1, b"no arrow " * 10)
        os._exit(0)
    with pa.ipc.new_stream(sys.stdout.buffer, answer.schema) as stream:
        stream.write_table(answer)
    if "twice" in names:
        with pa.ipc.new_stream(sys.stdout.buffer, answer.schema) as stream:
            stream.write_table(answer)
    sys.stdout.buffer.flush()
