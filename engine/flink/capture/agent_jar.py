"""The jar of the agent that captures jobs, and the environment that puts it into a JVM."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.flink.capture.build_agent import JAR_NAME, build_agent, digest_in_jar, digest_of_sources
from penstock.engine.flink.flink_jars import flink_jars
from penstock.engine.machine.machine import is_checkout
from penstock.plans.errors import ConfigurationError

FILE = "PENSTOCK_CAPTURE_FILE"
NAME = "PENSTOCK_CAPTURE_NAME"
MODE = "PENSTOCK_CAPTURE_MODE"
PLANS = "PENSTOCK_CAPTURE_PLANS"
REFUSALS = "PENSTOCK_CAPTURE_REFUSALS"
OBSERVE = "observe"
JAVA_TOOL_OPTIONS = "JAVA_TOOL_OPTIONS"

_BUILD_AGAIN = "build Penstock again (pip install .); building needs a JDK"


def agent_jar() -> Path:
    """The jar that Penstock's build made from the sources beside it; a checkout compiles it where it is old.

    Raises ConfigurationError if it is not there, or was built from other sources, and cannot be compiled.
    """
    jar = Path(__file__).parents[1] / JAR_NAME
    if digest_in_jar(jar) == digest_of_sources():
        return jar
    if is_checkout():
        try:
            build_agent(flink_jars(), jar)
        except (RuntimeError, OSError) as error:
            raise ConfigurationError(
                f"the capturing agent cannot be compiled: {error}", _BUILD_AGAIN
            ) from error
        return jar
    problem = "was built from other sources than those beside it" if jar.is_file() else "is not there"
    raise ConfigurationError(f"the capturing agent {jar} {problem}", _BUILD_AGAIN)


def with_agent(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """`environment`, in which every JVM gets the agent with these `settings` (variables and their values)."""
    kept = {key: value for key, value in environment.items() if not key.startswith("PENSTOCK_CAPTURE_")}
    before = environment.get(JAVA_TOOL_OPTIONS, "")
    return kept | dict(settings) | {JAVA_TOOL_OPTIONS: f"{before} {java_agent_option()}".strip()}


def java_agent_option() -> str:
    """The option of Java, as JAVA_TOOL_OPTIONS takes it."""
    option = f"-javaagent:{agent_jar()}"
    return f'"{option}"' if any(map(str.isspace, option)) else option


def agent_exports(file: Path, observes: bool) -> list[str]:
    """Lines of a shell that set up a process, or an image, whose jobs are captured into `file`."""
    variables = {
        "PENSTOCK_CAPTURE_AGENT": str(agent_jar()),
        JAVA_TOOL_OPTIONS: java_agent_option(),
        FILE: os.path.abspath(file),
        **({MODE: OBSERVE} if observes else {}),
    }
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
