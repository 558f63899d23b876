"""Find the Java that Spark will start, and check its version."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from penstock.plans.errors import ConfigurationError

MINIMUM_JAVA = 17  #: Spark 4 is compiled for Java 17


@dataclass(frozen=True, slots=True)
class Java:
    """The path of a Java runtime's `java`, its full version and the feature release (17, 21, …)."""

    path: str
    version: str
    release: int


def find_java(minimum: int = MINIMUM_JAVA) -> Java:
    """Find the Java that Spark's launcher uses, JAVA_HOME's or else the first `java` on PATH.

    Raises ConfigurationError if there is none or its version is unknown; `minimum` is the oldest
    release that the error names.
    """
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = f"install Java {minimum} or newer, and put it on PATH or name it by JAVA_HOME"
    if path is None:
        raise ConfigurationError("Java is required (JAVA_HOME is not set, no java on PATH)", hint)
    try:
        run = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise ConfigurationError(f"Java: {path} (from {where}) does not run: {error}", hint) from error
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', run.stderr + run.stdout)
    if match is None:
        raise ConfigurationError(f"Java: {path} -version prints no version: {run.stderr[:200]!r}", hint)
    return Java(path, match.group(1), int(match.group(2)))


def require_java(minimum: int = MINIMUM_JAVA) -> Java:
    """Return `find_java()`, or raise ConfigurationError if it is older than `minimum`."""
    java = find_java(minimum)
    if java.release < minimum:
        raise ConfigurationError(
            f"Java must be {minimum} or newer, got {java.version} ({java.path})",
            "name a newer one by JAVA_HOME",
        )
    return java
