"""Rewrites arguments.txt: which arguments the real PyFlink takes, when the call is made. Not a test.

usage: python ask_arguments.py < arguments.txt > new, with a Python that has apache-flink 2.3.0.

A line is "taken" or "refused", and an expression. Calls that follow `env` are each made on a new environment.
"""
# mypy: disable-error-code="import-not-found, import-untyped"

import sys
from typing import Any

IMPORTS = """
import datetime
import numpy
from decimal import Decimal
from pyflink.common import *
from pyflink.common.serialization import *
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import *
from pyflink.datastream.connectors.file_system import *
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema
from pyflink.datastream.state import *
from pyflink.datastream.window import *


class Fine(MapFunction, FilterFunction, FlatMapFunction, ReduceFunction, ProcessFunction, KeySelector):
    def map(self, value): return value
    def filter(self, value): return True
    def flat_map(self, value): return [value]
    def reduce(self, one, other): return one
    def process_element(self, value, ctx): yield value
    def get_key(self, value): return value


class Alike:
    def open(self, ctx): pass
    def close(self): pass
    def map(self, value): return value
    def process_element(self, value, ctx): yield value
    def get_key(self, value): return value
    def apply(self, key, window, inputs): return inputs
    def process(self, key, context, elements): return elements
    def clear(self, context): pass
    def reduce(self, one, other): return one


class AllAlike(Alike):
    def apply(self, window, inputs): return inputs
    def process(self, context, elements): return elements


def stream(): return env.from_collection([1, 2])
def keyed(): return stream().key_by(lambda value: value)
def windowed(): return keyed().window(TumblingEventTimeWindows.of(Time.seconds(1)))
def all_windowed(): return stream().window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
"""


def outcome(expression: str, names: dict[str, Any]) -> str:
    names["env"] = names["StreamExecutionEnvironment"].get_execution_environment()
    try:
        eval(expression, names)
    except Exception:
        return "refused"
    return "taken"


def main() -> None:
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    for line in sys.stdin:
        expression = line.rstrip("\n").partition(" ")[2]
        print(outcome(expression, names), expression, flush=True)


if __name__ == "__main__":
    main()
