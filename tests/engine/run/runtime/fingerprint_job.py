"""A job of many operators, as a user's script builds it: prints its fingerprint.

python -m tests.engine.run.runtime.fingerprint_job FILE NUMBER
"""

import dataclasses
import enum
import re
import sys

from penstock.engine.pyflink.common import Duration, Time, Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import (
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.engine.pyflink.datastream.stream_execution_environment import job_from_environment
from penstock.engine.run.runtime.run_job import job_fingerprint
from penstock.operators.connectors.file_source import FileSource
from penstock.operators.connectors.staged_files import TextSink
from penstock.operators.formats.csv_files import StreamFormat
from penstock.operators.functions.functions import AggregateFunction
from penstock.operators.state.interfaces import ValueStateDescriptor
from penstock.operators.windows.assigners import TumblingEventTimeWindows

LIMITS = {"a", "b", "c", "d"}
PATTERN = re.compile("x+")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Reading:
    name: str
    tags: frozenset[str]
    colour: Colour = Colour.RED


class Add(MapFunction):
    def __init__(self, number):
        self.number, self.allowed = number, {"p", "q", "r"}

    def map(self, value):
        return value + self.number if str(value) not in LIMITS else 0


class Keep(FilterFunction):
    def filter(self, value):
        return not PATTERN.match(str(value))


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


class Last(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        yield value


class Side(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


def job_of(path, number):
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(number))
    readings = [Reading("one", frozenset("abcdef")), Reading("two", frozenset("xyz"), Colour.BLUE)]
    lines = env.from_source(
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build(), strategy, "lines"
    )
    numbers = env.from_collection([1, 2, 3], Types.LONG()).map(Add(number), Types.LONG()).filter(Keep())
    objects = env.from_collection(readings).map(lambda one: len(one.tags) + number, Types.LONG())
    keyed = numbers.union(objects).key_by(lambda value: value % 2, Types.LONG())
    counts = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(Count())
    last = keyed.process(Last(), Types.LONG())
    ends = [counts, last, lines.process(Side()), keyed.reduce(lambda one, other: max(one, other, number))]
    sinks = [one.map(str, Types.STRING()).sink_to(TextSink("/tmp/nowhere")) for one in ends]
    return job_from_environment(env, [one._transformation for one in sinks], "job")


if __name__ == "__main__":
    sys.argv[1:], (given, number) = [], sys.argv[1:]
    print(job_fingerprint(job_of(given, int(number)), 0))
