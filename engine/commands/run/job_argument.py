"""The argument of commands that are about one job."""

from typing import Annotated

import typer

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The id of a job, or digits that only its id begins with.")
]
