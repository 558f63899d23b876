"""The command `penstock draw`, which draws a plan as a picture, a page or a graph."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.open_source import open_job, open_to_choose
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.progress import Report, noted, progress
from penstock.engine.output.write_lines import open_target
from penstock.engine.store.plan_source import HOLDS_PLANS, SourceKind, require_kind
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.store.store_location import store_errors
from penstock.engine.views.draw.drawn_plan import plan_of_topology
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, drawable_layers, graph_of_layer
from penstock.engine.views.draw.to_dot import FORMATS, format_of, rendered
from penstock.plans.errors import ConfigurationError

# The plan that `penstock draw` and `explain` read: from a store, a topology file or a script's job.


def plan_of_source(
    source: str,
    arguments: list[str],
    topology: str | None,
    version: int | None,
    config_dir: str | None,
    define: list[str] | None,
    job: str | None = None,
) -> PlanTables:
    """Return the plan of one topology of a store, a topology file, or a script with `arguments`.

    None means the only topology, the newest version, and the first job. Raises ConfigurationError for options
    that do not apply to the source, and the errors of opening it and of plan_of_topology.
    """
    if arguments and not source.endswith(".py"):
        raise ConfigurationError(f"{arguments[0]!r}: only a script takes arguments", "name one SOURCE")
    place = require_kind(source, version, *HOLDS_PLANS)

    def configuration() -> EffectiveConfiguration:
        return given_configuration(config_dir, define)

    if place.kind is SourceKind.SCRIPT:
        require_none(topology, "--topology", source)
        return plan_of_topology(open_job(source, arguments, configuration, job), None)
    require_none(job, "--job", source)
    reading = store_errors(place.path, "reading") if place.kind is SourceKind.STORE else nullcontext()
    with short_lived_folder("plan") as folder, reading:
        return plan_of_topology(open_to_choose(place, configuration, folder), topology)


def require_none(value: object, option: str, source: str) -> None:
    """Raise ConfigurationError if an option is given that does not apply to the source."""
    if value is not None:
        raise ConfigurationError(f"{option} does not apply to {source}", "it is for stores")


# --out of topology lines.


LINES = (".jsonl", ".jsonl.gz")
"""Endings of files of topology lines."""


def require_lines_to_draw(out: str, kind_of_draw: str) -> None:
    """Raise ConfigurationError unless `out` is a file of lines, which `kind_of_draw` needs."""
    if not out.endswith(LINES):
        raise ConfigurationError(
            f"--out {out}: {kind_of_draw}: must be a file of lines", "FILE.jsonl or FILE.jsonl.gz"
        )


CONTEXT_SETTINGS = {"allow_interspersed_args": True}

_FORMATS = ", ".join(FORMATS)


class Folding(StrEnum):
    """The values of `--fold`."""

    AUTO = "auto"
    CHAIN = "chain"
    GROUP = "group"
    NONE = "none"


def draw_command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A plan store, a topology file, or a script (.py) with a job."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="For a script: its sys.argv.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="NAME", help="The topology to draw; required if there are several."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", "-o", metavar="FILE", help="Default: standard output."),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=f"{_FORMATS}; default: by FILE's ending, else svg."),
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
            help="Draw the execution graph of this vertex: its name, id or number, or an operator's name.",
        ),
    ] = None,
    folding: Annotated[
        Folding,
        typer.Option(
            "--fold",
            help="Boxes drawn closed: chains, slot sharing groups, none, or auto: by the number of boxes.",
        ),
    ] = Folding.AUTO,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="For a store; default: the newest.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Draw the plan of one topology as a picture, a page, or a graph for other tools.

    Examples:
        penstock draw plans --topology word-count --to plan.svg
        penstock draw jobs.jsonl --topology word-count --layer stream_graph --to plan.html

    Exit codes:
        2: No such topology.
        4: Not a store, or no such version.
        7: The topology was refused.
    """
    wanted = _format(file_format, to)
    if vertex is not None and layer not in (None, DrawnLayer.EXECUTION_GRAPH):
        raise ConfigurationError(f"--vertex is for the execution graph, not for --layer {layer}")
    # on a terminal, a progress bar would overwrite the picture
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


def _format(given: str | None, to: Path | None) -> str:
    if given is not None and given not in FORMATS:
        raise ConfigurationError(f"--format must be one of {_FORMATS}, got {given!r}")
    if given is not None:
        return given
    return "svg" if to is None else format_of(str(to))
