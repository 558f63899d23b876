"""`penstock clean`: what jobs have kept to be resumed is removed."""

from typing import Annotated

import typer

from penstock.engine.output.say import say
from penstock.engine.run.jobs.job_records import list_jobs
from penstock.engine.run.recovery.kept_script import KeptScript, find_kept, scripts_in
from penstock.plans.errors import ConfigurationError, InputError


def command(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only what this job keeps; default: all jobs.")
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option("--checkpoint-dir", metavar="DIR", help="Also what unlisted jobs keep in DIR."),
    ] = None,
) -> None:
    """Remove what jobs have kept to be resumed; that of jobs that may be running stays."""
    if job is not None:
        script, _ = find_kept(job, checkpoint_dir)
        if script.is_claimed():
            raise InputError(f"job {job} may be running: what it keeps is not removed", "cancel it first")
        scripts = {script.folder: script}
    else:
        kept = [
            KeptScript(folder) for listed in list_jobs() if (folder := listed.submitted.kept_in) is not None
        ]
        kept += scripts_in(checkpoint_dir) if checkpoint_dir is not None else []
        scripts = {kept_script.folder: kept_script for kept_script in kept if not _may_run(kept_script)}
    removed = [kept_script for kept_script in scripts.values() if any(True for _ in kept_script.jobs())]
    for kept_script in scripts.values():
        kept_script.remove()
    for kept_script in removed:
        say(f"removed {kept_script.folder}")
    if not removed:
        say("nothing is kept")


def _may_run(script: KeptScript) -> bool:
    try:
        return script.is_claimed()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{script.folder} cannot be read: {error}") from error
