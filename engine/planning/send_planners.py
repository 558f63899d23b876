"""Modules of planners on Spark's workers."""

import importlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.commits.temporary_folders import short_lived_folder
from penstock.engine.planning.find_custom_planners import CustomPlanner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_planners(spark: "SparkSession", custom_planners: Iterable[CustomPlanner]) -> None:
    """Let the workers import the modules that custom planners are in: files, or the packages around."""
    modules = {planner.function.__module__.partition(".")[0] for planner in custom_planners}
    for module in sorted(modules - {"penstock"} - set(sys.stdlib_module_names)):
        found = importlib.import_module(module).__file__
        if (
            found is None
        ):  # a package without __init__: what is in it cannot be told from the folders around it
            continue
        file = Path(found)
        if file.name != "__init__.py":
            spark.sparkContext.addPyFile(str(file))
            continue
        with short_lived_folder("planner") as folder:
            archive = shutil.make_archive(f"{folder}/{module}", "zip", file.parent.parent, module)
            spark.sparkContext.addPyFile(archive)
