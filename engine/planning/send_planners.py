"""Modules of planners on Spark's workers."""

import importlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.commits.temporary_folders import short_lived_folder
from engine.planning.find_policies import Policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_planners(spark: "SparkSession", policies: Iterable[Policy]) -> None:
    """Let the workers import the modules that `policies` are in: a file, or the whole package around it."""
    modules = {policy.function.__module__.partition(".")[0] for policy in policies}
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
