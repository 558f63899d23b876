"""The commands `penstock recover` and `penstock clean`, for killed runs and kept checkpoints."""

import shutil
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.machine.folders import describe_owner, left_temporary_folders
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_error, print_line
from penstock.engine.run.commits.commit_run import (
    CommitError,
    publish_rest,
    reason,
    records,
    remove_staged,
    state_of,
    undo,
)
from penstock.engine.run.commits.find_leftovers import Leftovers, delete_leftover, find_leftovers
from penstock.engine.run.commits.journal import JournalRun, forget, state_folder
from penstock.engine.run.runtime.job_records import list_jobs
from penstock.engine.run.runtime.kept_script import KeptScript, find_kept, scripts_in
from penstock.plans.errors import ConfigurationError, InputError

# `penstock clean`: remove the checkpoints that jobs keep for resuming.


def clean_command(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="The job whose checkpoints to remove; default: all.")
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option("--checkpoint-dir", metavar="DIR", help="Also checkpoints of unlisted jobs in DIR."),
    ] = None,
) -> None:
    """Remove the data sets that jobs have kept to be resumed; those of jobs that may be running stay.

    Examples:
        penstock clean
        penstock clean 3f9a
    """
    if job is not None:
        script, _ = find_kept(job, checkpoint_dir)
        if script.is_claimed():
            raise InputError(f"job {job} may be running: its checkpoints are not removed", "cancel it first")
        scripts = {script.folder: script}
    else:
        all_scripts = [
            KeptScript(folder) for listed in list_jobs() if (folder := listed.submitted.kept_in) is not None
        ]
        all_scripts += scripts_in(checkpoint_dir) if checkpoint_dir is not None else []
        scripts = {
            kept_script.folder: kept_script for kept_script in all_scripts if not _may_run(kept_script)
        }
    removed = [kept_script for kept_script in scripts.values() if any(True for _ in kept_script.jobs())]
    for kept_script in scripts.values():
        kept_script.remove()
    for kept_script in removed:
        print_line(f"removed {kept_script.folder}")
    if not removed:
        print_line("nothing is kept")


def _may_run(script: KeptScript) -> bool:
    try:
        return script.is_claimed()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{script.folder} cannot be read: {error}") from error


def recover_command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Folders or URIs that sinks wrote into, or folders above them; default: the current one.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be done.")] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Also remove staged files and orphan data files below PATH that belong to no run.",
        ),
    ] = False,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than", metavar="HOURS", min=0, help="Minimum age of files that --clean removes."
        ),
    ] = 24.0,
    temporary: Annotated[
        bool,
        typer.Option(
            "--temporary",
            help="Also list, and with --clean remove, temporary folders of killed commands.",
        ),
    ] = False,
    abandon: Annotated[
        list[str] | None,
        typer.Option(
            "--abandon",
            metavar="RUN",
            help="Remove what this run has not published instead of publishing it; repeatable.",
        ),
    ] = None,
) -> None:
    """Finish the commits of runs whose driver was killed while it published, and undo runs killed before.

    Runs whose driver is alive are left alone. A run on another machine is undone when it has given no sign of
    life for a day. Journals of other users, and those that cannot be read, are named and skipped.

    Examples:
        penstock recover --dry-run
        penstock recover output/
    """
    places = paths or [".", *([home] if Path(home := state_folder()).is_dir() else [])]
    try:
        leftovers = find_leftovers(places)
    except FileNotFoundError as error:
        raise InputError(str(error)) from error
    given_up = {
        run.run_id for run in leftovers.runs for prefix in abandon or [] if run.run_id.startswith(prefix)
    }
    unknown = [prefix for prefix in abandon or [] if not any(run.startswith(prefix) for run in given_up)]
    if unknown:
        raise InputError(
            f"--abandon {', '.join(map(repr, unknown))}: no run with this id below {', '.join(places)}"
        )
    for journal in leftovers.passed_over:
        print_error(f"penstock: {journal.path} is skipped: {journal.why}")
    failures = _finish_or_undo_all(leftovers, given_up, dry_run=dry_run)
    _remove(leftovers, older_than * 3600 if clean else None, temporary=temporary, dry_run=dry_run)
    if failures:
        raise CommitError("\n".join(failures))


