"""What Penstock's build does beside packing files: it compiles the agent of `penstock capture`."""

import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentBuildHook(BuildHookInterface[Any]):
    """Puts the agent's jar into wheels, beside its sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar, unless the one that is there was built from these sources.

        An installation in place compiles it when it is first asked for.
        """
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from penstock.engine.flink.capture import build_agent
        finally:
            sys.path.remove(self.root)
        jar = Path(self.root, "penstock", "engine", "flink", build_agent.JAR_NAME)
        if build_agent.digest_in_jar(jar) != build_agent.digest_of_sources():
            flink = distribution("apache-flink-libraries")
            build_agent.build_agent(Path(str(flink.locate_file("pyflink/lib"))), jar)
        build_data["artifacts"].append(f"penstock/engine/flink/{build_agent.JAR_NAME}")
