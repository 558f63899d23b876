"""The driver of a script in cluster mode: `penstock run`, out of archives that Spark has unpacked beside it.

spark-submit is given this very file as the application. It begins in a Python that may not have Penstock, so
that it imports nothing else before the archive is on its path.
"""

import json
import os
import runpy
import sys

WHEEL_FOLDER = "penstock-wheel"
"""Where Spark unpacks Penstock, in the working folder of the driver and of each executor."""

JOB_FOLDER = "penstock-job"
"""Where it unpacks the script with its files and the configuration."""

COMMAND_LINE = "command.json"
"""In the folder of the job: the arguments of `penstock`. On Spark's command line everybody would see them."""


def main() -> None:
    """Run `penstock` with the arguments of the job."""
    sys.path.insert(0, os.path.abspath(WHEEL_FOLDER))
    with open(os.path.join(JOB_FOLDER, COMMAND_LINE), encoding="utf-8") as file:
        sys.argv = ["penstock", *json.load(file)]
    runpy.run_module("penstock.engine.commands.main", run_name="__main__")


if __name__ == "__main__":
    main()
