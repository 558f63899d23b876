"""Tells what PyFlink's fusing of Python operators means for the job of a script."""

from penstock.engine.output.say import say_beside_output
from penstock.engine.run.runtime.transformations import Job
from penstock.engine.views.explain.explain_edge import lost_setting_text


def say_lost_settings(job: Job) -> None:
    """Warn of uids, hashes and names that PyFlink forgets, each with the line that sets it."""
    for lost in job.lowered.lost_settings:
        say_beside_output(f"job {job.name!r}: {lost_setting_text(lost)}")
