"""`penstock draw`: a plan as a picture."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.commands.key_values import ConfigDir, Define
from penstock.engine.commands.look.plan_to_draw import plan_of_source
from penstock.engine.output.progress import Report, noted, progress
from penstock.engine.output.write_lines import open_target
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, drawable_layers, graph_of_layer
from penstock.engine.views.draw.to_dot import FORMATS, format_of, rendered
from penstock.plans.errors import ConfigurationError

CONTEXT_SETTINGS = {"allow_interspersed_args": True}

_FORMATS = ", ".join(FORMATS)


class Folding(StrEnum):
    """The values of `--fold`."""

    AUTO = "auto"
    CHAIN = "chain"
    GROUP = "group"
    NONE = "none"


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A plan store, a topology file, or a script (.py) with a job."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Of a script: its sys.argv.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Which to draw; needed if there are several."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", "-o", metavar="FILE", help="Default: standard output."),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=f"{_FORMATS}; default: as FILE ends, else svg."),
    ] = None,
    layer: Annotated[
        DrawnLayer | None,
        typer.Option("--layer", help="Default: the job graph; html has the job graph and the stream graph."),
    ] = None,
    vertex: Annotated[
        str | None,
        typer.Option(
            "--vertex",
            metavar="VERTEX",
            help="Draw the execution graph of this vertex: its name, an operator's, its id or its number.",
        ),
    ] = None,
    folding: Annotated[
        Folding,
        typer.Option(
            "--fold",
            help="Draw boxes closed: chains, slot sharing groups, none, or as the number of boxes asks for.",
        ),
    ] = Folding.AUTO,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Of a store; default: the newest.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Draw the plan of one topology as a picture, a page, or a graph for other tools."""
    wanted = _format(file_format, to)
    if vertex is not None and layer not in (None, DrawnLayer.EXECUTION_GRAPH):
        raise ConfigurationError(f"--vertex is for the execution graph, not for --layer {layer}")
    # a bar would be drawn over the picture where that goes to the terminal
    with nullcontext(Report()) if to is None else progress(3) as report:
        report("reading the plan")
        plan = plan_of_source(source, list(arguments or []), topology, version, config_dir, define)
        layers = drawable_layers(plan, layer, vertex, first_only=wanted != "html")
        report("making the graph")
        graphs = [graph_of_layer(plan, drawn_layer, vertex) for drawn_layer in layers]
        report("writing")
        parts = sum(len(graph.nodes) + len(graph.edges) for graph in graphs)
        pieces = noted(rendered(graphs, wanted, folding), parts, report)
        with open_target(to, compress=False) as file:
            for piece in pieces:
                file.write(piece.encode())


def _format(asked: str | None, to: Path | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise ConfigurationError(f"--format: found {asked!r}, allowed {_FORMATS}")
    if asked is not None:
        return asked
    return "svg" if to is None else format_of(str(to))
