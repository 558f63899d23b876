"""What the tests of the DataStream API share."""

from typing import Any

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.pyflink.datastream import (
    DataStream,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.engine.run.lowering.transformations import reachable, topology_to_run
from penstock.operators.common.configuration import Configuration
from penstock.operators.common.typeinfo import Types

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("a", 1), ("b", 2), ("a", 3)]


def environment(parallelism: int = 2, mode: str = "STREAMING", **options: str) -> StreamExecutionEnvironment:
    """An environment with these settings; `options` are keys with _ for . in them."""
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("_", "."), value)
    made = StreamExecutionEnvironment.get_execution_environment(configuration)
    made.set_parallelism(parallelism)
    made.set_runtime_mode(RuntimeExecutionMode[mode])
    return made


def pairs(env: StreamExecutionEnvironment) -> DataStream:
    """A collection of pairs of a string and a number."""
    return env.from_collection(PAIRS, type_info=PAIR)


def first(pair: Any) -> Any:
    """The key of a pair."""
    return pair[0]


_SETTINGS = (
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "buffer_timeout",
    "chaining",
    "partitioner",
    "tag",
)


def transformations(env: StreamExecutionEnvironment) -> list[dict[str, Any]]:
    """The calls that are registered and what they read, numbered from 1, with what their author has set."""
    calls = reachable(env._registered)
    ids = {call.created: number for number, call in enumerate(calls, 1)}
    rows = []
    for call in calls:
        row = {"id": ids[call.created], "kind": call.kind, "name": call.name}
        row["inputs"] = [ids[given.created] for given in call.inputs]
        row |= {key: value for key in _SETTINGS if (value := getattr(call, key)) is not None}
        if call.default_parallelism not in (None, env.get_parallelism()):
            row.setdefault("parallelism", call.default_parallelism)
        rows.append(row)
    return rows


def shape(env: StreamExecutionEnvironment) -> list[tuple[Any, ...]]:
    """(kind, name, inputs) of each transformation."""
    return [(row["kind"], row.get("name"), row["inputs"]) for row in transformations(env)]


class Plan:
    """A job's plan as it runs: vertices by name, and edges between them."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        tables = plan_in_process([topology_to_run(env.new_job())]).tables
        assert tables["rejected"].to_pylist() == []
        self.nodes = {row["name"]: row for row in tables["stream_nodes"].to_pylist()}
        vertices = {row["vertex"]: row for row in tables["job_vertices"].to_pylist()}
        sizes = {row["vertex"]: row for row in tables["execution_job_vertices"].to_pylist()}
        self.parallelism = {row["name"]: sizes[vertex]["parallelism"] for vertex, row in vertices.items()}
        self.max_parallelism = {
            row["name"]: sizes[vertex]["max_parallelism"] for vertex, row in vertices.items()
        }
        self.groups = {row["name"]: row["slot_sharing_group"] for row in vertices.values()}
        types = {
            (row["vertex"], row["output_index"]): row["result_partition_type"]
            for row in tables["intermediate_data_sets"].to_pylist()
        }
        data_sets = {
            row["data_set_id"]: types[row["vertex"], row["output_index"]]
            for row in tables["intermediate_data_sets"].to_pylist()
        }
        self.edges = sorted(
            (
                vertices[row["source_vertex"]]["name"],
                row["ship_strategy"],
                data_sets[row["data_set_id"]],
                vertices[row["target_vertex"]]["name"],
            )
            for row in tables["job_edges"].to_pylist()
        )


class Nothing(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()
