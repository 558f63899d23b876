"""The option that chooses one of a script's jobs."""

from typing import Annotated

import typer

from penstock.engine.library.what_if_of_script import JobsOfScript
from penstock.engine.output.print_line import print_beside_output

# The option that chooses one of a script's jobs.


JobOption = Annotated[
    str | None,
    typer.Option("--job", metavar="N|NAME", help="Of a script: only its job of this name, or number from 1."),
]


def print_failure_of_script(jobs: JobsOfScript) -> None:
    """Say that a script failed after the last of its jobs; later ones are not known."""
    if jobs.failure is not None:
        last = jobs.jobs[-1].name
        print_beside_output(f"{jobs.failure.message}; jobs after {last!r} are not known")
