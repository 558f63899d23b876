"""size_managed_memory against ManagedMemoryUtils, StreamConfig and MemoryManager."""

from penstock.plans.layers import PlanOptions
from penstock.plans.resources.divide_memory import MemoryOptions, TaskManager
from penstock.plans.tables.column_types import TOPOLOGY
from tests.passes.frames import derive_in_process, make_polars
from tests.plans.resources.flink_resources import rows

WEIGHTS = {"OPERATOR": "operator_weight", "STATE_BACKEND": "state_backend_weight", "PYTHON": "python_weight"}


def task_manager(row):
    given = {} if row["weights"] is None else dict.fromkeys(WEIGHTS.values(), 0)
    for weight in row["weights"].split(",") if row["weights"] else ():
        use_case, number = weight.split(":")
        given[WEIGHTS[use_case]] = int(number)
    return TaskManager(
        row["process_size"], row["slots"], MemoryOptions(**given), row["cluster_state_backend"]
    )


def tables(make, of_flink):
    """A topology for each row, with one operator."""
    operators = [
        {
            TOPOLOGY: topology,
            "node": topology + 1,
            "managed_memory_fraction": dict.fromkeys(row["use_cases"], 0.0)
            | {row["use_case"]: row["fraction"]},
        }
        for topology, row in of_flink.items()
    ]
    settings = [
        {
            TOPOLOGY: topology,
            "config": row["job_config"],
            # A state backend of the application's own is what BATCH jobs have.
            "job_type": "STREAMING" if row["application_uses_managed"] is None else "BATCH",
        }
        for topology, row in of_flink.items()
    ]
    return {
        "chained_operators": make("chained_operators", operators, vertex=7),
        "job_settings": make("job_settings", settings),
    }


def test_every_fraction_and_size_is_flinks():
    of_flink = dict(enumerate(rows("managed")))
    of_choices: dict[PlanOptions, list[int]] = {}
    for topology, row in of_flink.items():
        of_choices.setdefault(PlanOptions(task_manager=task_manager(row)), []).append(topology)
    found = derive_in_process("managed_memory", tables(make_polars, of_flink), of_choices)
    by_topology = {row[TOPOLOGY]: row for row in found}
    assert by_topology.keys() == of_flink.keys()
    assert len(found) == len(of_flink)
    columns = ("node", "vertex", "use_case", "fraction", "slot_fraction", "bytes")
    for topology, row in of_flink.items():
        figures = (row["fraction"], row["slot_fraction"], row["bytes"] or 0)
        expected = (topology + 1, 7, row["use_case"], *figures)
        assert tuple(by_topology[topology][column] for column in columns) == expected, row
