"""Every public name of Penstock in one session, one call after the other; prints what was refused as JSON.

python surface.py plain local[2] | connect URL

A name is refused with Penstock's own errors, and nothing else is raised. A name without a call in CALLS, or
in WITHOUT_SESSION where no session is part of it, fails test_any_session.
"""

import inspect
import json
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

import penstock
from penstock import datastream
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine import library
from penstock.engine.library.planned_tables import Version
from penstock.engine.library.sweep import SweepResults
from penstock.engine.run.runtime.dataframe_of_job import DataFrames

#: Classes of the library's modules that no caller gets.
INTERNAL = {"ChangedJobs", "Given", "GivenToSpark", "JobsOfScript", "Opener", "PlanArguments"}
INTERNAL |= {
    "Placed",
    "PlannedQuery",
    "PlannedWriter",
    "ScriptError",
    "SparkFrames",
    "TablesOfTopologies",
    "WhatIfOfScript",
}

WITHOUT_SESSION = {
    *(f"penstock.{name}" for name in penstock.__all__ if name.endswith("Error")),
    *(f"penstock.{name}" for name in ("Change", "Drawing", "Layer", "Planner", "errors")),
    *("penstock.decides", "penstock.planner_program", "penstock.State", "penstock.open_state"),
    *(f"State.{name}" for name in ("batch_id", "batches", "table", "tables", "version")),
    "penstock.BatchFunction",
    *(f"BatchFunction.{name}" for name in ("build", "lastProgress", "recentProgress", "state")),
    *(f"Version.{name}" for name in Version._fields),
    *(f"SweepResults.{name}" for name in (*SweepResults._fields, "format", "plot", "results", "table")),
    *(f"Benchmark.{name}" for name in ("answers", "results", "show", "summary")),
    *(f"PlanQuality.{name}" for name in ("compared", "plans", "results", "show")),
    *("StreamExecutionEnvironment.slot_resources", "StreamExecutionEnvironment.thread_mode"),
    *("SlotSharingGroup.slot_resources", "DataStream.key_by", "PlanMetrics.jobs"),
}
"""Names with nothing of a session in them."""


def public_names() -> set[str]:
    """Names of `penstock`, of what its functions give, and of what is Penstock's own among streams."""
    names = {f"penstock.{name}" for name in penstock.__all__} | {"DataFrames.release"}
    for module in pkgutil.iter_modules(library.__path__):
        for name, kind in vars(import_module(f"{library.__name__}.{module.name}")).items():
            own = inspect.isclass(kind) and kind.__module__ == f"{library.__name__}.{module.name}"
            if own and not name.startswith("_") and name not in INTERNAL:
                names |= {f"{name}.{member}" for member in _members(kind)}
    for name in dir(datastream):
        kind = getattr(datastream, name)
        if inspect.isclass(kind):
            own_members = (m for m in dir(kind) if "Penstock's own" in (getattr(kind, m).__doc__ or ""))
            names |= {f"{name}.{member}" for member in own_members if not member.startswith("_")}
    return names


def _members(kind: type) -> set[str]:
    set_by_init = (
        re.findall(r"self\.([a-z]\w*)", inspect.getsource(vars(kind)["__init__"])) if _has_init(kind) else ()
    )
    of_tuples = {"count", "index"} if issubclass(kind, tuple) else set()
    return {name for name in {*dir(kind), *set_by_init} - of_tuples if not name.startswith("_")}


def _has_init(kind: type) -> bool:
    return "__init__" in vars(kind)


def topologies(spark: Any) -> Any:
    job = [(1, "source", "Orders", []), (2, "one_input", "Parse", [1]), (3, "sink", "Print", [2])]
    columns = (
        "name string, transformations array<struct<id int, kind string, name string, inputs array<int>>>"
    )
    rows = [(f"t{n}", job, "shop") for n in range(3)] + [("wrong", [(1, "nothing", "a", [])], "shop")]
    return spark.createDataFrame(rows, f"{columns}, team string")


@penstock.decides("chaining")
def never(stream_edges: Any) -> Any:
    return stream_edges.select("topology_id", "target", "in_index").with_columns(chainable=pl.lit(False))


