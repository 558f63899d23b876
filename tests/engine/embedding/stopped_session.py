"""What is said of every use of a Spark session that has been stopped, before it or during it, as JSON.

python stopped_session.py plain local[2] | connect URL
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import penstock
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from tests.engine.embedding.pipeline import session
from tests.plans.topology.builders import simple

FOLDER = Path(tempfile.mkdtemp())
STARTED = FOLDER / "started"


def said(call: Callable[[], Any]) -> str:
    """The first line of what is said, with the class if it is not Penstock's; nothing where all is well."""
    try:
        call()
    except penstock.PenstockError as error:
        return str(error).splitlines()[0]
    except BaseException as error:
        return f"raw {type(error).__name__}: {str(error)[:300]}"
    return ""


def environment() -> Any:
    made = StreamExecutionEnvironment.get_execution_environment()
    made.set_parallelism(2)
    return made


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    STARTED.touch()
    time.sleep(60)
    yield from batches


def uses(spark: Any, kind: str) -> dict[str, Callable[[], Any]]:
    """Calls for after the session's end, of what was made before it."""
    topologies = [simple(f"t{n}", parallelism=2) for n in range(3)]
    rows = [
        (one["name"], [(t["id"], t["kind"], t["name"], t.get("inputs", [])) for t in one["transformations"]])
        for one in topologies
    ]
    array = "transformations array<struct<id int, kind string, name string, inputs array<int>>>"
    df = spark.createDataFrame(rows, f"name string, {array}")
    here = penstock.plan(df)
    here.write(FOLDER / "store")
    read = penstock.read_plan(FOLDER / "store", spark=spark)
    graph, measured = here.graph("job_graph"), here.metrics()
    generated = penstock.generate("chain", topologies=1, operators=3, spark=spark)
    numbers = spark.range(10)
    made = environment()
    stream = made.from_dataframe(numbers).map(lambda row: row.id, Types.LONG())
    stream.print()
    several = environment()
    odd = several.from_dataframe(numbers).map(lambda row: row.id, Types.LONG())
    results = several.to_dataframes(odd=odd)
    results.odd.count()
    other = environment()
    single = other.from_dataframe(numbers).map(lambda row: row.id, Types.LONG())
    calls: dict[str, Callable[[], Any]] = {
        "plan": lambda: penstock.plan(df),
        "plan ignore": lambda: penstock.plan(df, ignore=["x"]),
        "plan spark": lambda: penstock.plan(topologies, spark=spark),
        "plan of generated": lambda: penstock.plan(tuple(generated)),
        "tables": lambda: here.tables["job_vertices"],
        "nodes": here.nodes,
        "edges": here.edges,
        "partitions": here.partitions,
        "graph": here.graph,
        "metrics": here.metrics,
        "metrics costs": lambda: penstock.plan(topologies).metrics(costs=df),
        "summary": lambda: measured.summary,
        "measured show": measured.show,
        "networkx": graph.to_networkx,
        "read_plan": lambda: penstock.read_plan(FOLDER / "store", spark=spark),
        "read nodes": read.nodes,
        "generate": lambda: penstock.generate("chain", topologies=1, spark=spark),
        "sweep": lambda: penstock.sweep({}, FOLDER / "sweep", spark=spark),
        "transform": lambda: penstock.transform(numbers, lambda stream: stream),
        "from_dataframe": lambda: environment().from_dataframe(numbers),
        "to_dataframe": single.to_dataframe,
        "to_dataframes": lambda: other.to_dataframes(single=single),
        "execute_and_collect": lambda: list(single.execute_and_collect()),
        "execute": made.execute,
        # what needs no session any more
        "fine: explain": lambda: here.explain(topology="t0"),
        "fine: check": lambda: penstock.check(here),
        "fine: size": here.size,
        "fine: draw": lambda: penstock.draw(here, topology="t0"),
        "fine: diff": lambda: penstock.diff(here, here),
        "fine: show": here.show,
        "fine: write": lambda: here.write(FOLDER / "again"),
        "fine: release": here.release,
        "fine: release measured": measured.release,
        "fine: release results": results.release,
    }
    if kind == "plain":
        joined = penstock.plan(df, planner="joins")
        costs = joined.metrics()
        calls |= {
            "write": lambda: joined.write(FOLDER / "new"),
            "joined metrics": joined.metrics,
            "joined size": joined.size,
            "joined read write": lambda: joined.write(FOLDER / "store"),
            "fine: release joined": joined.release,
            "fine: release costs": costs.release,
            "fine: no folder": lambda: (FOLDER / "new").rmdir() if (FOLDER / "new").exists() else None,
        }
    return calls


def stopped_during(spark: Any) -> str:
    """Of a plan, whose topologies are read when the session ends."""
    df = spark.range(3).selectExpr(
        "concat('t', id) as name",
        "array(named_struct('id', 1, 'kind', 'source', 'name', 'a', 'inputs', cast(array() as array<int>)),"
        "named_struct('id', 2, 'kind', 'sink', 'name', 'b', 'inputs', array(1))) as transformations",
    )
    slow = df.mapInArrow(slowly, df.schema)

    def stop() -> None:
        while not STARTED.exists():
            time.sleep(0.05)
        spark.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    found = said(lambda: penstock.plan(slow, planner="joins"))
    stopper.join()
    return found


if __name__ == "__main__":
    kind, url = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session(kind, url)
    calls = uses(spark, kind)
    during = stopped_during(spark) if kind == "plain" else ""
    if kind == "connect":
        spark.stop()
    found = {name: said(call) for name, call in calls.items()}
    if kind == "plain":
        found["during"] = during
    left = sorted(path.name for path in FOLDER.iterdir())
    print(json.dumps({"found": found, "left": left}), flush=True)
