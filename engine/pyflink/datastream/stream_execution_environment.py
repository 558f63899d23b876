"""Where jobs are written and started.

Source: pyflink.datastream.stream_execution_environment; org.apache.flink.streaming.api.environment.
StreamExecutionEnvironment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.engine.pyflink.common.configuration import Configuration
from penstock.engine.pyflink.common.job_client import JobClient
from penstock.engine.pyflink.common.job_execution_result import JobExecutionResult
from penstock.engine.pyflink.common.typeinfo import TypeInformation
from penstock.engine.pyflink.datastream.cached_streams import CachedStreams
from penstock.engine.pyflink.datastream.captured_jobs import NoRecords, PlannedJob, is_captured
from penstock.engine.pyflink.datastream.closeable_iterator import collected_values
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.pyflink.datastream.environment_options import PARALLELISM
from penstock.engine.pyflink.datastream.environment_settings import (
    JobCaptured,
    current_settings,
    default_local_parallelism,
)
from penstock.engine.pyflink.datastream.environment_sources import EnvironmentSources
from penstock.engine.pyflink.datastream.job_from_environment import is_batch, job_from_environment
from penstock.engine.pyflink.datastream.job_plan import execution_plan_json, job_plan
from penstock.engine.pyflink.datastream.operator_settings import as_output_type
from penstock.engine.pyflink.datastream.source_checks import SideOutputTypes
from penstock.engine.run.runtime.job import Job, topology_of
from penstock.engine.run.runtime.lowered_transformation import LoweredTransformation
from penstock.engine.run.runtime.no_effect import say_left_out, say_without_effect
from penstock.engine.run.runtime.transformations import Call, Transformation, restart_ids, take_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.run.runtime.collect_records import CollectedRecords
    from penstock.engine.run.runtime.dataframe_of_job import DataFrames


class StreamExecutionEnvironment(EnvironmentSources):
    """Jobs are written with its streams, and run by `execute` and `execute_and_collect`.

    Operators and sinks are registered when they are made; sources, and what only says how records travel,
    belong to a job when an operator reads them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(Configuration() if configuration is None else configuration)
        if not self._configuration.contains_key(PARALLELISM):
            self.set_parallelism(current_settings().parallelism or default_local_parallelism())
        self._read_configuration(self._configuration)
        self._registered: list[Transformation] = []
        #: What a plan has made of what is registered: PyFlink fuses operators in the environment itself.
        self._planned: list[LoweredTransformation] = []
        self._caches = CachedStreams()
        #: Types that side outputs were asked for with, by operator and tag.
        self.side_output_types: SideOutputTypes = {}

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """An environment that suits how the script was started; `configuration` overrides its options."""
        settings, stacked = current_settings(), Configuration()
        for key, value in settings.config.items():
            stacked.set_string(key, value)
        if settings.parallelism is not None:
            stacked.set_integer(PARALLELISM, settings.parallelism)
        if configuration is not None:
            stacked.add_all(configuration)
        return StreamExecutionEnvironment(stacked)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run everything that is registered, and wait for it.

        Raises JobCompileError, JobExecutionError and JobCancelledError of engine.runtime.errors, and
        RuntimeError where nothing is registered.
        """
        job = self._registered_job_to_run(job_name)
        if is_captured(job):
            return JobExecutionResult(PlannedJob().job_id, 0)
        from penstock.engine.run.runtime.run_job import run_job

        result = run_job(job)
        return JobExecutionResult(result.job_id, result.milliseconds, result.accumulators())

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Run everything that is registered without waiting for it. Raises as `execute` up to its start."""
        job = self._registered_job_to_run(job_name)
        if is_captured(job):
            return JobClient(PlannedJob())
        from penstock.engine.run.runtime.start_job import RunningJob

        return JobClient(RunningJob(job).start())

    def get_execution_plan(self) -> str:
        """Flink's JSON of the StreamGraph of what is registered."""
        return execution_plan_json(self.new_job())

    def get_stream_graph(self) -> dict[str, Any]:
        """The StreamGraph of what is registered: plan JSON (nodes, edges). Penstock's own."""
        return job_plan(topology_of(self.new_job()), "stream_graph")

    def get_job_graph(self) -> dict[str, Any]:
        """The JobGraph of what is registered: plan JSON (vertices, topological_order). Penstock's own."""
        return job_plan(topology_of(self.new_job()), "job_graph")

    def close(self) -> None:
        """Forget what is registered and cached."""
        self._registered.clear()
        self._planned.clear()
        self._caches.clear()

    def add_operator(self, transformation: Transformation) -> Transformation:
        """Register an operator or sink; its default parallelism is the environment's now."""
        if transformation.default_parallelism is None:
            transformation.default_parallelism = self.get_parallelism()
        transformation.environment_parallelism = self.get_parallelism()
        transformation.thread_mode = self.thread_mode()
        self._registered.append(transformation)
        return transformation

    def new_job(self, job_name: str | None = None) -> Job:
        """What is registered, as a job; it stays registered. RuntimeError where nothing is."""
        if not self._registered:
            raise RuntimeError("No operators defined in streaming topology. Cannot execute.")
        job = job_from_environment(self, self._registered, job_name, planned=self._planned)
        self._planned = list(job.lowered.transformations)
        return job

    def collect(self, job_name: str, sink: Transformation) -> CollectedRecords | NoRecords:
        """Start what is registered, and read the records of its CollectSink, `sink`, while it runs."""
        job = self._registered_job_to_run(job_name)
        if is_captured(job):
            return NoRecords()
        from penstock.engine.run.runtime.collect_records import CollectedRecords

        return CollectedRecords(job, lambda values: collected_values(values, sink.output_type))

    def collect_first(self, job_name: str, sink: Transformation) -> list[Any]:
        """Run what is registered, and give the records of one of its sinks, a CollectSink with a limit."""
        job = self._registered_job_to_run(job_name)
        if is_captured(job):
            return []
        from penstock.engine.run.runtime.run_job import collect_job

        values = collect_job(job, sink)
        return collected_values(list(values), sink.output_type)

    def to_dataframes(self, /, observe: Observation | None = None, **streams: DataStream) -> DataFrames:
        """Several streams as DataFrames of one run, by name: what leads to them runs once. Penstock's own.

        Nothing runs until one of the DataFrames does. What has run is kept in the session until the result is
        released, explicitly or at the end of its `with` block. `observe`: as `to_dataframe`. ValueError for
        no stream, or one of others.
        """
        if not streams or any(wanted._environment is not self for wanted in streams.values()):
            raise ValueError("to_dataframes: give streams of this environment by name, as main=stream")
        sinks = {name: stream._dataframe_sink() for name, stream in streams.items()}
        job = self._job_to_run(list(sinks.values()), None)
        if is_captured(job):
            raise JobCaptured
        from penstock.engine.run.runtime.dataframe_of_job import dataframes_of_job

        self._forget(job)
        return dataframes_of_job(job, sinks, observe)

    def dataframe_of(self, sink: Transformation, observation: Observation | None = None) -> DataFrame:
        """The stream of `sink` as a lazy DataFrame; what leads to it is no longer registered."""
        job = self._job_to_run([sink], None)
        if is_captured(job):
            raise JobCaptured  # there is no DataFrame without its rows
        from penstock.engine.run.runtime.dataframe_of_job import dataframe_of_job

        self._forget(job)
        return dataframe_of_job(job, sink, observation)

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
        """A stream whose records are kept."""
        self._caches.register(cached)

    def invalidate_cache(self, cached: Transformation) -> None:
        """Forget the records of a cached stream."""
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
        """The job of what is registered, and no longer is."""
        roots = self._take_registered()
        planned, self._planned = self._planned, []
        return self._job_to_run(roots, job_name, planned)

    def _job_to_run(
        self,
        roots: list[Transformation],
        job_name: str | None,
        planned: Sequence[LoweredTransformation] = (),
    ) -> Job:
        """The job of `roots`, with the caches filled that it reads, unless it is only to be planned."""
        runs = current_settings().captured is None
        if runs:
            say_without_effect(self.options())
        unfilled, filled = self._caches.read_by(roots)
        unfilled = unfilled if is_batch(self.options()) else []
        job = job_from_environment(self, roots, job_name, planned=planned)
        self._caches.detach()
        if runs and (unfilled or filled):
            job = self._with_filled_caches(job, unfilled, roots)
        for cached in unfilled if not runs else ():
            self._caches.fill(cached, [])
        say_left_out(job, roots)
        return job

    def _with_filled_caches(
        self, job: Job, unfilled: list[Transformation], roots: list[Transformation]
    ) -> Job:
        """`job` as it runs: once its caches are filled. It is still submitted as PyFlink submits it."""
        next_id = take_ids(0)
        for cached in unfilled:
            done = self._fill(cached)
            roots = [root for root in roots if root not in done]
        reading = job_from_environment(self, roots, job.name, lowers_all=True)
        restart_ids(next_id)
        return replace(reading, lowered=replace(reading.lowered, submitted=job.lowered.submitted))

    def _fill(self, cached: Transformation) -> list[Transformation]:
        """Compute a cached stream; gives what has run for it."""
        from penstock.engine.run.runtime.run_job import collect_job

        sink = DataStream(self, cached)._collect_sink()
        name = f"{cached.name} of {cached.inputs[0].name}"
        job = job_from_environment(self, [sink], name, lowers_all=True)
        self._caches.fill(cached, list(collect_job(job, sink)))
        return job.transformations
