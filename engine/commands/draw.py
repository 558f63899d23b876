"""`penstock draw`: a plan as a picture."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.commands.key_values import ConfigDir, Define, given_configuration
from engine.commands.plan_to_draw import is_store, plan_of_file, plan_of_script, plan_of_store, require_none
from engine.draw.drawn_plan import DrawnPlan
from engine.draw.formats import FORMATS, format_of, rendered
from engine.draw.graph_of_layer import DrawnLayer, drawable_layers, graph_of_layer
from engine.output.write_text import write_text
from plans.errors import ConfigurationError

CONTEXT_SETTINGS = {"allow_interspersed_args": True}

_FORMATS = ", ".join(FORMATS)


class Folding(StrEnum):
    """What `--fold` takes."""

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
        typer.Option("--layer", help="Default: the job graph; html has all layers to choose from."),
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
    plan = _plan(source, list(arguments or []), topology, version, config_dir, define)
    layers = drawable_layers(plan, layer, vertex, one=wanted != "html")
    graphs = [graph_of_layer(plan, one, vertex) for one in layers]
    write_text(rendered(graphs, wanted, folding), to)


def _format(asked: str | None, to: Path | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise ConfigurationError(f"--format: found {asked!r}, allowed {_FORMATS}")
    if asked is not None:
        return asked
    return "svg" if to is None else format_of(str(to))


def _plan(
    source: str,
    arguments: list[str],
    topology: str | None,
    version: int | None,
    config_dir: str | None,
    define: list[str] | None,
) -> DrawnPlan:
    if arguments and not source.endswith(".py"):
        raise ConfigurationError(f"{arguments[0]!r}: only a script takes arguments", "name one SOURCE")
    if is_store(source):
        from engine.store.store_errors import store_errors

        with store_errors(source, "reading"):
            return plan_of_store(source, topology, version)
    from engine.planning.plan_options import plan_options

    require_none(version, "--version", source)
    configuration = given_configuration(config_dir, define)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    if source.endswith(".py"):
        require_none(topology, "--topology", source)
        return plan_of_script(source, arguments, options, configuration.scripts)
    return plan_of_file(source, topology, options)
