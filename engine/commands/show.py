"""`penstock show`: a store's plans, for people."""

from typing import Annotated

import typer

from engine.commands.chosen_plan import chosen_plan
from engine.commands.show_fleet import show_fleet
from engine.commands.show_topology import show_topology
from engine.session import get_session
from engine.store.plan_versions import find_version


def command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A plan store that penstock plan has written.")
    ],
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Its vertices, chains and edges.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
) -> None:
    """Show the plans of a store: counts, chains and refusals, or one topology in full."""
    spark = get_session(app_name="penstock show")
    chosen = find_version(spark, store, version)
    tables = chosen_plan(spark, store, chosen.version, topology)
    if topology is None:
        show_fleet(store, chosen, tables)
    else:
        show_topology(topology, tables, chosen.options)