class Given:
    """What calls are about; each part is made in the session of `spark`."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.folder = spark, Path(tempfile.mkdtemp())
        self.df = topologies(spark)
        self.plan = penstock.plan(self.df, ignore=["team"])
        self.plan.write(self.folder / "store")
        self.store = penstock.open_store(self.folder / "store")
        self.planmetrics, self.graph = self.plan.metrics("drawn"), self.plan.graph("stream_graph")
        self.explained, self.clustersize = self.plan.explain(topology="t0"), self.plan.size()
        self.generated = penstock.generate("chain", topologies=2, operators=3, spark=spark)
        self.diff = penstock.diff(self.plan, self.plan)
        self.drawing = penstock.draw(self.plan, topology="t0")
        self.numbers = spark.range(8)
        self.script = self.folder / "script.py"
        self.script.write_text(
            "from penstock.datastream import StreamExecutionEnvironment as E\n"
            "env = E.get_execution_environment()\nenv.from_collection([1]).map(str)\n"
        )

    def stream(self) -> Any:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        return env.from_dataframe(self.numbers).map(lambda row: row.id, Types.LONG())


def counted(frame: Any) -> int:
    rows: int = frame.count()
    return rows


def fields(of: str, names: str) -> dict[str, Callable[[Given], Any]]:
    """Calls that read attributes and call methods without arguments; DataFrames are counted."""

    def call(name: str) -> Callable[[Given], Any]:
        def read(given: Given) -> None:
            found = getattr(getattr(given, of.lower()), name)
            found = found() if inspect.ismethod(found) else found
            if hasattr(type(found), "toArrow"):
                found.count()
            repr(found)

        return read

    return {f"{of}.{name}": call(name) for name in names.split()}


def several(given: Given) -> None:
    stream = given.stream()
    with stream._environment.to_dataframes(every=stream, odd=stream.filter(lambda n: n % 2 == 1)) as frames:
        assert isinstance(frames, DataFrames)
        assert (frames.every.count(), frames["odd"].count()) == (8, 4)


def shown(given: Given) -> None:
    for part in (
        given.plan,
        given.graph,
        given.planmetrics,
        given.generated,
        given.clustersize,
        given.explained,
    ):
        assert repr(part)
        assert part._repr_html_()
    assert repr(given.plan.tables)


CALLS: dict[str, Callable[[Given], Any]] = {
    "penstock.plan": lambda given: [
        penstock.plan(given.df.drop("team")),
        penstock.plan(given.df.drop("team"), planner=never),
        penstock.plan(given.generated),
        penstock.plan([{"name": "one", "stream_graph": {"nodes": [], "edges": []}}], spark=given.spark),
    ],
    "penstock.plan joins": lambda given: penstock.plan(given.df.drop("team"), planner="blocks").release(),
    "penstock.Plan": shown,
    "penstock.check": lambda given: penstock.check(given.plan),
    "penstock.diff": lambda given: penstock.diff(given.plan, given.store).show(),
    "penstock.draw": lambda given: penstock.draw(given.df.drop("team"), topology="t0"),
    "penstock.bench": lambda given: penstock.bench(given.df),
    "penstock.generate": lambda given: penstock.generate(like=given.plan, topologies=2, spark=given.spark),
    "penstock.import_graph": lambda given: penstock.import_graph(given.df),
    "penstock.open_store": lambda given: penstock.open_store(given.folder / "store"),
    "penstock.read_plan": lambda given: (
        penstock.check(penstock.read_plan(given.store, spark=given.spark)).nodes().count()
    ),
    "penstock.run": lambda given: penstock.run(given.script),
    "penstock.sweep": lambda given: penstock.sweep(
        {"topologies": [{"shape": "chain", "operators": 3}], "planners": ["process"]},
        given.folder / "sweep",
        spark=given.spark,
    ).table(),
    "penstock.transform": lambda given: penstock.transform(given.numbers, lambda stream: stream).count(),
    "penstock.foreach_batch": lambda given: penstock.foreach_batch(
        lambda stream: stream.print(), state=given.folder / "state"
    )(given.numbers, 0),
    "penstock.ChangedMetrics": lambda given: given.planmetrics.after({"chaining": {(2, 0): False}}, "t0"),
    **fields("Plan", "ignored inputs options planned planner_version rejected source show size tables"),
    "Plan.nodes": lambda given: [counted(given.plan.nodes(layer)) for layer in list(penstock.Layer)[:4]],
    "Plan.edges": lambda given: [counted(given.plan.edges(layer)) for layer in list(penstock.Layer)[:4]],
    "Plan.partitions": lambda given: counted(given.plan.partitions("execution_graph")),
    "Plan.graph": lambda given: [counted(part) for part in given.plan.graph("execution_graph")],
    "Plan.explain": lambda given: given.plan.explain(("Orders", "Parse"), topology="t0").show(),
    "Plan.metrics": lambda given: given.plan.metrics(
        given.spark.createDataFrame([("t0", 1, 9.0)], "topology string, id int, records_per_second double")
    ).show(),
    "Plan.write": lambda given: given.plan.write(given.store),
    "Plan.release": lambda given: penstock.plan(given.df.drop("team")).release(),
    "Tables.get": lambda given: given.plan.tables.get("managed_memory"),
    "Tables.items": lambda given: [counted(table) for _, table in given.plan.tables.items()],
    "Tables.keys": lambda given: list(given.plan.tables.keys()),
    "Tables.values": lambda given: [table.columns for table in given.plan.tables.values()],
    **fields("Graph", "edges to_igraph to_networkx vertices"),
    **fields("PlanMetrics", "edges plans show summary vertices"),
    "PlanMetrics.after": lambda given: given.planmetrics.after({"chaining": {(2, 0): False}}, "t0").after({}),
    "PlanMetrics.release": lambda given: given.plan.metrics().release(),
    **fields("Explained", "edges operators show slots topology whole"),
    **fields("ClusterSize", "cluster_per_job jobs session_cluster show source task_managers"),
    **fields("Generated", "topologies transformations"),
    "Generated.write": lambda given: given.generated.write(given.folder / "generated.jsonl"),
    **fields("Diff", "counts new old show table topologies"),
    "Diff.require": lambda given: given.diff.require("restores"),
    **fields("Drawing", "networkx render topology"),
    "Drawing.write": lambda given: given.drawing.write(given.folder / "drawn.svg"),
    **fields("Store", "path versions"),
    "StreamExecutionEnvironment.from_dataframe": lambda given: sum(given.stream().execute_and_collect()),
    "StreamExecutionEnvironment.to_dataframes": several,
    "StreamExecutionEnvironment.get_job_graph": lambda given: _graphs(given, "get_job_graph"),
    "StreamExecutionEnvironment.get_stream_graph": lambda given: _graphs(given, "get_stream_graph"),
    "DataFrames.release": several,
    "DataStream.to_dataframe": lambda given: given.stream().to_dataframe().count(),
    "DataStream.map_batches": lambda given: (
        given.stream().map_batches(lambda batch: batch).to_dataframe().count()
    ),
    "KeyedStream.to_dataframe": lambda given: given.stream().key_by(lambda n: n % 2).to_dataframe().count(),
    "KeyedStream.map_batches": lambda given: (
        given.stream().key_by(lambda n: n % 2).map_batches(lambda batch: batch).to_dataframe().count()
    ),
    "KeyedStream.aggregate": lambda given: (
        StreamExecutionEnvironment.get_execution_environment()
        .from_dataframe(given.numbers, key="id")
        .aggregate([("id", "max")])
    ),
}


def _graphs(given: Given, method: str) -> None:
    stream = given.stream()
    stream.print()
    repr(getattr(stream._environment, method)())


def refusals(given: Given) -> dict[str, str]:
    """What was said of calls, by name; an error that is not Penstock's begins with "raw"."""
    refused = {}
    for name, call in CALLS.items():
        try:
            call(given)
        except penstock.PenstockError as error:
            refused[name] = str(error).splitlines()[0]
        except BaseException as error:
            refused[name] = f"raw {type(error).__name__}: {str(error)[:500]}"
    return refused


if __name__ == "__main__":
    from tests.engine.embedding.pipeline import session

    own = session(*sys.argv[1:])
    print(json.dumps(refusals(Given(own))), flush=True)
    own.stop()
