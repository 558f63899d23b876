"""`make demo`: compare plans made in this process with plans made on Spark, and run one."""

import sys
import time
from pathlib import Path

import polars as pl

import penstock
from penstock.engine.commands.explain_error import explain_error
from penstock.engine.output.print_line import print_error

FOLDER = Path(__file__).parent
OF_READING = ("source_file", "source_line")


def rows_of(plan: penstock.Plan) -> dict[str, pl.DataFrame]:
    """Return all rows of each table, sorted."""
    rows_by_table = {}
    for name, table in plan.tables.items():
        arrow = table.toArrow() if hasattr(table, "toArrow") else table
        rows = pl.DataFrame([{"row": repr(row)} for row in arrow.to_pylist()], schema={"row": pl.String})
        rows_by_table[name] = rows.sort("row")
    return rows_by_table


def step(title: str) -> None:
    """Print what begins now, at once."""
    print(f"\n{title}", flush=True)


def main() -> None:
    """Plan the bundled examples twice, compare, and run the word count."""
    topologies = FOLDER / "examples.jsonl"
    step("1/3  Plan five topologies in this process")
    started = time.monotonic()
    here = penstock.plan(topologies)
    here.show()
    print(f"{time.monotonic() - started:.2f} s")

    step("2/3  Start a local Spark, plan them in its workers, and compare: some 10 s")
    started = time.monotonic()
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
