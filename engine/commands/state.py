"""The commands `penstock state`, for the state of streams."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Column

from penstock.engine.commands.key_values import given_configuration
from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.run.streams.open_state import (
    changed_entries,
    list_tables,
    manifest_of,
    read_state,
    table_of_batches,
)
from penstock.engine.store.plan_source import SourceKind, require_kind
from penstock.engine.views.diff.savepoint_verdicts import RequiredVerdict
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.topology.fingerprint import STREAM_STATE

if TYPE_CHECKING:
    from penstock.engine.run.lowering.transformations import Job

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
    batches = table_of_batches(require_kind(path, None, SourceKind.STATE).path).to_pylist()
    print_table(
        [Column(heading, justify=justify) for heading, justify, _ in _BATCH_COLUMNS],
        ([_cell(text(batch)) for _, _, text in _BATCH_COLUMNS] for batch in batches),
    )


_BATCH_COLUMNS: tuple[tuple[str, Literal["left", "right"], Callable[[dict[str, Any]], Any]], ...] = (
    ("version", "right", lambda batch: batch["version"]),
    ("batch", "right", lambda batch: batch["batch_id"]),
    ("job", "left", lambda batch: batch["job"]),
    ("started (UTC)", "left", lambda batch: f"{batch['started_at']:%Y-%m-%d %H:%M:%S}"),
    ("rows", "right", lambda batch: batch["rows"]),
    ("watermark", "right", lambda batch: batch["watermark"]),
    ("seconds", "right", lambda batch: batch["run_seconds"]),
    ("state bytes", "right", lambda batch: batch["state_bytes"]),
)


@state_command.command("diff", cls=PlainCommand)
def diff(
    one: Annotated[str, typer.Argument(metavar="PATH[@OLD]", help="The state in one version.")],
    other: Annotated[
        str,
        typer.Argument(
            metavar="NEW",
            help="The same state in another version (PATH@NEW), or a script (.py) that calls foreach_batch.",
        ),
    ],
    require: Annotated[
        RequiredVerdict | None,
        typer.Option(
            "--require",
            metavar="VERDICT",
            help="For a script: exit with 6 if its verdict is worse than this: restores, allow-non-restored.",
        ),
    ] = None,
) -> None:
    """Compare two versions of a state, or tell whether the stream of a script takes it over.

    Of two versions, it counts the entries that the second one adds, removes and changes, by state. Of a
    script, it plans the topology without starting the query, and gives the answer of its first batch.

    Examples:
        penstock state diff state@3 state@4
        penstock state diff state new.py --require restores

    Exit codes:
        3: A script cannot be read, or has no stream.
        4: Not the state of a stream, no such version, or a damaged file.
        6: The verdict is worse than --require.
    """
    before = require_kind(one, None, SourceKind.STATE)
    manifest = manifest_of(before.path, before.version)
    after = require_kind(other, None, SourceKind.STATE, SourceKind.SCRIPT)
    if after.kind is SourceKind.SCRIPT:
        _diff_with_script(before.path, manifest, after.path, require)
        return
    if require is not None:
        raise ConfigurationError(
            "--require needs a script, got two versions", "name a script in place of the second version"
        )
    sides = (before.path, manifest), (after.path, manifest_of(after.path, after.version))
    columns = ("operator", "state", "added", "removed", "changed")
    print_table(
        [Column(column) for column in columns],
        ([_cell(change[column]) for column in columns] for change in changed_entries(*sides)),
    )


# Whether the stream of a script takes over a state, by the rule of its first batch.


def _diff_with_script(
    folder: str, manifest: dict[str, Any], script: str, require: RequiredVerdict | None
) -> None:
    from penstock.engine.run.lowering.plan_job import plan_to_run
    from penstock.engine.run.runtime.compile_job import compile_job
    from penstock.engine.run.streams.restore_state import (
        changes_of_state,
        job_to_restore,
        require_streamable,
        states_of,
    )
    from penstock.engine.views.diff.savepoint_verdicts import VERDICT_WORDS, WorseVerdict, restored_states

    job = _stream_of_script(folder, script)
    tables = plan_to_run(job)
    compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
    require_streamable(job.name, compiled, batch=job.batch)
    new = job_to_restore(tables)
    result = restored_states(job.name, states_of(manifest), new)
    print_line(f"version {manifest['version']} of {folder} in {script}: {VERDICT_WORDS[result.verdict]}")
    failure = result.why_refused or result.strict
    if failure is not None:
        print_line(f"{failure.error}: {failure.message}")
    print_table(
        [Column(column) for column in ("operator", "uid", "state")],
        ([_cell(value) for value in change] for change in changes_of_state(manifest, compiled, new)),
    )
    worse = WorseVerdict(require)
    worse.add(result.name, result.verdict)
    worse.raise_if_any(1, "stream")


def _stream_of_script(folder: str, script: str) -> "Job":
    """Return the job of the stream with this state; if the script has one stream only, return that one."""
    from penstock.engine.library.run_script import jobs_of_script
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.run.runtime.run_context import EnvironmentSettings

    configuration = given_configuration(None, None)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    settings = EnvironmentSettings(config=configuration.scripts, plan_options=options)
    jobs = jobs_of_script(script, [], settings).jobs
    states = {_real_path(job.config[STREAM_STATE]): job for job in jobs if STREAM_STATE in job.config}
    if len(states) == 1:
        return next(iter(states.values()))
    if _real_path(folder) in states:
        return states[_real_path(folder)]
    raise InputError(
        f"{script} must start a query with the state {folder}, got {len(states)} streams with other states",
        f"they have {', '.join(states)}"
        if states
        else "df.writeStream.foreachBatch(penstock.foreach_batch(build, state=PATH)).start() makes one",
    )


def _real_path(folder: str) -> str:
    return folder if "://" in folder else os.path.realpath(folder)
