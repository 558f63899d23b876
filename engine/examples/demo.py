"""`make demo`: compare plans made in this process with plans by joins on Spark, and run one."""

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


def main() -> None:
    """Plan the bundled examples twice, compare, and run the word count."""
    topologies = FOLDER / "examples.jsonl"
    started = time.monotonic()
    here = penstock.plan(topologies)
    print(f"{time.monotonic() - started:6.2f} s  in this process")
    here.show()

    started = time.monotonic()
    on_spark = penstock.plan(topologies, planner="joins")
    print(f"\n{time.monotonic() - started:6.2f} s  by joins on local Spark, which has started for it")
    on_spark.nodes("job_graph").groupBy("topology").count().orderBy("topology").show(truncate=False)
    first, second = rows_of(here), rows_of(on_spark)
    different = [name for name in first if not first[name].equals(second[name])]
    if different:
        raise SystemExit(f"tables that differ: {', '.join(different)}")
    print(f"all {len(first)} tables are equal, {sum(map(len, first.values())):,} rows\n")
    on_spark.release()

    started = time.monotonic()
    for result in penstock.run(FOLDER / "word_count.py", parallelism=2):
        print(f"{time.monotonic() - started:6.2f} s  {result!r}")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        explained = explain_error(error)
        if explained is None:
            raise
        print_error(f"demo: {explained[0]}")
        sys.exit(explained[1])
