"""The environment in which a script writes and starts jobs.

Source: pyflink.datastream.stream_execution_environment; org.apache.flink.streaming.api.environment.
StreamExecutionEnvironment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from penstock.engine.output.redaction import remember_secrets
from penstock.engine.pyflink.common.job_client import JobClient, JobExecutionResult
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.pyflink.datastream.environment_options import (
    PARALLELISM,
    EnvironmentOptions,
    JobCaptured,
    default_local_parallelism,
)
from penstock.engine.pyflink.datastream.environment_sources import (
    EnvironmentSources,
    execution_plan_json,
    job_plan,
)
from penstock.engine.pyflink.datastream.operator_settings import SideOutputTypes, as_output_type
from penstock.engine.pyflink.datastream.stream_outputs import collected_values
from penstock.engine.run.lowering.lower_job import lower_job
from penstock.engine.run.lowering.transformations import (
    FILE_DELIMITER,
    PARAM_DELIMITER,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    RUNTIME_MODE,
    CachedFile,
    Call,
    Job,
    LoweredTransformation,
    Transformation,
    reachable,
    restart_ids,
    take_ids,
    topology_of,
)
from penstock.engine.run.runtime.run_context import RunContext, current_context
from penstock.engine.run.runtime.run_environment import print_ignored_options, print_left_out
from penstock.operators.common.configuration import Configuration
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.collection import CollectionSource
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import read_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.run.runtime.dataframe_of_job import DataFrames
    from penstock.engine.run.runtime.receive_results import CollectedRecords


# A Job, made from an environment's settings and operators.
#
# Source: org.apache.flink.streaming.api.graph.StreamGraphGenerator.{generate,configureStreamGraph}.


#: StreamGraphGenerator.DEFAULT_{STREAMING,BATCH}_JOB_NAME.
STREAMING_JOB = "Flink Streaming Job"
BATCH_JOB = "Flink Batch Job"


def _is_batch(config: dict[str, str]) -> bool:
    """Whether jobs with these options run in BATCH mode; AUTOMATIC does, because all sources are bounded."""
    return bool(read_option(config, options.RUNTIME_MODE) != "STREAMING")


def job_from_environment(
    environment: EnvironmentOptions,
    roots: Sequence[Transformation],
    job_name: str | None,
    *,
    planned: Sequence[LoweredTransformation] = (),
    lowers_all: bool = False,
) -> Job:
    """Return the job of `roots` and all their direct and indirect inputs.

    `planned`, `lowers_all`: see engine.run.lowering.lower_job.lower_job.
    Raises ValueError for an option that Flink could not parse.
    """
    settings = environment.run_context.environment_settings()
    changed = settings.changes.parallelism
    for call in reachable(roots) if changed else ():
        call.parallelism = changed.get(call.name, changed.get(call.uid or "", call.parallelism))
    if not lowers_all:
        environment.known_ids.clear()
    config = environment.options()
    remember_secrets(config)
    batch = _is_batch(config)
    if batch:
        config[RUNTIME_MODE] = "BATCH"
    files = environment.cached_files()
    if files:
        config[options.CACHED_FILES.key] = cached_files_option(files)
    max_parallelism = environment.get_max_parallelism()
    requirements, _, cache = config.get(PYTHON_REQUIREMENTS, "").partition(PARAM_DELIMITER)
    name = job_name or read_option(config, options.JOB_NAME) or (BATCH_JOB if batch else STREAMING_JOB)
    lowered = lower_job(
        name,
        roots,
        config,
        parallelism=environment.get_parallelism(),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        known_ids=environment.known_ids,
        slot_resources=environment.slot_resources(),
        planned=planned,
        lowers_all=lowers_all,
    )
    calls = [
        step.call
        for operator in lowered.submitted.physical.values()
        for step in operator.steps
        if step.call is not None
    ]
    return Job(
        name=name,
        transformations=reachable(calls),
        lowered=lowered,
        parallelism=environment.get_parallelism(),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        config=config,
        batch=batch,
        job_parameters=dict(environment.get_config().get_global_job_parameters()),
        cached_files=files,
        python_files=_paths(config.get(PYTHON_FILES)),
        requirements=requirements or None,
        requirements_cache=cache or None,
        archives=tuple(
            (path, folder or None)
            for path, _, folder in (
                archive.partition(PARAM_DELIMITER) for archive in _paths(config.get(PYTHON_ARCHIVES))
            )
        ),
        python_executable=config.get(PYTHON_EXECUTABLE),
        auto_watermark_interval_milliseconds=environment.get_config().get_auto_watermark_interval(),
        plan_options=settings.plan_options,
    )


def cached_files_option(files: dict[str, CachedFile]) -> str:
    """Return cached files as the text of one option. Source: DistributedCache.parseStringFromCachedFiles."""
    entries = []
    for name, file in files.items():
        fields = {"name": name, "path": file.path, "executable": str(file.executable).lower()}
        entries.append(
            ",".join(_quoted(f"{key}:{_quoted(value, ':')}", ",") for key, value in fields.items())
        )
    return ";".join(_quoted(entry, ";") for entry in entries)


def _quoted(text: str, delimiter: str) -> str:
    """Quote `text` as one part of a text that Flink splits at `delimiter`.

    Source: ConfigurationUtils, StructuredOptionsSplitter.
    """
    if delimiter not in text and "'" not in text and not any(map(str.isspace, text)):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _paths(option: str | None) -> tuple[str, ...]:
    return tuple(path.strip() for path in (option or "").split(FILE_DELIMITER) if path.strip())


# Cached streams, whose records are stored by the first BATCH job that reads them.
#
# Until then a cached stream is a union of one stream, without effect; afterwards it is a source. As in Flink,
# STREAMING jobs do not fill caches, but read filled ones.
#
# Source: org.apache.flink.streaming.api.transformations.CacheTransformation and its translator.


class CachedRecordsSource(CollectionSource):
    """The records of a cached stream, read by all subtasks."""

    def splits(self, parallelism: int) -> list[list[int]]:
        """Distribute the numbers of the parts to the subtasks in turn."""
        (parts, *_) = super().splits(1)
        return [parts[subtask::parallelism] for subtask in range(parallelism)]


class CachedStreams:
    """The cached streams of one environment."""

    def __init__(self) -> None:
        self._inputs: dict[int, list[Transformation]] = {}
        self._filled: dict[int, Transformation] = {}

    def register(self, cached: Transformation) -> None:
        """Register a cached stream, a union of one stream."""
        self._inputs[cached.created] = list(cached.inputs)

    def read_by(self, roots: Iterable[Transformation]) -> tuple[list[Transformation], list[Transformation]]:
        """Return the cached streams that `roots` read: unfilled ones, inner ones first, and filled ones."""
        read = [cached for cached in reachable(roots) if cached.created in self._inputs]
        return [cached for cached in read if cached.kind == "union"], [
            cached for cached in read if cached.kind != "union"
        ]

    def fill(self, cached: Transformation, records: list[object]) -> None:
        """Store the records of a cached stream."""
        cached.kind, cached.inputs = "legacy_source", []
        (cached.cached_from,) = self._inputs[cached.created]
        cached.operator = CachedRecordsSource(records, cached.output_type)
        if cached.lowered is not None:
            cached.lowered.filled = True
        self._filled[cached.created] = cached

    def invalidate(self, cached: Transformation) -> None:
        """Delete the records of a cached stream, which becomes a union again."""
        cached.kind, cached.inputs = "union", list(self._inputs[cached.created])
        cached.operator = cached.cached_from = None
        if (lowered := cached.lowered) is not None:
            lowered.filled, lowered.inputs = False, [lowered.cached]
        self._filled.pop(cached.created, None)

    def detach(self) -> None:
        """Remove the inputs of filled streams, after a stream graph was made: later graphs do not have them.

        Source: StreamExecutionEnvironment.synchronizeClusterDatasetStatus, CacheTransformation.getInputs.
        """
        for cached in self._filled.values():
            if cached.lowered is not None:
                cached.lowered.inputs = []

    def clear(self) -> None:
        """Delete all records."""
        for cached in list(self._filled.values()):
            self.invalidate(cached)


# The results that a script gets from a job that is only planned.


def is_captured(job: Job, context: RunContext) -> bool:
    """Whether `job` is captured, to be planned only. Raises JobCaptured if the script ends with it."""
    settings = context.environment_settings()
    if settings.captured is None:
        return False
    settings.captured.append(job)
    if not settings.goes_on:
        raise JobCaptured
    return True


class NoRecords:
    """The empty iterator of records of a job that is not run."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class PlannedJob:
    """The handle of a job that is not run; a JobClient sees it as finished."""

    job_id: str = "0" * 32
    milliseconds: int = 0

    def status(self) -> str:
        """Return FINISHED."""
        return "FINISHED"

    def cancel(self) -> None:
        """Do nothing."""

    def result(self) -> PlannedJob:
        """Return the job itself."""
        return self


