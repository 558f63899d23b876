"""`penstock sweep`: a grid of topologies, options and planners, measured cell by cell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from penstock.engine.commands.key_values import ConfigDir, Define, key_values
from penstock.engine.configuration.find_configuration import configuration_directory, find_configuration
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.progress import progress
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS

SHOWN_FAILURES = 10

if TYPE_CHECKING:
    from penstock.engine.sweep.grid import Cell
    from penstock.engine.sweep.run_sweep import Swept


def command(
    spec: Annotated[str, typer.Argument(metavar="SPEC.yaml", help="The grid; see docs/sweeps.md.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder whose Delta table results gets the rows.")
    ] = Path("penstock-sweep"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells; measure nothing.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure cells again whose row records an error.")
    ] = False,
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

    A sweep that is stopped, killed too, goes on when it is called again: what DIR has is not measured anew.
    A cell that fails is a row that says why. For example:

    penstock sweep grid.yaml --out sweep
    penstock sql sweep "select topologies, planner, slots from results"
    """
    from penstock.engine.sweep.grid import cells_of
    from penstock.engine.sweep.measure_cell import CellRequest
    from penstock.engine.sweep.read_sweep_spec import read_sweep_spec
    from penstock.engine.sweep.run_sweep import run_sweep

    defines = key_values(define, "-D")
    configuration = find_configuration(config_dir, defines)
    cells = cells_of(read_sweep_spec(spec), spec)
    if dry_run:
        _list(cells)
        return
    named = None if config_dir is None else str(configuration_directory(config_dir).path.resolve())
    request = CellRequest({}, {}, None, "", named, defines, time_limit)
    if master is None:
        from penstock.engine.sweep.measure_here import measure_here

        measure = measure_here(request, timeout)
    else:
        from penstock.engine.spark.session import any_session
        from penstock.engine.sweep.measure_on_spark import measure_on_spark

        spark = any_session(master=master, conf=configuration.spark, app_name="penstock sweep")
        measure = measure_on_spark(spark, request)
    with progress(len(cells)) as report:
        swept = run_sweep(cells, str(out), measure, report, retry_failed)
    _say(swept, len(cells), out)


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
    say_beside_output(f"{len(cells):,} cells")


def _say(swept: "Swept", cells: int, out: Path) -> None:
    said = f"{out}: {cells:,} cells, {swept.measured:,} measured now, {swept.before:,} before"
    say(f"{said}, {len(swept.failed):,} failed")
    for cell, why in swept.failed[:SHOWN_FAILURES]:
        say_beside_output(Styled(f"{cell}, repetition {cell.repetition}: {why}", "red"))
    if len(swept.failed) > SHOWN_FAILURES:
        say_beside_output(
            f"and {len(swept.failed) - SHOWN_FAILURES:,} more: the column error of results has all"
        )
    say_beside_output(Styled(f'penstock sql {out} "select * from results" shows them', "dim"))
