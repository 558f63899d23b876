"""What is handed to the runtime, and what becomes of its results; the runtime itself is not run."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.lowering.transformations import Job, Transformation
from penstock.engine.run.runtime import dataframe_of_job as lazily
from penstock.engine.run.runtime import receive_results as collect_records
from penstock.engine.run.runtime import run_job as runtime
from penstock.engine.run.runtime.run_context import RunContext
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.sink import CollectSink
from tests.engine.pyflink.datastream.helpers import environment, pairs


class Runs:
    """Stands for the runtime: keeps the jobs, and gives 1, 2, 3 for every collected stream."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.kinds: list[list[str]] = []

    def collect_job(self, job: Job, sink: Transformation, context: RunContext) -> Iterator[Any]:
        assert sink in job.transformations
        assert isinstance(sink.operator, CollectSink)
        self._note(job)
        return iter([1, 2, 3])

    def collected(self, job: Job, convert: Any, context: RunContext) -> Any:
        (sink,) = (one for one in job.transformations if isinstance(one.operator, CollectSink))
        return Records(self.collect_job(job, sink, context))

    def dataframe_of_job(
        self, job: Job, sink: Transformation, context: RunContext, observation: object
    ) -> Any:
        assert sink in job.transformations
        assert observation is None
        self._note(job)
        return "dataframe"

    def _note(self, job: Job) -> None:
        self.jobs.append(job)
        self.kinds.append([one.kind for one in job.transformations])


class Records:
    """Stands for CollectedRecords."""

    def __init__(self, records: Iterator[Any]) -> None:
        self.records = records

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.records)

    def close(self) -> None:
        self.records = iter(())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    fake = Runs()
    monkeypatch.setattr(runtime, "collect_job", fake.collect_job)
    monkeypatch.setattr(collect_records, "CollectedRecords", fake.collected)
    monkeypatch.setattr(lazily, "dataframe_of_job", fake.dataframe_of_job)
    return fake


def test_collecting(runs: Runs) -> None:
    env = environment(parallelism=3)
    stream = env.from_collection([1, 2, 3], type_info=Types.INT()).map(lambda n: n, output_type=Types.INT())
    stream.print()
    with stream.execute_and_collect() as results:
        assert results.next() == 1
        assert list(results) == [2, 3]
        with pytest.raises(StopIteration):
            results.next()
    # as in PyFlink other sinks leave the job where operators are fused
    assert runs.kinds == [["legacy_source", "one_input", "sink"]]
    sink = runs.jobs[0].transformations[-1]
    assert (sink.name, sink.parallelism, sink.output_type) == ("Data stream collect sink", 1, Types.INT())
    (collects,) = (one for one in runs.jobs[0].lowered.transformations if one.kind == "sink")
    assert collects.uid == f"dataStreamCollect_{collects.id}"
    assert runs.jobs[0].name == "DataStream Collect"
    # what is registered has run
    with pytest.raises(RuntimeError):
        env.execute()


def test_collecting_some(runs: Runs) -> None:
    stream = pairs(environment())
    assert stream.execute_and_collect("some", 2) == [1, 2]
    assert stream.execute_and_collect(limit=5) == [1, 2, 3]
    assert [job.name for job in runs.jobs] == ["some", "DataStream Collect"]


def test_a_closed_iterator_has_no_results(runs: Runs) -> None:
    with pairs(environment()).execute_and_collect() as results:
        pass
    assert list(results) == []


def test_a_dataframe_takes_its_operators_away(runs: Runs) -> None:
    env = environment()
    shared = pairs(env).map(str).name("shared")
    alone = shared.map(str).name("alone")
    shared.map(str).name("other").print()
    dataframe: Any = alone.to_dataframe()
    assert dataframe == "dataframe"
    assert [one.name for one in runs.jobs[0].transformations][1:3] == ["shared", "alone"]
    # the other branch still reads what they share
    assert [one.name for one in env.new_job().transformations][1:] == [
        "shared",
        "other",
        "Print to Std. Out",
    ]
    env.close()
    alone.to_dataframe()
    with pytest.raises(RuntimeError):
        env.new_job()


def values_of(one: Transformation) -> list[Any]:
    (parts,) = one.operator.splits(1)
    context = OperatorContext()
    return [value for part in parts for chunk in one.operator.read(part, context) for value in chunk.values]


def cached_numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([9], type_info=Types.INT()).map(lambda n: n, output_type=Types.INT()).cache()


def test_a_cached_stream_is_computed_once(runs: Runs) -> None:
    env = environment(mode="BATCH")
    cached = cached_numbers(env)
    list(cached.map(str).execute_and_collect("first"))
    list(cached.filter(bool).execute_and_collect("second"))
    assert runs.kinds == [
        ["legacy_source", "one_input", "union", "sink"],
        ["legacy_source", "one_input", "sink"],
        ["legacy_source", "one_input", "sink"],
    ]
    assert [job.name for job in runs.jobs] == ["Cache of Map", "first", "second"]
    assert values_of(runs.jobs[2].transformations[0]) == [1, 2, 3]
    cached.invalidate()
    list(cached.map(str).execute_and_collect("third"))
    assert runs.kinds[3:] == [
        ["legacy_source", "one_input", "union", "sink"],
        ["legacy_source", "one_input", "sink"],
    ]


def test_closing_forgets_what_is_cached(runs: Runs) -> None:
    env = environment(mode="BATCH")
    cached = cached_numbers(env)
    list(cached.execute_and_collect())
    env.close()
    assert cached._transformation.kind == "union"


def test_streaming_jobs_fill_no_cache(runs: Runs) -> None:
    env = environment()
    list(cached_numbers(env).execute_and_collect("only"))
    assert [job.name for job in runs.jobs] == ["only"]


def test_plans_fill_no_cache(runs: Runs) -> None:
    env = environment(mode="BATCH")
    cached_numbers(env).print()
    names = [node["name"] for node in env.get_stream_graph()["nodes"]]
    assert names == ["Source: Collection Source", "Map", "CacheWrite", "Sink: Print to Std. Out"]
    assert runs.jobs == []


def test_caches_of_caches_are_filled_from_within(runs: Runs) -> None:
    env = environment(mode="BATCH")
    outer = cached_numbers(env).map(abs, output_type=Types.INT()).name("outer").cache()
    list(outer.execute_and_collect("last"))
    assert [job.name for job in runs.jobs] == ["Cache of Map", "Cache of outer", "last"]
    assert runs.kinds[1] == ["legacy_source", "one_input", "union", "sink"]
