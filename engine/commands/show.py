"""`penstock show`: a store's plans, for people."""

from typing import Annotated

import typer

from penstock.engine.commands.chosen_plan import chosen_plan
from penstock.engine.commands.reads_plan import PlansToRead, called, reads_plan
from penstock.engine.commands.show_fleet import show_fleet
from penstock.engine.commands.show_in_json import show_in_json
from penstock.engine.commands.show_topology import show_topology
from penstock.engine.output.write_lines import write_texts


@reads_plan()
def command(
    store: PlansToRead,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Show this topology's vertices, chains and edges."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")] = False,
) -> None:
    """Show the plans of a store: counts, chains and refusals, or one topology in full."""
    plan = chosen_plan(store, version, topology)
    if json:
        import orjson

        write_texts([orjson.dumps(show_in_json(called(store), plan, topology)).decode()], None)
    elif topology is None:
        show_fleet(called(store), plan)
    else:
        show_topology(topology, plan)
