"""size_managed_memory against ManagedMemoryUtils, StreamConfig and MemoryManager."""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.planning.planning_settings import planning_settings
from plans.joins.spark_schemas import conform
from plans.resources.joins.size_managed_memory import size_managed_memory
from plans.resources.memory_options import MemoryOptions
from plans.resources.task_manager import TaskManager
from plans.tables.column_types import TOPOLOGY
from tests.passes.frames import assert_rows, make_frame
from tests.resources.flink_resources import rows

WEIGHTS = {"OPERATOR": "operator_weight", "STATE_BACKEND": "state_backend_weight", "PYTHON": "python_weight"}


def task_manager(row):
    given = {} if row["weights"] is None else dict.fromkeys(WEIGHTS.values(), 0)
    for weight in row["weights"].split(",") if row["weights"] else ():
        use_case, number = weight.split(":")
        given[WEIGHTS[use_case]] = int(number)
    return TaskManager(
        row["process_size"], row["slots"], MemoryOptions(**given), row["cluster_state_backend"]
    )


def test_every_fraction_and_size_is_flinks(spark):
    """A topology a row of the table, with one operator; one pass for each TaskManager, all in one job."""
    table = dict(enumerate(rows("managed")))
    of_task_manager: dict[TaskManager, list[int]] = {}
    for topology, row in table.items():
        of_task_manager.setdefault(task_manager(row), []).append(topology)
    operators = make_frame(
        spark,
        "chained_operators",
        [
            {
                TOPOLOGY: topology,
                "node": topology + 1,
                "managed_memory_fraction": dict.fromkeys(row["use_cases"], 0.0)
                | {row["use_case"]: row["fraction"]},
            }
            for topology, row in table.items()
        ],
        vertex=7,
    ).localCheckpoint()
    settings = make_frame(
        spark,
        "job_settings",
        [
            {
                TOPOLOGY: topology,
                "config": row["job_config"],
                # A state backend of the application's own is what BATCH jobs have.
                "job_type": "STREAMING" if row["application_uses_managed"] is None else "BATCH",
            }
            for topology, row in table.items()
        ],
    ).localCheckpoint()
    with planning_settings(spark, 2):
        sized = [
            size_managed_memory(operators.filter(F.col(TOPOLOGY).isin(of)), settings, task_manager=manager)
            for manager, of in of_task_manager.items()
        ]
        rows_of_all = conform(reduce(DataFrame.union, sized), "managed_memory").collect()
    found = {row[TOPOLOGY]: row for row in rows_of_all}
    assert found.keys() == table.keys()
    assert len(rows_of_all) == len(table)
    for topology, row in table.items():
        expected = (
            topology + 1,
            7,
            row["use_case"],
            row["fraction"],
            row["slot_fraction"],
            row["bytes"] or 0,
        )
        columns = ("node", "vertex", "use_case", "fraction", "slot_fraction", "bytes")
        assert tuple(found[topology][c] for c in columns) == expected, row


def test_rows_are_of_use_cases_that_the_operator_has(spark):
    fractions = {
        1: {"OPERATOR": 0.25, "STATE_BACKEND": 1.0, "PYTHON": 0.0},
        2: {"OPERATOR": 0.75, "STATE_BACKEND": 0.0, "PYTHON": 1.0},
        3: {"OPERATOR": 0.0, "STATE_BACKEND": 0.0, "PYTHON": 0.0},
        4: {},
    }
    operators = make_frame(
        spark,
        "chained_operators",
        [{"node": node, "managed_memory_fraction": given} for node, given in fractions.items()],
    )
    settings = make_frame(spark, "job_settings", [{"config": {}, "job_type": "STREAMING"}])
    managed = size_managed_memory(operators, settings, task_manager=TaskManager("1728m"))
    expected = [
        (1, "OPERATOR", 0.25, 0.25 * 0.7),
        (1, "STATE_BACKEND", 1.0, 0.0),
        (2, "OPERATOR", 0.75, 0.75 * 0.7),
        (2, "PYTHON", 1.0, 0.3),
    ]
    assert_rows(managed, "node use_case fraction slot_fraction", expected)
    assert managed.filter(F.col("use_case") == "PYTHON").collect()[0]["bytes"] == 161061276
