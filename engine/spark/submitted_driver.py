"""Run `penstock run` as the driver of a script in cluster mode, from archives that Spark has unpacked.

spark-submit runs this very file as the application. It starts in a Python that may not have Penstock, so
it imports nothing else before the archive is on its path.
"""

import json
import os
import runpy
import sys

WHEEL_FOLDER = "penstock-wheel"
"""The folder into which Spark unpacks Penstock, below the working folder of the driver and each executor."""

JOB_FOLDER = "penstock-job"
"""The folder into which it unpacks the script with its files and the configuration."""

COMMAND_LINE = "command.json"
"""File in the job's folder with the arguments of `penstock`, which every user could see on a command line."""


def main() -> None:
    """Run `penstock` with the arguments of the job."""
    sys.path.insert(0, os.path.abspath(WHEEL_FOLDER))
    with open(os.path.join(JOB_FOLDER, COMMAND_LINE), encoding="utf-8") as file:
        sys.argv = ["penstock", *json.load(file)]
    runpy.run_module("penstock.engine.commands.main", run_name="__main__")


if __name__ == "__main__":
    main()