def _finish_or_undo_all(leftovers: Leftovers, given_up: set[str], *, dry_run: bool) -> list[str]:
    """Finish or undo each run and print a table of outcomes; return the failures."""
    failures = []
    rows = []
    for run in leftovers.runs:
        size = leftovers.size_of(run)
        abandoned = run.run_id in given_up
        try:
            outcome = (_expected_outcome if dry_run else _finish_or_undo)(run, abandoned=abandoned)
        except Exception as error:  # the other runs are finished all the same
            failures.append(reason(error))
            outcome = "not finished, see below"
        started = f"{datetime.fromtimestamp(run.started_at):%Y-%m-%d %H:%M:%S}"
        rows.append((run.short_id, run.job, started, ", ".join(run.folders), f"{size:,}", outcome))
    if rows:
        _print("run", "job", "started", "folders", "staged bytes", "outcome", rows=rows)
    else:
        print_line("no unfinished runs")
    return failures


def _finish_or_undo(run: JournalRun, *, abandoned: bool) -> str:
    state = state_of(run)
    if state == "running" or (state == "elsewhere" and not abandoned):
        return _expected_outcome(run, abandoned=abandoned)
    if state in ("undecided", "undoing", "elsewhere") and undo(run):
        return "undone: none of it is visible; run the job again"
    if abandoned:
        published = _published(run)
        remove_staged(run)
        return f"abandoned; published before: {published}"
    if state != "done":
        publish_rest(run)
    forget(run)
    return "finished: everything is published; the job need not run again"


def _expected_outcome(run: JournalRun, *, abandoned: bool) -> str:
    state = state_of(run)
    owner = describe_owner(run.owner)
    if state == "running":
        return f"left alone: {owner} is running"
    if state == "elsewhere" and not abandoned:
        return f"left alone: {owner} may be running"
    if state in ("undecided", "undoing", "elsewhere"):
        return "would be undone"
    if abandoned:
        return f"would be abandoned; published before: {_published(run)}"
    return "is published" if state == "done" else f"would be published; published before: {_published(run)}"


def _published(run: JournalRun) -> str:
    written = records(run)
    names = [sink.name for number, sink in enumerate(run.sinks) if f"settled-{number}" in written]
    return ", ".join(names) or "none"


def _remove(leftovers: Leftovers, least_age_seconds: float | None, *, temporary: bool, dry_run: bool) -> None:
    """List leftovers that belong to no run, and remove leftovers of at least this age; None removes none."""
    rows = []
    for leftover in leftovers.leftovers:
        removed = least_age_seconds is not None and leftover.age_seconds >= least_age_seconds
        if removed and not dry_run:
            try:
                delete_leftover(leftover)
            except OSError as error:
                print_error(f"penstock: {leftover.path} is not removed: {error.strerror or error}")
                removed = False
        rows.append(
            (
                leftover.path,
                f"{leftover.size:,}",
                f"{leftover.age_seconds / 3600:.1f}",
                _outcome(removed, dry_run),
            )
        )
    for folder in left_temporary_folders() if temporary else ():
        files = [file.stat() for file in folder.rglob("*") if file.is_file()]
        hours = (time.time() - folder.stat().st_mtime) / 3600
        removed = least_age_seconds is not None
        if removed and not dry_run:
            shutil.rmtree(folder, ignore_errors=True)
        size = sum(status.st_size for status in files)
        rows.append((str(folder), f"{size:,}", f"{hours:.1f}", _outcome(removed, dry_run)))
    if rows:
        _print("left over", "bytes", "hours old", "outcome", rows=rows)


def _outcome(removed: bool, dry_run: bool) -> str:
    if not removed:
        return "kept: --clean removes files older than --older-than"
    return "would be removed" if dry_run else "removed"


def _print(*headers: str, rows: Sequence[Sequence[str]]) -> None:
    print_table([Column(header) for header in headers], rows)
