"""Streams of numbers, how their jobs are chained, and what they give."""

from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import RuntimeExecutionMode
from penstock.operators.connectors.source import NumberSequenceSource

#: One subtask, and more than the session has cores. Two are what most other tests run with.
PARALLELISMS = (1, 5)
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def numbers(env, count):
    source = NumberSequenceSource(0, count - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def both(env, parallelism, chaining, mode=RuntimeExecutionMode.STREAMING):
    env.set_parallelism(parallelism).set_runtime_mode(mode)
    if not chaining:
        env.disable_operator_chaining()
    return env