class StreamExecutionEnvironment(EnvironmentSources):
    """The environment in which jobs are written; its streams run by `execute` and `execute_and_collect`.

    A job is what is registered: operators and sinks are registered when they are made, sources when an
    operator reads them.

    Args:
        configuration: Options of the jobs. The options of the configuration directory and of `-D` apply in
            any case.

    Examples:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> stream = env.from_collection([1, 2, 3]).map(lambda number: number + 1)
        >>> len(env.get_stream_graph()["nodes"])
        2
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(Configuration() if configuration is None else configuration)
        if not self._configuration.contains_key(PARALLELISM):
            self.set_parallelism(
                self.run_context.environment_settings().parallelism or default_local_parallelism()
            )
        self._read_configuration(self._configuration)
        self._registered: list[Transformation] = []
        #: The registered operators as an earlier plan has fused them: PyFlink changes the environment's own.
        self._planned: list[LoweredTransformation] = []
        self._caches = CachedStreams()
        #: Types of the side outputs that the script has requested, by operator and tag.
        self.side_output_types: SideOutputTypes = {}

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return an environment for this process.

        Args:
            configuration: Options that override those of `penstock run` and of the configuration.

        Returns:
            StreamExecutionEnvironment: A new one, with the parallelism of the command line or of the
            machine's cores.
        """
        settings, stacked = current_context().environment_settings(), Configuration()
        for key, value in settings.config.items():
            stacked.set_string(key, value)
        if settings.parallelism is not None:
            stacked.set_integer(PARALLELISM, settings.parallelism)
        if configuration is not None:
            stacked.add_all(configuration)
        return StreamExecutionEnvironment(stacked)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run everything that is registered, and wait for its end.

        Args:
            job_name: Name of the job; default "Flink Streaming Job".

        Returns:
            JobExecutionResult: Its id, runtime in milliseconds, accumulators and metrics.

        Raises:
            JobCompileError: The job cannot run on Spark.
            JobExecutionError: A function raised; the message names vertex, operator and record.
            JobCancelledError: It was cancelled.
            RuntimeError: Nothing is registered.
        """
        job = self._registered_job_to_run(job_name)
        if is_captured(job, self.run_context):
            return JobExecutionResult(PlannedJob().job_id, 0)
        from penstock.engine.run.runtime.run_job import run_job

        result = run_job(job, self.run_context)
        return JobExecutionResult(result.job_id, result.milliseconds, result.accumulators())

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Start everything that is registered.

        Args:
            job_name: Name of the job.

        Returns:
            JobClient: Waits for the job, asks for its state, or cancels it.

        Raises:
            JobCompileError: The job cannot run on Spark.
            RuntimeError: Nothing is registered.
        """
        job = self._registered_job_to_run(job_name)
        if is_captured(job, self.run_context):
            return JobClient(PlannedJob())
        from penstock.engine.run.runtime.list_jobs_of_script import RunningJob

        return JobClient(RunningJob(job, self.run_context).start())

    def get_execution_plan(self) -> str:
        """Return the StreamGraph of what is registered as Flink's JSON.

        Returns:
            str: As Flink's getExecutionPlan.
        """
        return execution_plan_json(self.new_job())

    def get_stream_graph(self) -> dict[str, Any]:
        """Return the StreamGraph of what is registered.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink.

        Returns:
            dict: Plan JSON with `nodes` and `edges` (docs/plan-json.md).
        """
        return job_plan(topology_of(self.new_job()), "stream_graph")

    def get_job_graph(self) -> dict[str, Any]:
        """Return the JobGraph of what is registered.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink.

        Returns:
            dict: Plan JSON with `vertices` and `topological_order` (docs/plan-json.md).
        """
        return job_plan(topology_of(self.new_job()), "job_graph")

    def close(self) -> None:
        """Unregister everything, and drop cached streams."""
        self._registered.clear()
        self._planned.clear()
        self._caches.clear()

    def add_operator(self, transformation: Transformation) -> Transformation:
        """Register an operator or sink; its default parallelism is the environment's current one.

        Args:
            transformation: An operator or a sink of this environment.

        Returns:
            Transformation: The same one.
        """
        if transformation.default_parallelism is None:
            transformation.default_parallelism = self.get_parallelism()
        transformation.environment_parallelism = self.get_parallelism()
        transformation.thread_mode = self.thread_mode()
        self._registered.append(transformation)
        return transformation

    def new_job(self, job_name: str | None = None) -> Job:
        """Return the registered operators as a job; they stay registered. Raises RuntimeError without any.

        Args:
            job_name: Name of the job; default "Flink Streaming Job".

        Returns:
            Job: All registered operators.

        Raises:
            RuntimeError: No operator is registered.
        """
        if not self._registered:
            raise RuntimeError("No operators defined in streaming topology. Cannot execute.")
        job = job_from_environment(self, self._registered, job_name, planned=self._planned)
        self._planned = list(job.lowered.transformations)
        return job

    def collect(self, job_name: str, sink: Transformation) -> CollectedRecords | NoRecords:
        """Start the registered job, and read the records of its CollectSink, `sink`, while it runs.

        Args:
            job_name: The job's name.
            sink: The CollectSink.

        Returns:
            CollectedRecords | NoRecords: An iterator over the records.
        """
        job = self._registered_job_to_run(job_name)
        if is_captured(job, self.run_context):
            return NoRecords()
        from penstock.engine.run.runtime.receive_results import CollectedRecords

        return CollectedRecords(
            job, lambda values: collected_values(values, sink.output_type), self.run_context
        )

    def collect_first(self, job_name: str, sink: Transformation) -> list[Any]:
        """Run the registered job, and return the records of `sink`, a CollectSink with a limit.

        Args:
            job_name: The job's name.
            sink: The CollectSink.

        Returns:
            list[Any]: The records, as many as the limit at most.
        """
        job = self._registered_job_to_run(job_name)
        if is_captured(job, self.run_context):
            return []
        from penstock.engine.run.runtime.run_job import collect_job

        values = collect_job(job, sink, self.run_context)
        return collected_values(list(values), sink.output_type)

    def to_dataframes(self, /, observe: Observation | None = None, **streams: DataStream) -> DataFrames:
        """Return several streams as DataFrames of one run.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink. Nothing runs before one of them is read; what leads to several of them runs once. The
        results stay in the session until they are released, by `release()` or at the end of a `with` block.

        Args:
            observe: A pyspark.sql.Observation that receives metrics of the run.
            **streams: Stream by name.

        Returns:
            DataFrames: DataFrame by name.

        Raises:
            ValueError: No stream, or one of another environment.
        """
        if not streams or any(wanted._environment is not self for wanted in streams.values()):
            raise ValueError(
                "to_dataframes: arguments must be streams of this environment by name, such as main=stream"
            )
        sinks = {name: stream._dataframe_sink() for name, stream in streams.items()}
        job = self._job_to_run(list(sinks.values()), None)
        if is_captured(job, self.run_context):
            raise JobCaptured
        from penstock.engine.run.runtime.dataframe_of_job import dataframes_of_job

        self._forget(job)
        return dataframes_of_job(job, sinks, self.run_context, observe)

    def dataframe_of(self, sink: Transformation, observation: Observation | None = None) -> DataFrame:
        """Return the stream of `sink` as a lazy DataFrame, and unregister the operators that lead to it.

        Args:
            sink: The sink whose input becomes the DataFrame.
            observation: Collects metrics of the run.

        Returns:
            DataFrame: One row per record; each action on it runs the operators.
        """
        job = self._job_to_run([sink], None)
        if is_captured(job, self.run_context):
            raise JobCaptured  # a DataFrame needs its rows
        from penstock.engine.run.runtime.dataframe_of_job import dataframe_of_job

        self._forget(job)
        return dataframe_of_job(job, sink, self.run_context, observation)

    def _forget(self, job: Job) -> None:
        done = {transformation.created for transformation in job.transformations}
        self._registered = [
            transformation for transformation in self._registered if transformation.created not in done
        ]
        self._planned = [
            planned
            for planned in self._planned
            if not any(step.call is not None and step.call.created in done for step in planned.steps)
        ]

    def register_cache(self, cached: Transformation) -> None:
        """Register a cached stream.

        Args:
            cached: The transformation of `DataStream.cache`.
        """
        self._caches.register(cached)

    def invalidate_cache(self, cached: Transformation) -> None:
        """Delete the records of a cached stream.

        Args:
            cached: The transformation of `DataStream.cache`.
        """
        self._caches.invalidate(cached)

    def _source(
        self, kind: str, name: str, source: Any, type_info: TypeInformation | None, call: Call
    ) -> DataStream:
        transformation = Transformation(
            call=call,
            kind=kind,
            name=name,
            operator=source,
            output_type=as_output_type(type_info),
            default_parallelism=self.get_parallelism(),
        )
        return DataStream(self, transformation)

    def _take_registered(self) -> list[Transformation]:
        if not self._registered:
            raise RuntimeError("No operators defined in streaming topology. Cannot execute.")
        taken, self._registered = self._registered, []
        return taken

    def _registered_job_to_run(self, job_name: str | None) -> Job:
        """Return the job of all registered operators, and unregister them."""
        roots = self._take_registered()
        planned, self._planned = self._planned, []
        return self._job_to_run(roots, job_name, planned)

    def _job_to_run(
        self,
        roots: list[Transformation],
        job_name: str | None,
        planned: Sequence[LoweredTransformation] = (),
    ) -> Job:
        """Return the job of `roots`; fill the caches that it reads unless the job is only planned."""
        runs = self.run_context.environment_settings().captured is None
        if runs:
            print_ignored_options(self.options())
        unfilled, filled = self._caches.read_by(roots)
        unfilled = unfilled if _is_batch(self.options()) else []
        job = job_from_environment(self, roots, job_name, planned=planned)
        self._caches.detach()
        if runs and (unfilled or filled):
            job = self._with_filled_caches(job, unfilled, roots)
        for cached in unfilled if not runs else ():
            self._caches.fill(cached, [])
        print_left_out(job, roots)
        return job

    def _with_filled_caches(
        self, job: Job, unfilled: list[Transformation], roots: list[Transformation]
    ) -> Job:
        """Fill the caches of `job`, and return a job that reads them, with the submitted graph of `job`."""
        next_id = take_ids(0)
        for cached in unfilled:
            done = self._fill(cached)
            roots = [root for root in roots if root not in done]
        reading = job_from_environment(self, roots, job.name, lowers_all=True)
        restart_ids(next_id)
        return replace(reading, lowered=replace(reading.lowered, submitted=job.lowered.submitted))

    def _fill(self, cached: Transformation) -> list[Transformation]:
        """Compute a cached stream; return the transformations that have run for it."""
        from penstock.engine.run.runtime.run_job import collect_job

        sink = DataStream(self, cached)._collect_sink()
        name = f"{cached.name} of {cached.inputs[0].name}"
        job = job_from_environment(self, [sink], name, lowers_all=True)
        self._caches.fill(cached, list(collect_job(job, sink, self.run_context)))
        return job.transformations
