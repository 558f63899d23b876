"""Settings on their way to Spark's JVM: in a file that only its owner reads, never on a command line.

Every user of a machine sees the arguments of every process.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.output.redaction import redact_value

JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""Settings that Spark puts on the JVM's command line."""


@contextmanager
def submit_arguments(settings: Mapping[str, str]) -> Iterator[str]:
    """Arguments of spark-submit, quoted, for `settings`, which override those of its spark-defaults.conf.

    They are in files of mode 600 in a directory of mode 700 that goes with the block: a JVM that has started
    does not need them any more. PYSPARK_SUBMIT_ARGS follow, as PySpark takes them.
    """
    with short_lived_folder("settings") as folder:
        own = {
            key: _java_options(Path(folder), key, value) if key in JAVA_OPTIONS else value
            for key, value in settings.items()
        }
        properties = Path(folder) / "spark.properties"
        write_properties(properties, own)
        submitted = os.environ.get("PYSPARK_SUBMIT_ARGS") or "pyspark-shell"
        yield f"--properties-file {shlex.quote(str(properties))} --load-spark-defaults {submitted}"


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write `settings` as spark-submit's --properties-file, readable by this user only."""
    _write_private(path, "".join(f"{_key(key)}={_value(value)}\n" for key, value in settings.items()))


def _java_options(folder: Path, key: str, value: str) -> str:
    """`value`, or if it holds a secret, an option that makes Java read it from a file."""
    if redact_value(key, value) == value:
        return value
    file = folder / f"{key}.options"
    _write_private(file, value)
    return f"-XX:VMOptionsFile={file}"


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _key(text: str) -> str:
    """A key as java.util.Properties reads it."""
    return re.sub(r"[=:#!\s]", lambda match: "\\" + match.group(), _value(text))


def _value(text: str) -> str:
    """A value as java.util.Properties reads it; Spark itself takes white space off both ends."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"^ ", r"\\ ", escaped.replace("\f", "\\f"))
