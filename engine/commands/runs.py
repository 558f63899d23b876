"""The command `penstock runs`, which lists the runs that a store records."""

import json
from typing import Annotated

import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.job_records import measured_texts
from penstock.engine.store.open_plan import open_plan, tables_of
from penstock.engine.store.plan_versions import read_listed, versions_with


@reads_store
def runs_command(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A store that penstock run --to wrote.")],
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Every attempt of the run whose id begins with ID."),
    ] = None,
) -> None:
    """List the runs of a store, oldest first; or each attempt of one of them.

    Examples:
        penstock runs plans
        penstock runs plans --run 3f9a

    Exit codes:
        4: Not a store, or no such run.
    """
    delta = tables_of(store)
    opened = (
        (listed.version, open_plan(store, listed.version))
        for listed in versions_with(delta, read_listed(delta), "runs")
    )
    with_runs = [(version, plan) for version, plan in opened if plan.has("runs")]
    if run is None:
        _list([(number, plan.table("runs").collect()) for number, plan in with_runs])
        return
    for _, plan in with_runs:
        rows = plan.table("runs").filter(pl.col("run_id").str.starts_with(run)).collect()
        if rows.height:
            names = plan.table("job_vertices").select("vertex", vertex_name="name")
            _attempts(plan.table("executions").join(names, on="vertex").collect())
            return
    raise typer.BadParameter(f"{store} has no run {run!r}", param_hint="--run")


def _list(runs: list[tuple[int | None, pl.DataFrame]]) -> None:
    names = ("version", "run", "job", "mode", "state", "started (UTC)", "seconds", "subtasks", "attempts")
    rows = [
        (
            str(number),
            row["run_id"][:12],
            row["name"],
            row["runtime_mode"],
            row["state"],
            f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
            f"{row['milliseconds'] / 1000:.1f}",
            str(row["subtasks"]),
            str(row["attempts"]),
        )
        for number, runs_of_version in runs
        for row in runs_of_version.iter_rows(named=True)
    ]
    if rows:
        print_table([Column(name) for name in names], rows)
    else:
        print_line("no runs: penstock run --to STORE records them")


def _attempts(attempts: pl.DataFrame) -> None:
    columns = {
        "vertex": "vertex_name",
        "subtask": "subtask",
        "attempt": "attempt_number",
        "state": "state",
        "host": "host",
        "records in": "records_in",
        "records out": "records_out",
        **({"measured": "metrics"} if attempts["metrics"].null_count() < attempts.height else {}),
        "failure": "failure",
    }
    rows = [
        tuple(_cell(name, row[name]) for name in columns.values())
        for row in attempts.sort("vertex", "subtask", "attempt_number").iter_rows(named=True)
    ]
    print_table([Column(name) for name in columns], rows)


def _cell(column: str, value: object) -> str:
    if value is None:
        return ""
    if column == "metrics":
        return "; ".join(measured_texts(json.loads(str(value))))
    return redact(str(value)) if column == "failure" else str(value)
