"""Sources chained into an operator of several inputs, which PyFlink's API has no call for."""

from collections import Counter

import pytest

from engine.common import Types
from engine.runtime.job import Job
from engine.runtime.run_job import run_job
from engine.runtime.transformations import Transformation, reachable
from operators.chain.operator import MAX_WATERMARK, Operator
from operators.connectors.number_sequence import NumberSequenceSource
from operators.connectors.sink import CollectSink
from operators.records.map_records import MapOperator

PAIR = Types.TUPLE([Types.INT(), Types.LONG()])


class Number(Operator):
    """Each record with the number of the input it came by; -1 once when all inputs have ended."""

    def process_input(self, number, values, timestamps):
        self.output.collect([(number, value) for value in values], timestamps)

    def process(self, values, timestamps):
        self.process_input(1, values, timestamps)

    def process_second(self, values, timestamps):
        self.process_input(2, values, timestamps)

    def process_watermark(self, watermark):
        if watermark == MAX_WATERMARK:
            self.output.collect([(-1, self.context.subtask)], None)
        super().process_watermark(watermark)


def source(first, last):
    numbers = NumberSequenceSource(first, last)
    return Transformation(kind="source", name="numbers", operator=numbers, output_type=Types.LONG())


@pytest.mark.parametrize("networked", [False, True])
def test_chained_sources_and_gates_feed_one_operator(spark, networked):
    inputs = [source(0, 9), source(10, 19), source(20, 29)]
    if networked:
        inputs[2] = Transformation(
            kind="one_input",
            name="Map",
            inputs=[inputs[2]],
            operator=MapOperator(lambda value: value),
            output_type=Types.LONG(),
            parallelism=1,
        )
    number = Transformation(
        kind="multi_input", name="Number", inputs=inputs, operator=Number(), output_type=PAIR
    )
    sink = Transformation(
        kind="sink", name="Collect", inputs=[number], operator=CollectSink(), output_type=PAIR, parallelism=1
    )
    job = Job(name="inputs", transformations=reachable([sink]), parallelism=2)
    result = run_job(job)
    found = Counter(result.collected[sink.created])
    expected = Counter((value // 10 + 1, value) for value in range(30))
    expected += Counter([(-1, 0), (-1, 1)])
    assert found == expected
    names = [vertex.chain.name for vertex in result.compiled.vertices]
    assert any(name.startswith("Number [Source: numbers, Source: numbers") for name in names), names
