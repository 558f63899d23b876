"""`penstock export`: plan JSON lines."""

from pathlib import Path
from typing import Annotated

import typer

from engine.commands.chosen_plan import chosen_plan
from engine.commands.write_lines import write_lines
from engine.session import get_session
from plans.plan_json.to_plan_lines import to_plan_lines


def command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A plan store that penstock plan has written.")
    ],
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Only this topology.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output; .gz is compressed.")
    ] = None,
) -> None:
    """Write one line of plan JSON for each input, refused ones too, ordered by name."""
    spark = get_session(app_name="penstock export")
    lines = to_plan_lines(chosen_plan(spark, store, version, topology))
    write_lines(lines.orderBy("name", "line"), to)
