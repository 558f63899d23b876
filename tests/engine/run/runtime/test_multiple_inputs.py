"""Sources chained into an operator of several inputs, which PyFlink's API has no call for."""

from collections import Counter

import polars as pl
import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.run.lowering.lower_job import lower_job
from penstock.engine.run.lowering.transformations import Job, Transformation, reachable
from penstock.engine.run.runtime.job_monitor import JobResult, tables_of_run
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_job import run_job
from penstock.operators.chain.operator import MAX_WATERMARK, Operator
from penstock.operators.connectors.sink import CollectSink
from penstock.operators.connectors.source import NumberSequenceSource
from penstock.operators.records.map_records import MapOperator
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.measured_costs import RUN_TABLES, measured_costs
from penstock.plans.metrics.operator_costs import operator_costs
from penstock.plans.metrics.plan_metrics import NEEDED, plan_metrics

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
    lowered = lower_job(
        "inputs",
        [sink],
        {},
        parallelism=2,
        max_parallelism=None,
        known_ids={},
        slot_resources={},
        planned=(),
        lowers_all=True,
    )
    job = Job(name="inputs", transformations=reachable([sink]), lowered=lowered, parallelism=2)
    result = run_job(job, RunContext())
    found = Counter(result.collected[sink.created])
    expected = Counter((value // 10 + 1, value) for value in range(30))
    expected += Counter([(-1, 0), (-1, 1)])
    assert found == expected
    names = [vertex.chain.name for vertex in result.compiled.vertices]
    assert any(name.startswith("Number [Source: numbers, Source: numbers") for name in names), names
    require_that_costs_give_the_counts(result, sources=len(inputs))


def require_that_costs_give_the_counts(result: JobResult, sources: int) -> None:
    """The rate model, with the costs that the run has measured, predicts what its subtasks have counted."""
    every = {**result.tables, **tables_of_run(result)}
    tables = {name: from_arrow(every[name]) for name in {*NEEDED, *RUN_TABLES, "job_edges"}}
    measured = measured_costs(tables).costs
    assert sorted(measured["id"].to_list()) == sorted(tables["stream_nodes"]["id"].to_list())
    costs = operator_costs(tables["stream_nodes"], tables["stream_edges"], measured)
    found = plan_metrics(tables, costs, PlanOptions().task_manager, PlanOptions().network)
    seconds = result.milliseconds / 1000
    rates = dict(found.edges.select("source", "records_per_second").iter_rows())
    counted = dict(tables["executions"].group_by("vertex").agg(pl.col("records_out").sum()).iter_rows())
    between = tables["job_edges"].select("source_node", "source_vertex").rows()
    assert between
    for node, vertex in between:
        assert rates[node] * seconds == pytest.approx(counted[vertex])
        assert counted[vertex] > 0
    offered = found.plans["source_records_per_second"].item() * seconds
    # Three sources are taken to offer the 32 that leave the operator, two beside a gate what it has brought.
    assert offered == pytest.approx(32 if len(between) == 1 else sources * 10)
