"""What Penstock's build does beside packing files: the agent of `penstock capture`, and compiled loops."""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """Puts the agent's jar into wheels, beside its sources, and the loops of planning as bitcode of LLVM."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build both for a wheel.

        An installation in place compiles them when they are first asked for.
        """
        if version == "editable":
            return
        self._add_agent(build_data)
        self._loops = tempfile.TemporaryDirectory()
        self._add_loops(Path(self._loops.name), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the loops, which are in the wheel now."""
        if version != "editable":
            self._loops.cleanup()

    def _add_agent(self, build_data: dict[str, Any]) -> None:
        """Build the jar, unless the one that is there was built from these sources."""
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

    def _add_loops(self, folder: Path, build_data: dict[str, Any]) -> None:
        """Compile the loops where what Penstock needs is installed, as for a release.

        An isolated build (`pip install .`) leaves them out: its installation compiles them with the first
        fleet, which takes less than installing numba twice.
        """
        if not all(map(find_spec, ("numba", "polars", "pyarrow", "deltalake", "orjson", "mmh3", "xxhash"))):
            return
        loops = folder / "compiled_loops.pickle"
        environment = {**os.environ, "PYTHONPATH": self.root, "NUMBA_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-m", "penstock.engine.planning.compile_loops", str(loops)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.app.display_warning(f"the wheel has no compiled loops: {done.stderr}")
            return
        loops.chmod(0o644)
        build_data["force_include"][str(loops)] = "penstock/plans/frames/compiled_loops.pickle"
