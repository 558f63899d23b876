"""`penstock run --resume`: a run goes on with what an earlier one has kept."""

import os
from typing import TYPE_CHECKING

import typer

from penstock.engine.commands.given_options import given_options
from penstock.engine.output.redaction import REDACTED
from penstock.engine.run.recovery.find_kept import find_kept
from penstock.engine.run.recovery.kept_script import new_script
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.engine.run.runtime.recover_jobs import ScriptRecovery


def script_recovery(checkpoint_dir: str | None, resume: str | None) -> "ScriptRecovery | None":
    """What jobs of a script keep and go on with; None where they do neither.

    From now on this process works on it. InputError where there is nothing to resume, or another process
    works on it; ConfigurationError where `checkpoint_dir` cannot be written to.
    """
    from penstock.engine.run.runtime.recover_jobs import ScriptRecovery

    if resume is not None:
        script, record = find_kept(resume, checkpoint_dir)
        script.claim()
        return ScriptRecovery(script, resume if record is None else record.job_id)
    return None if checkpoint_dir is None else ScriptRecovery(new_script(checkpoint_dir))


def run_again(context: typer.Context, resume: str, checkpoint_dir: str | None) -> None:
    """Run the script of the job `resume` in the folder, with the arguments and options that it had.

    Options that are given now come after those. ConfigurationError where some were secret, and are not known.
    """
    _, record = find_kept(resume, checkpoint_dir)
    if record is None or record.submitted.script is None:
        raise ConfigurationError(
            f"job {resume} is not listed: what it ran is not known", "give the script, and its arguments"
        )
    job = record.submitted
    if any(REDACTED in text for text in (*job.options, *job.arguments)):
        raise ConfigurationError(
            f"job {record.job_id} was given secrets, which are not kept",
            "give the script again, with its arguments and options",
        )
    if job.working_folder is not None:
        os.chdir(job.working_folder)
    options = [
        *(option for option in job.options if not option.startswith("--resume=")),
        *given_options(context),
    ]
    arguments = [*options, "--", str(job.script), *job.arguments]
    with context.command.make_context(context.info_name, arguments, parent=context.parent) as again:
        context.command.invoke(again)
