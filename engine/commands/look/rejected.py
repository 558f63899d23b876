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
from penstock.plans.plan_json.columnar.to_topology_lines import json_lists, json_object, values

_ERROR = ("error", "location", "found", "allowed", "hint")


@reads_plan()
def command(
    store: PlansToRead,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="A line for each topology; default: one for each reason.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines with every error, for programs.")] = False,
) -> None:
    """List why topologies were refused, the most frequent reason first; or each topology, with --all."""
    refused = open_plan(store, version).table("rejected")
    if json:
        write_texts(_lines(refused.collect()), None)
    else:
        _print(refused, every)


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


def _print(refused: pl.LazyFrame, every: bool) -> None:
    columns = [Column(name) for name in ("topology", "where", "stage", "error", "message")]
    selected = refused.sort("name", "source_file", "source_line").select(
        pl.col("name").fill_null("(no name)"),
        pl.concat_str("source_file", "source_line", separator=":", ignore_nulls=True).alias("where"),
        "error_stage",
        "error",
        "message",
    )
    rows = selected.collect()
    if rows.is_empty():
        say("nothing was refused")
        return
    if every:
        print_table(columns, rows.rows())
        say(f"{len(rows):,} refused")
        return
    reasons = rows.group_by("error_stage", "error", "message", maintain_order=True).agg(
        pl.len(), pl.first("name", "where")
    )
    shown = reasons.sort("len", descending=True, maintain_order=True).select(
        pl.col("len").map_elements("{:,}".format, return_dtype=pl.String),
        *("name", "where", "error_stage", "error", "message"),
    )
    print_table([Column("topologies"), Column("the first"), *columns[1:]], shown.rows())
    count = "one reason" if len(reasons) == 1 else f"{len(reasons):,} reasons"
    more = "" if len(reasons) == len(rows) else f" for {count}; --all lists each"
    say(f"{len(rows):,} refused{more}")
