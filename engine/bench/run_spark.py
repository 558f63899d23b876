"""The Spark planner as a benchmark runs it."""

import time
from collections.abc import Iterator
from pathlib import Path

from engine.bench.times import Plans, Times, again_and_again, by_layer
from engine.plan_topologies import plan, plan_tables, read_topologies
from engine.session import get_session
from plans.passes import LAYER_TABLES, Choices, passes
from plans.plan_json.to_plan_lines import to_plan_lines
from plans.vocabulary import Layer

_STEPS = {layer: tuple(step.produces for step in of_layer) for layer, of_layer in passes(Choices()).items()}
_DERIVED = {table for layer in list(Layer)[1:] for table in LAYER_TABLES[layer]}


def start() -> Plans:
    """A local session."""
    get_session(app_name="penstock bench")
    return again_and_again(_plan)


def plan_lines(path: Path, until: Layer) -> Iterator[str]:
    """Plan JSON lines."""
    planned = plan(str(path), until=until, spark=get_session(app_name="penstock bench"))
    for row in to_plan_lines(planned.tables).select("line").toLocalIterator():
        yield row["line"]
    planned.release()


def _plan(path: Path, until: Layer) -> Times:
    spark = get_session(app_name="penstock bench")
    started = time.monotonic()
    given = read_topologies(spark, str(path))
    read = time.monotonic()
    planned = plan_tables(spark, given, until, lambda stage: None)
    done = time.monotonic()
    for name, rows in planned.tables.items():
        if name in _DERIVED:
            rows.write.format("noop").mode("overwrite").save()
    handed_over = time.monotonic()
    partitioned = planned.seconds["partition_topologies"]
    other = done - read - sum(planned.seconds.values())
    times = Times(read - started + partitioned, by_layer(planned.seconds, _STEPS), handed_over - done, other)
    planned.release()
    return times
