"""Which run repeats another: the same script over the same input, and nothing that may be another one."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.connectors import TextSink
from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.stream_execution_environment import job_from_environment
from penstock.engine.run.runtime.run_job import job_fingerprint
from penstock.operators.common.pickles import UnidentifiableError, identify_value
from penstock.operators.connectors.collection import CollectionSource
from penstock.operators.connectors.delta_source import DeltaSource
from penstock.operators.connectors.file_source import FileSource
from penstock.operators.connectors.nexmark import NexmarkSource
from penstock.operators.connectors.source import NumberSequenceSource, Source
from penstock.operators.files import filesystem as identify_files
from penstock.operators.formats.csv_files import Chunk, StreamFormat


class Slot:
    __slots__ = ("a", "b")


def fingerprint_of_job(source=None, function=str, collection=None, type_info=None):
    env = StreamExecutionEnvironment.get_execution_environment()
    if source is None:
        stream = env.from_collection([1] if collection is None else collection, type_info)
    else:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    sink = stream.map(function, Types.STRING()).sink_to(TextSink("/nowhere"))
    return job_fingerprint(job_from_environment(env, [sink._transformation], "job"), 0)


def in_process(folder, *arguments, seed=0):
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment = {**os.environ, **bytecode, "PYTHONHASHSEED": str(seed)}
    command = [
        sys.executable,
        "-m",
        "tests.engine.run.runtime.fingerprint_job",
        str(folder / "lines"),
        *arguments,
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=120)
    return done.stdout.strip()


@pytest.mark.slow
def test_a_script_is_the_same_in_every_process(tmp_path):
    """The first compiles the script, the others read its bytecode, where other constants are one object."""
    (tmp_path / "lines").write_text("a\nb\n")
    first = in_process(tmp_path, "5", seed=1)
    assert len(first) == 64
    assert in_process(tmp_path, "5", seed=2) == first
    assert in_process(tmp_path, "6", seed=1) != first  # values that functions hold


@pytest.mark.parametrize(
    ("one", "other", "type_info"),
    [
        ([1, 2], [1, 3], None),
        ([1, 2], [2, 1], None),
        ([1, 2], [1, 2, 2], Types.LONG()),
        ([1], [True], None),
        ([(1, {"a"})], [(1, {"b"})], None),
        ([datetime(2026, 1, 1)], [datetime(2026, 1, 1, tzinfo=UTC)], None),
        (["x"], ["y"], Types.STRING()),
        ([[1.0]], [[-1.0]], None),
        ([None], [0], None),
    ],
)
def test_a_collection_counts_by_its_values(one, other, type_info):
    assert fingerprint_of_job(collection=one, type_info=type_info) == fingerprint_of_job(
        collection=one, type_info=type_info
    )
    assert fingerprint_of_job(collection=one, type_info=type_info) != fingerprint_of_job(
        collection=other, type_info=type_info
    )


def lines_of(path):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


@pytest.mark.parametrize("cheap", [True, False])
def test_a_file_counts_by_what_is_in_it(tmp_path, monkeypatch, cheap):
    if not cheap:
        monkeypatch.setattr(identify_files, "_CHEAP_BYTES", 0)
    path = tmp_path / "in" / "a.txt"
    path.parent.mkdir()
    path.write_text("aa\n")
    first, status = fingerprint_of_job(lines_of(path.parent)), path.stat()
    assert fingerprint_of_job(lines_of(path.parent)) == first
    path.write_text("bb\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fingerprint_of_job(lines_of(path.parent)) != first
    path.write_text("aa\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert fingerprint_of_job(lines_of(path.parent)) != first
    path.rename(path.with_name("b.txt"))
    assert fingerprint_of_job(lines_of(path.parent)) != first


def test_a_table_that_is_made_anew_is_another(tmp_path):
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"n": [1]}))
    first = fingerprint_of_job(DeltaSource(table))
    assert fingerprint_of_job(DeltaSource(table)) == first
    os.rename(table, f"{table}.old")
    write_deltalake(table, pa.table({"n": [2]}))
    assert fingerprint_of_job(DeltaSource(table)) != first
    os.rename(table, f"{table}.new")
    os.rename(f"{table}.old", table)
    write_deltalake(table, pa.table({"n": [2]}), mode="append")
    assert fingerprint_of_job(DeltaSource(table, version=0)) == first
    assert fingerprint_of_job(DeltaSource(table)) != first


class Own(Source):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def fingerprint(self):
        return self.told

    def splits(self, parallelism):
        return [[] for _ in range(parallelism)]

    def read(self, split, context):
        yield Chunk([1])


def test_a_source_of_the_users_says_itself_what_it_reads():
    assert fingerprint_of_job(Own("today")) == fingerprint_of_job(Own("today"))
    assert fingerprint_of_job(Own("today")) != fingerprint_of_job(Own("tomorrow"))
    assert fingerprint_of_job(Own(None)) != fingerprint_of_job(Own(None))  # in doubt, a run is a new one


def test_no_source_can_forget_it():
    class Forgetful(Source):
        splits, read = Own.splits, Own.read

    with pytest.raises(TypeError, match="fingerprint"):
        Forgetful()  # type: ignore[abstract]


def test_numbers_and_events_count_by_their_settings():
    assert fingerprint_of_job(NumberSequenceSource(1, 3)) != fingerprint_of_job(NumberSequenceSource(1, 4))
    assert fingerprint_of_job(NexmarkSource("bid", 5)) == fingerprint_of_job(NexmarkSource("bid", 5))
    assert fingerprint_of_job(NexmarkSource("bid", 5)) != fingerprint_of_job(NexmarkSource("bid", 5, seed=1))


def test_values_that_functions_hold_count():
    def adding(number):
        return lambda value: str(value + number)

    assert fingerprint_of_job(function=adding(1)) == fingerprint_of_job(function=adding(1))
    assert fingerprint_of_job(function=adding(1)) != fingerprint_of_job(function=adding(2))


def test_modules_of_the_users_and_arguments_count(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    first = fingerprint_of_job()
    (tmp_path / "helper_of_a_user.py").write_text("LIMIT = 1\n")
    __import__("helper_of_a_user")
    try:
        second = fingerprint_of_job()
        assert second != first
        assert fingerprint_of_job() == second
        (tmp_path / "helper_of_a_user.py").write_text("LIMIT = 2\n")
        assert fingerprint_of_job() != second
    finally:
        del sys.modules["helper_of_a_user"]
    monkeypatch.setattr(sys, "argv", [sys.argv[0], "--day", "2"])
    assert fingerprint_of_job() != first


def test_what_cannot_be_told_is_like_no_other():
    assert CollectionSource([1, "a", {1, 2}]).fingerprint() is not None
    with pytest.raises(UnidentifiableError):
        identify_value(sys.stdout)
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(UnidentifiableError):
        identify_value(deep)
    assert identify_value([vars(Slot)["a"]]) == identify_value(
        [vars(Slot)["a"]]
    )  # since 3.14, classes have such
    assert identify_value([vars(Slot)["a"]]) != identify_value([vars(Slot)["b"]])
    cycle: list[object] = [1]
    cycle.append({"again": cycle})
    assert identify_value(cycle) == identify_value(cycle)


def test_a_dataframe_counts_by_its_plan_and_what_it_reads(spark, tmp_path):
    def fingerprint(dataframe):
        env = StreamExecutionEnvironment.get_execution_environment()
        return fingerprint_of_job(env.from_dataframe(dataframe)._transformation.operator)

    def rows(*numbers):
        return spark.createDataFrame(pa.table({"n": list(numbers)}))

    assert fingerprint(rows(1, 2)) == fingerprint(rows(1, 2))
    assert fingerprint(rows(1, 2)) != fingerprint(rows(1, 3))
    assert fingerprint(spark.range(3)) == fingerprint(spark.range(3))
    assert fingerprint(spark.range(3)) != fingerprint(spark.range(4))
    assert fingerprint(spark.range(3).where("id > 1")) != fingerprint(spark.range(3).where("id > 2"))
    unknown = (
        lambda: spark.range(3).selectExpr("rand()"),
        lambda: spark.range(3).selectExpr("current_timestamp()"),
        spark.range(3).rdd.toDF,
    )
    for dataframe in unknown:
        assert fingerprint(dataframe()) != fingerprint(dataframe())
    for form in ("parquet", "delta"):
        folder = str(tmp_path / form)
        rows(1, 2).write.format(form).save(folder)
        first = fingerprint(spark.read.format(form).load(folder))
        in_subquery = spark.sql(f"select id from range(3) where id in (select n from {form}.`{folder}`)")
        before = fingerprint(in_subquery)
        assert fingerprint(in_subquery) == before
        rows(1, 3).write.format(form).mode("overwrite").save(folder)
        assert fingerprint(spark.read.format(form).load(folder)) != first
        assert fingerprint(in_subquery) != before
