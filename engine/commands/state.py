"""The commands `penstock state`, for the state of streams."""

from typing import Annotated, Any

import typer
from rich.table import Column

from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.run.streams.open_state import (
    changed_entries,
    list_tables,
    list_versions,
    manifest_of,
    read_state,
)
from penstock.engine.store.plan_source import SourceKind, require_kind

state_command = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Show and compare the state that streams leave (penstock.foreach_batch).",
)

_CELL_CHARACTERS = 200


@state_command.command("show", cls=PlainCommand)
def show(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder of the state, or PATH@VERSION.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[STATE]", help="Show the entries of this state.")
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option("--operator", metavar="UID", help="Uid, id or name, if several operators have STATE."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Most entries; default 100.")
    ] = 100,
) -> None:
    """Show a version of a stream's state: its batch, watermark and states, or the entries of a state.

    Examples:
        penstock state show state
        penstock state show state@3 counts

    Exit codes:
        4: Not the state of a stream, no such version, or a damaged file.
    """
    source = require_kind(path, None, SourceKind.STATE)
    manifest = manifest_of(source.path, source.version)
    if name is not None:
        rows = read_state(source.path, manifest, name, operator)
        columns = [column for column in rows.column_names if column not in _SAME_IN_ALL]
        print_table(
            [Column(column) for column in columns],
            ([_cell(row[column]) for column in columns] for row in rows.slice(0, limit).to_pylist()),
        )
        if len(rows) > limit:
            print_line(f"the first {limit:,} of {len(rows):,} entries; --limit shows more")
        return
    watermark = min(manifest["watermarks"].values(), default=None)
    print_line(
        f"version {manifest['version']} after batch {manifest['batch_id']} of job {manifest['job']!r}, "
        f"watermark {'none' if watermark is None else watermark}"
    )
    shown = ("operator", "uid", "state", "kind", "key_type", "type", "rows", "bytes")
    justified = {"rows": "right", "bytes": "right"}
    columns_shown: list[Any] = [Column(column, justify=justified.get(column, "left")) for column in shown]  # type: ignore[arg-type]
    print_table(
        columns_shown, ([_cell(row[column]) for column in shown] for row in list_tables(manifest).to_pylist())
    )


_SAME_IN_ALL = ("operator_id", "uid", "operator", "state")


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"


@state_command.command("list", cls=PlainCommand)
def list_(path: Annotated[str, typer.Argument(metavar="PATH", help="The folder of the state.")]) -> None:
    """List the versions of a stream's state with their batches, oldest first.

    Examples:
        penstock state list state

    Exit codes:
        4: Not the state of a stream.
    """
    versions = list_versions(require_kind(path, None, SourceKind.STATE).path)
    left = ("job", "started (UTC)")
    print_table(
        [Column(name, justify="left" if name in left else "right") for name in versions[0]],
        ([_cell(value) for value in version.values()] for version in versions),
    )


@state_command.command("diff", cls=PlainCommand)
def diff(
    one: Annotated[str, typer.Argument(metavar="PATH@OLD", help="The state in one version.")],
    other: Annotated[str, typer.Argument(metavar="PATH[@NEW]", help="The same state in another one.")],
) -> None:
    """Count the entries that two versions of a state add, remove and change, by state.

    Examples:
        penstock state diff state@3 state@4

    Exit codes:
        4: Not the state of a stream, no such version, or a damaged file.
    """
    sides = []
    for named in (one, other):
        source = require_kind(named, None, SourceKind.STATE)
        sides.append((source.path, manifest_of(source.path, source.version)))
    changes = changed_entries(sides[0], sides[1])
    columns = ("operator", "state", "added", "removed", "changed")
    print_table(
        [Column(column) for column in columns],
        ([_cell(change[column]) for column in columns] for change in changes),
    )
