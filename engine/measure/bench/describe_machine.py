"""Where and with what a benchmark was taken."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock.engine.machine.machine import cores, memory_bytes
from penstock.engine.spark.find_java import find_java
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import own_version

PACKAGES = ("pyspark", "delta-spark", "polars", "pyarrow", "numpy", "numba")
FLINK_VERSION = "2.3.0"


def describe_machine() -> dict[str, Any]:
    """Platform, processor, cores, memory in bytes, and the load averages of 1, 5 and 15 minutes."""
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def describe_versions(with_flink: bool) -> dict[str, str]:
    """Versions of Python, Java, Flink (where it is measured) and the packages that planners use."""
    versions = {"python": platform.python_version(), "penstock": own_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    try:
        versions["java"] = find_java().version
    except ConfigurationError:
        versions["java"] = "none"
    return versions | ({"flink": FLINK_VERSION} if with_flink else {})


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
