"""Settings of an environment, for all of its jobs.

Source: pyflink.datastream.stream_execution_environment.StreamExecutionEnvironment;
org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

from penstock.engine.machine.operating_system import cores
from penstock.engine.pyflink.common.execution_config import ExecutionConfig
from penstock.engine.pyflink.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from penstock.engine.pyflink.datastream.operator_settings import check_buffer_timeout, check_max_parallelism
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.run.lowering.lower_job import KnownIds
from penstock.engine.run.lowering.transformations import (
    FILE_DELIMITER,
    PARAM_DELIMITER,
    PIPELINE_CLASSPATHS,
    PIPELINE_JARS,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_EXECUTION_MODE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    RUNTIME_MODE,
    CachedFile,
)
from penstock.engine.run.runtime.run_context import current_context
from penstock.operators.common.arguments import require_kind, require_text
from penstock.operators.common.configuration import Configuration
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import FlinkOption, read_option

# Execution modes: streaming or batch. Source: pyflink.datastream.execution_mode.


class RuntimeExecutionMode(Enum):
    """How a job runs; AUTOMATIC is BATCH where all sources are bounded."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


# The settings of StreamExecutionEnvironment.get_execution_environment depend on the start of the script.
#
# `penstock run` and `penstock info` put them into a RunContext. A script that is started with python alone
# gets the settings of the configuration directory (PENSTOCK_CONF_DIR, else spark-conf/), and a local Spark
# with all cores of the machine.
#
# Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironmentFactory;
# org.apache.flink.client.program.{StreamContextEnvironment,StreamPlanEnvironment}.


class JobCaptured(BaseException):
    """Raised instead of running a job that is only planned; it ends the script.

    It is not an Exception, so that a script's own handlers do not catch it.
    Source: org.apache.flink.client.program.ProgramAbortException.
    """


_local_parallelism: list[int] = []


def default_local_parallelism() -> int:
    """Return the value of set_default_local_parallelism; by default the number of cores."""
    return _local_parallelism[-1] if _local_parallelism else cores()


def set_default_local_parallelism(parallelism: int) -> None:
    """Set the parallelism of environments made from now on."""
    if parallelism < 1:
        raise ValueError(f"parallelism must be at least 1, got {parallelism}")
    _local_parallelism[:] = [parallelism]


_CHANGELOG = "state.changelog.enabled"
_SAVEPOINTS = "execution.checkpointing.savepoint-dir"


#: CoreOptions.DEFAULT_PARALLELISM.
PARALLELISM = "parallelism.default"


