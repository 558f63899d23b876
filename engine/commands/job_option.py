"""Option that chooses one job of a script."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.output.print_line import print_beside_output

if TYPE_CHECKING:  # it imports pyspark, which a store needs not
    from penstock.engine.library.what_if_of_script import JobsOfScript

JobOption = Annotated[
    str | None,
    typer.Option("--job", metavar="N|NAME", help="For a script: the job's name or number (from 1)."),
]


def print_failure_of_script(jobs: "JobsOfScript") -> None:
    """Print that a script failed after its last known job."""
    if jobs.failure is not None:
        last = jobs.jobs[-1].name
        print_beside_output(f"{jobs.failure.message}; jobs after {last!r} are unknown")
