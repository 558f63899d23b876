"""Find and read Spark's settings in `spark-conf/`, in a checkout and in an installed wheel."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.machine.available_memory import import_root
from penstock.plans.errors import ConfigurationError

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def spark_conf_dir() -> Path:
    """Return Penstock's own `spark-conf/`, in `penstock/engine` if installed, else in a checkout's root.

    Raises ConfigurationError if it is in neither place.
    """
    root = import_root()
    candidates = (root / "penstock" / "engine" / "spark-conf", root / "spark-conf")
    for candidate in candidates:
        if (candidate / "spark-defaults.conf").is_file():
            return candidate
    raise ConfigurationError(
        f"spark-conf/spark-defaults.conf is missing (looked at {candidates[0]} and {candidates[1]})",
        "install Penstock again",
    )


def spark_conf_dir_in_use() -> Path:
    """Return SPARK_CONF_DIR if the user set it, else `spark_conf_dir()`."""
    named = os.environ.get("SPARK_CONF_DIR")
    return Path(named).resolve() if named else spark_conf_dir()


def spark_settings(directory: Path) -> dict[str, str]:
    """Return the settings of `directory`/spark-defaults.conf, by key.

    A profile of Penstock (a folder inside `spark_conf_dir()`) has only differences, so the lines of
    the file above it are added. Other directories are read alone; one without the file is empty.
    """
    base = spark_conf_dir()
    own = _read_properties(directory / "spark-defaults.conf")
    return {**_read_properties(base / "spark-defaults.conf"), **own} if base in directory.parents else own


def read_properties_file(path: str) -> dict[str, str]:
    """Read the settings of a user's file. Raises ConfigurationError if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return _properties(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"--properties-file {path}: {reason}",
            "write KEY VALUE on each line, as in spark-defaults.conf",
        ) from None


def _read_properties(path: Path) -> dict[str, str]:
    return _properties(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _properties(text: str) -> dict[str, str]:
    """Parse the format of spark-defaults.conf: `key value` or `key=value`, # comments, \\ at line ends."""
    text = re.sub(r"\\\n\s*", "", text)
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*[=\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


@dataclass(frozen=True, slots=True)
class DeltaCoordinates:
    """The Delta jar that Penstock is built for, from `spark.jars.packages` of spark-defaults.conf."""

    text: str
    spark_version: str
    scala_version: str
    version: str


def delta_coordinates() -> DeltaCoordinates:
    """Return the Delta jar's coordinates, from the only place that states them.

    Raises ConfigurationError if Penstock's spark-defaults.conf does not name a Delta jar.
    """
    packages = spark_settings(spark_conf_dir()).get("spark.jars.packages", "")
    match = re.search(r"io\.delta:delta-spark_([\d.]+)_([\d.]+):([^,\s]+)", packages)
    if match is None:
        raise ConfigurationError(
            f"{spark_conf_dir() / 'spark-defaults.conf'}: "
            f"spark.jars.packages must name a Delta jar, got {packages!r}",
            "install Penstock again",
        )
    return DeltaCoordinates(match.group(0), match.group(1), match.group(2), match.group(3))


def offline_jars() -> list[Path]:
    """Return the jars of PENSTOCK_JARS (a folder of jars, or paths separated by commas); empty if not set.

    Raises ConfigurationError if one does not exist or a folder contains none.
    """
    jars: list[Path] = []
    for entry in filter(None, os.environ.get("PENSTOCK_JARS", "").split(",")):
        path = Path(os.path.expanduser(entry.strip())).resolve()
        jars_of_entry = sorted(path.glob("*.jar")) if path.is_dir() else [path] if path.is_file() else []
        if not jars_of_entry:
            raise ConfigurationError(
                f"PENSTOCK_JARS must name jars or a folder of jars, got {path}",
                f"it must contain {delta_coordinates().text} and the jars it needs",
            )
        jars += jars_of_entry
    return jars
