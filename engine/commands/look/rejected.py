"""`penstock rejected`: the topologies that were refused, and why."""

from typing import Annotated

import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import PlansToRead, reads_plan
from penstock.engine.output.people import print_table
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.open_plan import open_plan
from penstock.plans.plan_json.columnar.json_text import json_lists, json_object, values

_ERROR = ("error", "location", "found", "allowed", "hint")


@reads_plan()
def command(
    store: PlansToRead,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines with every error, for programs.")] = False,
) -> None:
    """List the topologies that were refused, and why."""
    refused = open_plan(store, version).table("rejected")
    if json:
        write_texts(_lines(refused.collect()), None)
    else:
        _print(refused)


def _lines(refused: pl.DataFrame) -> pl.Series:
    """Every column as JSON, by name; nulls are left out."""
    numbered = refused.with_row_index("row")
    errors = (
        numbered.select("row", pl.col("errors").alias("of_row"))
        .filter(pl.col("of_row").list.len() > 0)
        .explode("of_row")
        .with_row_index("position")
        .unnest("of_row")
    )
    listed = json_lists(errors, ["row"], ["position"], json_object(values(errors, *_ERROR)))
    rows = numbered.join(listed, on="row", how="left", maintain_order="left")
    members = values(rows, *(name for name in refused.columns if name != "errors"))
    line = json_object(members | {"errors": pl.col("json").fill_null("[]")})
    return rows.select("name", line.alias("line")).sort("name", "line")["line"]


def _print(refused: pl.LazyFrame) -> None:
    columns = [Column(name) for name in ("topology", "where", "stage", "error", "message")]
    selected = refused.sort("name", "source_file", "source_line").select(
        pl.col("name").fill_null("(no name)"),
        pl.concat_str("source_file", "source_line", separator=":", ignore_nulls=True).alias("where"),
        "error_stage",
        "error",
        "message",
    )
    rows = selected.collect().rows()
    if rows:
        print_table(columns, rows)
    say(f"{len(rows)} refused" if rows else "nothing was refused")
