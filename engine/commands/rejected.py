"""`penstock rejected`: the topologies that were refused, and why."""

import sys
from typing import Annotated

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.table import Table

from engine.commands.people import console_for_people, print_table
from engine.commands.write_lines import write_lines
from engine.session import get_session
from engine.store.read_plan import read_plan


def command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A plan store that penstock plan has written.")
    ],
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines with every error, for programs.")] = False,
) -> None:
    """List the topologies that were refused, and why."""
    spark = get_session(app_name="penstock rejected")
    refused = read_plan(spark, store, version)["rejected"]
    if json:
        lines = refused.select("name", F.to_json(F.struct("*")).alias("line"))
        write_lines(lines.orderBy("name", "line"), None)
    else:
        _print(refused)


def _print(refused: DataFrame) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("topology", "where", "stage", "error", "message"):
        table.add_column(column, overflow="fold")
    place = F.concat_ws(":", "source_file", F.col("source_line").cast("string"))
    rows = refused.orderBy("name", "source_file", "source_line").select(
        F.coalesce("name", F.lit("(no name)")), place, "error_stage", "error", "message"
    )
    count = 0
    for row in rows.toLocalIterator():
        table.add_row(*row)
        count += 1
    if count:
        print_table(table)
    console_for_people().print(f"{count} refused" if count else "nothing was refused")
    sys.stdout.flush()
