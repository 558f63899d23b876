"""`penstock sweep`: a grid of topologies, options and planners, measured cell by cell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column
from typer.core import TyperGroup

from penstock.engine.commands.key_values import ConfigDir, Define, key_values
from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.measure.sweep.sweep_spec import DEFAULT_METRICS, TableFormat
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import progress
from penstock.engine.output.write_lines import write_pieces
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS

SHOWN_FAILURES = 10

if TYPE_CHECKING:
    from penstock.engine.measure.sweep.grid import Cell
    from penstock.engine.measure.sweep.run_sweep import SweepResult


class _SpecByDefault(TyperGroup):
    """A group whose first command is meant where none is named: `penstock sweep SPEC.yaml`.

    Typer's extension point for that is a class.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Arguments, with the name of the first command before them unless one is named."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


sweep_command = typer.Typer(
    cls=_SpecByDefault,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Measure a grid of topologies, options and planners; show results as tables and figures. "
    "penstock sweep SPEC.yaml means penstock sweep run SPEC.yaml.",
)


@sweep_command.command("run", cls=PlainCommand)
def run(
    spec: Annotated[str, typer.Argument(metavar="SPEC.yaml", help="The grid; see docs/sweeps.md.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder whose Delta table results gets the rows.")
    ] = Path("penstock-sweep"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells; measure nothing.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure cells again whose row records an error.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Measure all cells of SPEC anew; their rows are taken away first."),
    ] = False,
    depends: Annotated[
        list[str] | None,
        typer.Option(
            "--depends",
            metavar="FILE",
            help="A file or folder that a planner reads or runs beside what it imports, such as a program: "
            "cells are measured anew when it changes. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, metavar="S", help="Seconds that one cell may take, without --master."
        ),
    ] = 3600,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            min=0.01,
            metavar="S",
            help="Seconds that a planner of your own may take for a batch.",
        ),
    ] = DEFAULT_SECONDS,
    master: Annotated[
        str | None,
        typer.Option("--master", "-m", metavar="URL", help="Measure on this Spark, several cells at a time."),
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Measure every combination of topologies, options, costs and planners that SPEC.yaml lists.

    A sweep that is stopped, killed too, goes on when it is called again: what DIR has is not measured again.
    A cell that fails is a row that says why. For example:

    penstock sweep grid.yaml --out sweep
    penstock sql sweep "select topologies, planner, slots from results"
    """
    from penstock.engine.measure.sweep.run_sweep import prepare_sweep, sweep_grid

    prepared = prepare_sweep(spec, config_dir, key_values(define, "-D"), time_limit, depends or ())
    if dry_run:
        _list(prepared.cells)
        return
    with progress(len(prepared.cells)) as report:
        swept = sweep_grid(
            prepared, str(out), report, again=retry_failed, anew=force, timeout=timeout, master=master
        )
    _print_sweep(swept, len(prepared.cells), out)


By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="What tells rows apart: shape, file, planner, drawn_operators, costs, an option of Flink, … "
        "Repeatable; default: all that have several values.",
    ),
]


@sweep_command.command("table", cls=PlainCommand)
def table(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that a sweep has written to.")],
    form: Annotated[
        TableFormat, typer.Option("--format", help=f"{', '.join(TableFormat)} (latex: with booktabs).")
    ] = TableFormat.MARKDOWN,
    by: By = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="COLUMN",
            help=f"What is averaged; repeatable. Default: {', '.join(DEFAULT_METRICS)}.",
        ),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write results as a table for a paper or a page: means over all cells that are alike in --by."""
    from penstock.engine.measure.sweep.format_table import formatted, read_results, results_in_rows

    write_pieces([formatted(results_in_rows(read_results(folder), by, metric), form)], to)


@sweep_command.command("plot", cls=PlainCommand)
def plot(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that a sweep has written to.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The figure: .svg, .pdf or .png.")] = Path(
        "sweep.svg"
    ),
    x: Annotated[
        str | None,
        typer.Option("-x", metavar="COLUMN", help="Default: the first number that has several values."),
    ] = None,
    y: Annotated[str, typer.Option("-y", metavar="COLUMN", help="What was measured.")] = DEFAULT_METRICS[0],
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="COLUMN", help="A line for each value. Default: planner, if there are several."
        ),
    ] = None,
) -> None:
    """Draw results: means over an axis of the grid, with bars from the least to the largest value.

    Needs matplotlib: pip install 'penstock-spark\\[figures]'.
    """
    from penstock.engine.measure.sweep.format_table import figure_of_results, read_results, write_figure

    write_figure(figure_of_results(read_results(folder), x, y, by), to)
    print_beside_output(f"{to}")


def _list(cells: "list[Cell]") -> None:
    columns = [Column(name) for name in ("topologies", "options", "costs", "planner", "repetition")]
    rows = [
        (
            cell.topologies,
            " ".join(f"{key}={value}" for key, value in cell.options.items()),
            cell.costs or "",
            cell.planner,
            str(cell.repetition),
        )
        for cell in cells
    ]
    print_table(columns, rows)
    print_beside_output(f"{len(cells):,} cells")


def _print_sweep(swept: "SweepResult", cells: int, out: Path) -> None:
    said = f"{out}: {cells:,} cells, {swept.measured:,} measured now, {swept.before:,} before"
    print_line(f"{said}, {len(swept.failed):,} failed")
    for cell, why in swept.failed[:SHOWN_FAILURES]:
        print_beside_output(Styled(f"{cell}, repetition {cell.repetition}: {why}", "red"))
    if len(swept.failed) > SHOWN_FAILURES:
        print_beside_output(
            f"and {len(swept.failed) - SHOWN_FAILURES:,} more: the column error of results has all"
        )
    print_beside_output(Styled(f'penstock sql {out} "select * from results" shows them', "dim"))
