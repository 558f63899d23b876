"""What Penstock's build does beside packing files: it compiles the agent of `penstock capture`."""

import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentBuildHook(BuildHookInterface[Any]):
    """Puts the agent's jar beside its sources, for wheels and for installations in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar, unless the one that is there was built from these sources."""
        sys.path.insert(0, self.root)
        try:
            from engine.flink.capture import build_agent
        finally:
            sys.path.remove(self.root)
        jar = Path(self.root, "engine", "flink", build_agent.JAR_NAME)
        if build_agent.digest_in_jar(jar) != build_agent.digest_of_sources():
            flink = distribution("apache-flink-libraries")
            build_agent.build_agent(Path(str(flink.locate_file("pyflink/lib"))), jar)
        build_data["artifacts"].append(f"engine/flink/{build_agent.JAR_NAME}")