class EnvironmentOptions:
    """Configuration, parallelism, chaining, checkpoints, python dependencies of an environment.

    Everything that Flink has an option for is kept in one Configuration, which goes into the jobs' plans.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.run_context = current_context()
        self._configuration = configuration
        self._config = ExecutionConfig(configuration)
        self._checkpoint_config = CheckpointConfig(configuration)
        self._cached_files: dict[str, CachedFile] = {}
        #: Ids of the fused operators of the last job or plan.
        self.known_ids: KnownIds = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}

    def get_config(self) -> ExecutionConfig:
        """The settings of execution, to be changed in place."""
        return self._config

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of operators that are made later and set none.

        Args:
            parallelism: 1 or more.

        Returns:
            StreamExecutionEnvironment: This environment.

        Raises:
            ValueError: Below 1.
        """
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the default number of subtasks."""
        settings = self.run_context.environment_settings()
        changed = settings.changes.options.get(PARALLELISM)
        parallelism = int(changed) if changed is not None else self._config.get_parallelism()
        return parallelism if parallelism > 0 else settings.parallelism or default_local_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that set none.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            StreamExecutionEnvironment: This environment.

        Raises:
            ValueError: Out of range.
        """
        self._config.set_max_parallelism(check_max_parallelism(max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Return the default number of key groups.

        It is -1 if each operator derives its own from its parallelism.
        """
        return self._config.get_max_parallelism()

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Give the operators of a slot sharing group the group's resources.

        Args:
            slot_sharing_group: A group with resources.

        Returns:
            StreamExecutionEnvironment: This environment.
        """
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def thread_mode(self) -> bool:
        """Whether functions run in the threads of Flink's tasks: option python.execution-mode.

        Penstock's own: PyFlink lacks it.
        """
        return self.options().get(PYTHON_EXECUTION_MODE) == "thread"

    def slot_resources(self) -> dict[str, tuple[Any, ...]]:
        """Return the slot resources of registered groups, by name.

        Penstock's own: PyFlink lacks it.
        """
        return {name: group.slot_resources() for name, group in self._slot_sharing_groups.items()}

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Choose how jobs run.

        Args:
            execution_mode: RuntimeExecutionMode.STREAMING, BATCH or AUTOMATIC, which means BATCH, since all
                sources are bounded.

        Returns:
            StreamExecutionEnvironment: This environment.
        """
        self._configuration.set_string(RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long a record may wait in a buffer.

        It appears in plans; runs ignore it.

        Args:
            timeout_millis: Milliseconds, 0 or more; -1: until the buffer is full.

        Returns:
            StreamExecutionEnvironment: This environment.

        Raises:
            ValueError: Below -1.
        """
        if check_buffer_timeout(timeout_millis) == -1:
            self._configuration.set_string(options.BUFFER_TIMEOUT_ENABLED.key, "false")
        else:
            self._configuration.set_string(options.BUFFER_TIMEOUT.key, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Milliseconds, or -1."""
        return (
            int(self._option(options.BUFFER_TIMEOUT)) if self._option(options.BUFFER_TIMEOUT_ENABLED) else -1
        )

    def disable_operator_chaining(self) -> Self:
        """Chain no operators.

        Returns:
            StreamExecutionEnvironment: This environment.
        """
        self._configuration.set_string(options.OPERATOR_CHAINING.key, "false")
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators are chained."""
        return bool(self._option(options.OPERATOR_CHAINING))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Whether operators of different maximum parallelism are chained."""
        return bool(self._option(options.CHAIN_DIFFERENT_MAX_PARALLELISM))

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The settings of checkpoints, to be changed in place. Jobs here take none; plans show them."""
        return self._checkpoint_config

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Set interval and mode of checkpoints.

        They appear in plans; runs take none.

        Args:
            interval: Milliseconds between checkpoints, 10 or more.
            mode: CheckpointingMode.EXACTLY_ONCE (default) or AT_LEAST_ONCE.

        Returns:
            StreamExecutionEnvironment: This environment.

        Raises:
            ValueError: Out of range.
        """
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        self._checkpoint_config.set_checkpoint_interval(interval)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds, or -1: no checkpoints."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """EXACTLY_ONCE or AT_LEAST_ONCE."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """EXACTLY_ONCE or AT_LEAST_ONCE."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are unaligned."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether checkpoints are unaligned whatever the job."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Set the option; state here needs no changelog.

        Args:
            enabled: The option's value.

        Returns:
            StreamExecutionEnvironment: Itself.
        """
        self._configuration.set_string(_CHANGELOG, "true" if enabled else "false")
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """The option; None where it was never set."""
        if not self._configuration.contains_key(_CHANGELOG):
            return None
        return self._configuration.get_string(_CHANGELOG, "") == "true"

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set the option; nothing here is saved there.

        Args:
            directory: A path.

        Returns:
            StreamExecutionEnvironment: Itself.
        """
        self._configuration.set_string(_SAVEPOINTS, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The option; None where it was never set."""
        return self._string(_SAVEPOINTS)

    def configure(self, configuration: Configuration) -> None:
        """Set all options that a configuration sets.

        Args:
            configuration: A Configuration.

        Raises:
            ValueError: An option has a wrong value.
        """
        self._configuration.add_all(configuration)
        self._read_configuration(configuration)

    def add_python_file(self, file_path: str) -> None:
        """Make a file, package or folder importable in workers.

        Args:
            file_path: A local path, or a folder.
        """
        before = self._string(PYTHON_FILES)
        joined = file_path if before is None else FILE_DELIMITER.join([file_path, before])
        self._configuration.set_string(PYTHON_FILES, joined)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install packages for workers.

        Args:
            requirements_file_path: A requirements.txt.
            requirements_cache_dir: A folder with the packages; default: they are downloaded.
        """
        parts = [requirements_file_path, *([requirements_cache_dir] if requirements_cache_dir else [])]
        self._configuration.set_string(PYTHON_REQUIREMENTS, PARAM_DELIMITER.join(parts))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Extract an archive in the working folder of workers.

        Args:
            archive_path: A zip or tar file.
            target_dir: Folder below the working folder; default: the archive's name.
        """
        entry = archive_path if target_dir is None else PARAM_DELIMITER.join([archive_path, target_dir])
        before = self._string(PYTHON_ARCHIVES)
        joined = entry if before is None else FILE_DELIMITER.join([before, entry])
        self._configuration.set_string(PYTHON_ARCHIVES, joined)

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python of workers.

        Args:
            python_exec: Path of the interpreter.
        """
        self._configuration.set_string(PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Add to the option pipeline.jars.

        Runs ignore it: jobs of Penstock run no Java.

        Args:
            *jars_path: URLs.
        """
        self._add_paths(PIPELINE_JARS, jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Add to the option pipeline.classpaths.

        Runs ignore it: jobs of Penstock run no Java.

        Args:
            *classpaths: URLs.
        """
        self._add_paths(PIPELINE_CLASSPATHS, classpaths)

    def _add_paths(self, key: str, paths: tuple[str, ...]) -> None:
        before = self._string(key)
        joined = ";".join([*([before] if before else []), *(require_text(path, "a path") for path in paths)])
        self._configuration.set_string(key, joined)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Make a file or folder available in all workers.

        Functions find it by `RuntimeContext.get_distributed_cache`.

        Args:
            file_path: A local path.
            name: Name to find it by.
            executable: Whether it may be executed.
        """
        self._cached_files[require_text(name, "name")] = CachedFile(
            path=require_text(file_path, "file_path"),
            executable=require_kind(executable, bool, "executable"),
        )

    def get_default_local_parallelism(self) -> int:
        """Parallelism of environments that are made without one."""
        return default_local_parallelism()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism of environments that are later made without one.

        Args:
            parallelism: Subtasks per operator, 1 or more.

        Raises:
            ValueError: Below 1.
        """
        set_default_local_parallelism(parallelism)

    def options(self) -> dict[str, str]:
        """Return all options that are set, Penstock's and Flink's."""
        return {**self._configuration.to_dict(), **self.run_context.environment_settings().changes.options}

    def cached_files(self) -> dict[str, CachedFile]:
        """Return the files of the distributed cache by name."""
        return dict(self._cached_files)

    def _read_configuration(self, configuration: Configuration) -> None:
        files = self._string(_CACHED) if configuration.contains_key(_CACHED) else None
        if files is not None:
            self._cached_files = {
                name: CachedFile(path=path) for name, path in options.CACHED_FILES.parse(files).items()
            }

    def _option(self, option: FlinkOption) -> Any:
        return read_option(self._configuration.to_dict(), option)

    def _string(self, key: str) -> str | None:
        if not self._configuration.contains_key(key):
            return None
        return str(self._configuration.get_string(key, ""))


_CACHED = options.CACHED_FILES.key
