"""`make demo`: compare plans made in this process with plans made on Spark, and run one."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa

import penstock
from penstock.engine.commands.explain_error import explain_error
from penstock.engine.output.print_line import print_error
from penstock.engine.planning.planners import Planner
from penstock.engine.planning.planning_settings import settings_for_planner
from penstock.engine.spark.session import any_session, begin_session

FOLDER = Path(__file__).parent
AT_ONCE = 4  #: tables that Spark collects at a time


def rows_of(plan: penstock.Plan) -> dict[str, pl.DataFrame]:
    """Return all rows of each table, sorted."""

    def sorted_rows(name: str) -> pl.DataFrame:
        table = plan.tables[name]
        arrow: pa.Table = table.toArrow() if hasattr(table, "toArrow") else table
        rows = pl.DataFrame([{"row": repr(row)} for row in arrow.to_pylist()], schema={"row": pl.String})
        return rows.sort("row")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(plan.tables, pool.map(sorted_rows, plan.tables), strict=True))


def step(title: str) -> None:
    """Print what begins now, at once."""
    print(f"\n{title}", flush=True)


def main() -> None:
    """Plan the bundled examples twice, compare, and run the word count."""
    topologies = FOLDER / "examples.jsonl"
    conf = settings_for_planner(Planner.WORKERS)
    begin_session(conf=conf)  # which starts while this process plans
    step("1/3  Plan five topologies in this process")
    started = time.monotonic()
    here = penstock.plan(topologies)
    here.show()
    print(f"{time.monotonic() - started:.2f} s")

    step("2/3  Plan them in the workers of a local Spark, which starts meanwhile, and compare: some 10 s")
    started = time.monotonic()
    any_session(conf=conf)
    on_spark = penstock.plan(topologies, planner="workers")
    on_spark.nodes("job_graph").groupBy("topology").count().orderBy("topology").show(truncate=False)
    first, second = rows_of(here), rows_of(on_spark)
    different = [name for name in first if not first[name].equals(second[name])]
    if different:
        raise SystemExit(f"tables that differ: {', '.join(different)}")
    print(f"all {len(first)} tables are equal, {sum(map(len, first.values())):,} rows")
    print(f"{time.monotonic() - started:.2f} s")
    on_spark.release()

    step("3/3  Run the word count, a PyFlink script, on Spark")
    started = time.monotonic()
    for result in penstock.run(FOLDER / "word_count.py", parallelism=2):
        print(result)
    print(f"{time.monotonic() - started:.2f} s")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        explained = explain_error(error)
        if explained is None:
            raise
        print_error(f"demo: {explained[0]}")
        sys.exit(explained[1])
