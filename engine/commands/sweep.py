"""The commands `penstock sweep`, which measure a grid of topologies, options and planners."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column
from typer.core import TyperGroup

from penstock.engine.commands.key_values import ConfigDir, Define, key_values
from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.measure.sweep.sweep_spec import DEFAULT_METRICS, TableFormat
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import progress
from penstock.engine.output.write_lines import write_pieces
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS

SHOWN_FAILURES = 10

if TYPE_CHECKING:
    from penstock.engine.measure.sweep.grid import Cell
    from penstock.engine.measure.sweep.run_sweep import SweepResult


class _SweepGroup(TyperGroup):
    """A group whose first command is its default, for `penstock sweep SPEC.yaml`.

    Typer's extension point for this is a class.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the first command before `args` unless they name a command."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


sweep_command = typer.Typer(
    cls=_SweepGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Measure a grid of topologies, options and planners; print results as tables and figures. "
    "penstock sweep SPEC.yaml means penstock sweep run SPEC.yaml.",
)


@sweep_command.command("run", cls=PlainCommand)
def run(
    spec: Annotated[str, typer.Argument(metavar="SPEC.yaml", help="The grid; see docs/sweeps.md.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the results, a Delta table.")
    ] = Path("penstock-sweep"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells; measure nothing.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Measure failed cells again.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove the rows of all cells of SPEC, and measure them again."),
    ] = False,
    depends: Annotated[
        list[str] | None,
        typer.Option(
            "--depends",
            metavar="FILE",
            help="Another file or folder that a planner reads or runs, such as a program: cells are measured "
            "again when it changes. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, metavar="S", help="Seconds that a cell may take, without --master."
        ),
    ] = 3600,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            min=0.01,
            metavar="S",
            help="Seconds that a custom planner may take for each batch.",
        ),
    ] = DEFAULT_SECONDS,
    master: Annotated[
        str | None,
        typer.Option("--master", "-m", metavar="URL", help="Measure on this Spark, several cells at a time."),
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Measure each combination of topologies, options, costs and planners that SPEC.yaml lists.

    A sweep that was stopped or killed continues when it is called again: cells that DIR holds are not
    measured again. A cell that fails is a row with its reason.

    Examples:
        penstock sweep grid.yaml --out sweep
        penstock sql sweep "select topologies, planner, slots from results"

    Exit codes:
        3: SPEC.yaml is wrong or cannot be read; all faults are listed.
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
        help="Columns that distinguish rows: shape, file, planner, drawn_operators, costs, an option of "
        "Flink, … Repeatable; default: all that have several values.",
    ),
]


@sweep_command.command("table", cls=PlainCommand)
def table(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    form: Annotated[
        TableFormat, typer.Option("--format", help=f"{', '.join(TableFormat)} (latex: with booktabs).")
    ] = TableFormat.MARKDOWN,
    by: By = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="COLUMN",
            help=f"Columns to average; repeatable. Default: {', '.join(DEFAULT_METRICS)}.",
        ),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write results as a table for a paper or a page: means over all cells that are alike in --by.

    Examples:
        penstock sweep table sweep --format latex
    """
    from penstock.engine.measure.sweep.format_table import formatted, read_results, results_in_rows

    write_pieces([formatted(results_in_rows(read_results(folder), by, metric), form)], to)


@sweep_command.command("plot", cls=PlainCommand)
def plot(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The figure: .svg, .pdf or .png.")] = Path(
        "sweep.svg"
    ),
    x: Annotated[
        str | None,
        typer.Option("-x", metavar="COLUMN", help="Default: the first numeric column with several values."),
    ] = None,
    y: Annotated[str, typer.Option("-y", metavar="COLUMN", help="The measured column.")] = DEFAULT_METRICS[0],
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="COLUMN", help="One line per value. Default: planner, if there are several."
        ),
    ] = None,
) -> None:
    """Draw results: means over an axis of the grid, with bars from the least to the largest value.

    Needs matplotlib: pip install 'penstock-spark[figures]'.

    Examples:
        penstock sweep plot sweep --to figure.svg
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
    counts = f"{out}: {cells:,} cells, {swept.measured:,} measured now, {swept.before:,} before"
    print_line(f"{counts}, {len(swept.failed):,} failed")
    for cell, why in swept.failed[:SHOWN_FAILURES]:
        print_beside_output(StyledText(f"{cell}, repetition {cell.repetition}: {why}", "red"))
    if len(swept.failed) > SHOWN_FAILURES:
        print_beside_output(
            f"and {len(swept.failed) - SHOWN_FAILURES:,} more: see column error of the results"
        )
    print_beside_output(StyledText(f'penstock sql {out} "select * from results" shows the results', "dim"))
