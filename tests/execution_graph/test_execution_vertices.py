"""Effective parallelism, refusals and first executions."""

from datetime import UTC, datetime

from pyspark.sql import functions as F

from plans.execution_graph.joins.create_execution_job_vertices import create_execution_job_vertices
from plans.execution_graph.joins.create_executions import create_executions
from plans.execution_graph.joins.refuse_execution_graphs import refuse_execution_graphs
from plans.joins.spark_schemas import spark_schema
from plans.tables import EXECUTIONS
from tests.passes.frames import assert_rows, extended, make_frame

NAMED = extended(
    spark_schema("job_vertices"), (), "slot_sharing_group_name STRING, co_location_group_name STRING"
)
REGIONS = "topology_id BIGINT, vertex INT, regions ARRAY<INT>"


def _derived(parallelism):
    """KeyGroupRangeAssignment.computeDefaultMaxParallelism by doubling, from 128 to 32768."""
    power = 128
    while power < min(parallelism + parallelism // 2, 32_768):
        power *= 2
    return power


def test_max_parallelism_is_derived_where_it_is_not_set(spark):
    near_powers = [2**k + d for k in range(16) for d in (-1, 0, 1) if 1 <= 2**k + d <= 32_768]
    near_thirds = [2**k * 2 // 3 + d for k in range(7, 16) for d in (-1, 0, 1, 2)]
    parallelisms = sorted({*range(1, 400), *near_powers, *near_thirds})
    rows = [{"vertex": p, "parallelism": p, "max_parallelism": -1} for p in parallelisms]
    rows.append({"vertex": 0, "parallelism": 3, "max_parallelism": 7})
    assert_rows(
        create_execution_job_vertices(make_frame(spark, NAMED, rows)),
        "vertex parallelism max_parallelism",
        [(0, 3, 7), *((p, p, _derived(p)) for p in parallelisms)],
    )


def test_parallelism_that_is_decided_at_run_time_counts_as_one(spark):
    vertex = {"vertex": 1, "parallelism": -1, "max_parallelism": -1}
    effective = create_execution_job_vertices(make_frame(spark, NAMED, [vertex]))
    assert_rows(effective, "parallelism max_parallelism", [(1, 128)])


def _refusals(spark, vertices, regions=()):
    named = make_frame(spark, NAMED, vertices, max_parallelism=-1)
    effective = create_execution_job_vertices(named)
    return refuse_execution_graphs(named, effective, make_frame(spark, REGIONS, regions))


def test_parallelism_beyond_flinks_bounds_is_refused_first_in_creation_order(spark):
    """Before any max parallelism is checked, and without making two billion rows, one per subtask."""
    vertices = [
        {"vertex": 1, "name": "a", "parallelism": 9, "max_parallelism": 8, "creation_order": 0},
        {"vertex": 2, "name": "b", "parallelism": 2**31 - 1, "creation_order": 2},
        {"vertex": 3, "name": "c", "parallelism": 40_000, "max_parallelism": 50, "creation_order": 1},
    ]
    message = "Setting parallelism is not in valid bounds (1..32768), found: 40000"
    assert_rows(
        _refusals(spark, vertices),
        "error_stage error message location",
        [("execution_graph", "IllegalArgumentException", message, "vertex c")],
    )
    alone = _refusals(spark, vertices[1:2])
    assert_rows(alone, "message", [("Operator parallelism not within bounds: 2147483647",)])
    effective = create_execution_job_vertices(make_frame(spark, NAMED, vertices[1:2], max_parallelism=-1))
    assert_rows(effective, "parallelism", [(32_768,)])


def test_parallelism_above_max_parallelism_is_refused_in_topological_order(spark):
    vertices = [
        {"vertex": 1, "name": "a", "parallelism": 9, "max_parallelism": 8, "topological_order": 1},
        {"vertex": 2, "name": "b", "parallelism": 129, "max_parallelism": 128, "topological_order": 0},
    ]
    message = (
        "Vertex b's parallelism (129) is higher than the max parallelism (128). Please lower the parallelism "
        "or increase the max parallelism."
    )
    assert_rows(_refusals(spark, vertices), "error message", [("JobException", message)])


def test_co_located_tasks_of_one_index_have_to_be_in_one_region(spark):
    def vertex(number, **keys):
        return {"vertex": number, "parallelism": 2, **keys}

    located = {"co_location_group": 0, "co_location_group_name": "together"}
    vertices = [
        *(vertex(n, topology_id=t, **located) for t in (1, 2) for n in (1, 2)),
        *(vertex(n, topology_id=3) for n in (1, 2)),
    ]
    regions = [
        {"topology_id": t, "vertex": n, "regions": [first, second]}
        for t, n, first, second in (
            (1, 1, 0, 1),
            (1, 2, 0, 1),
            (2, 1, 0, 1),
            (2, 2, 0, 3),
            (3, 1, 0, 1),
            (3, 2, 2, 3),
        )
    ]
    assert_rows(
        _refusals(spark, vertices, regions),
        "topology_id error message location",
        [
            (
                2,
                "IllegalStateException",
                "co-located tasks must be in the same pipelined region",
                "co-location group together",
            )
        ],
    )


def test_first_executions_have_attempt_ids_of_flinks_form(spark):
    tasks = make_frame(spark, "execution_vertices", [{"vertex": 7, "subtask": i} for i in (0, 1)])
    vertices = make_frame(spark, "job_vertices", [{"vertex": 7, "vertex_id": "ab" * 16}])
    at = datetime(2026, 1, 2, tzinfo=UTC)
    run = "0123456789abcdef" * 2
    executions = create_executions(tasks, vertices, run, F.lit(at))
    assert executions.columns == EXECUTIONS.names
    assert_rows(
        executions.select("*", F.col("state_timestamps")["CREATED"].alias("created")),
        "subtask attempt_number attempt_id state created",
        [(i, 0, f"{run}_{'ab' * 16}_{i}_0", "CREATED", at.replace(tzinfo=None)) for i in (0, 1)],
    )
