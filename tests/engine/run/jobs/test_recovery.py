"""What jobs keep of finished vertices, and how a later run goes on with it."""

import errno
import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.commands import recover as clean
from penstock.engine.machine.folders import STATE_DIR, this_process
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.pyflink.common import Encoder, Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.runtime.compile_job import compile_job
from penstock.engine.run.runtime.job_monitor import JobResult
from penstock.engine.run.runtime.kept_script import KeptScript, find_kept, new_script, scripts_in
from penstock.engine.run.runtime.list_jobs_of_script import running_script
from penstock.engine.run.runtime.recover_jobs import (
    ScriptRecovery,
    differences,
    finished_vertices,
    identify_plan,
    vertices_to_save,
)
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.spark.describe_spark_error import disk_error_of_spark
from penstock.operators.connectors.file_sink import FileSink
from penstock.operators.task.keep_rows import KeptFile, keep_rows, read_rows
from penstock.plans.errors import ConfigurationError, InputError, JobExecutionError

JOB = "a" * 32


@pytest.fixture(autouse=True)
def _own_list(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))


def plan_of(uids=("first", "second"), parallelism=2, name="Map"):
    topology = {
        "name": "job",
        "parallelism": parallelism,
        "transformations": [
            {"id": 1, "kind": "source", "name": "Source", "uid": uids[0]},
            {"id": 2, "kind": "partition", "partitioner": "rebalance", "inputs": [1]},
            {"id": 3, "kind": "one_input", "name": name, "uid": uids[1], "inputs": [2]},
        ],
    }
    return identify_plan("job", False, plan_in_process([topology]).tables)


def test_a_plan_is_the_same_by_operator_id_parallelism_and_inputs():
    plan = json.loads(json.dumps(plan_of()))
    assert differences(plan, plan_of()) == []
    assert differences(plan, plan_of(name="Renamed")) == []
    (gone, new) = (one.split(" (")[0] for one in differences(plan, plan_of(("first", "third"))))
    assert (gone, new) == ("operator 'Map'", "operator 'Map'")
    changes = differences(plan, plan_of(parallelism=3))
    assert ["had parallelism 2 (max 128), has 3 (max 128)" in one for one in changes] == [True, True]
    changes = differences({**plan, "mode": "BATCH", "penstock": "0"}, plan_of())
    assert [one.split(" was ")[0] for one in changes] == ["penstock", "mode"]


def test_only_vertices_with_all_their_files_are_complete(tmp_path):
    kept = new_script(str(tmp_path)).job(0)
    kept.begin({}, JOB)
    folder = Path(kept.begin_vertex("v"))
    assert kept.files_of("v") is None
    (folder / "x").write_bytes(b"123")
    kept.complete_vertex("v", [KeptFile("x", 3, "d")])
    assert kept.files_of("v") == [KeptFile("x", 3, "d")]
    (folder / "x").write_bytes(b"12")
    assert kept.files_of("v") is None
    assert kept.files_of("v") is None
    assert list(Path(kept.begin_vertex("v")).iterdir()) == []


def compiled_of_two_sinks(early):
    """A source, ids, words and their sink; `early`: whether the ids have a sink, too."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    ids = env.from_collection(["a"], Types.STRING()).rebalance().map(str, Types.STRING()).name("ids")
    words = ids.key_by(lambda word: word).map(str, Types.STRING()).name("words")
    for stream in (ids, words.key_by(lambda word: word).map(str, Types.STRING()))[not early :]:
        stream.sink_to(FileSink.for_row_format("unused", Encoder.simple_string_encoder()).build())
    job = env._job_to_run(env._take_registered(), "kept")
    return compile_job(job.lowered.to_run, plan_to_run(job), batch=job.batch)


def test_nothing_is_kept_after_a_vertex_that_a_resumed_run_makes_again():
    def kept(compiled):
        names = {vertex.chain.vertex: vertex.chain.name.split(":")[0][:5] for vertex in compiled.vertices}
        return [names[vertex] for vertex in vertices_to_save(compiled)]

    assert kept(compiled_of_two_sinks(early=False)) == ["Sourc", "ids, ", "words"]
    assert kept(compiled_of_two_sinks(early=True)) == ["Sourc"]


def test_what_follows_a_damaged_vertex_is_not_complete(tmp_path):
    compiled = compiled_of_two_sinks(early=False)
    kept = new_script(str(tmp_path)).job(0)
    kept.begin({}, JOB)
    for vertex_id in vertices_to_save(compiled).values():
        (Path(kept.begin_vertex(vertex_id)) / "x").write_bytes(b"123")
        kept.complete_vertex(vertex_id, [KeptFile("x", 3, "d")])
    source, ids, words = vertices_to_save(compiled)
    assert finished_vertices(kept, compiled) == {source, ids, words}
    Path(kept.vertex_folder(vertices_to_save(compiled)[ids]), "x").unlink()
    assert finished_vertices(kept, compiled) == {source}


def test_one_process_at_a_time_works_on_a_run(tmp_path):
    script = new_script(str(tmp_path))
    script.claim()
    child = subprocess.Popen(["true"])
    child.wait()
    dead = {**this_process(), "pid": str(child.pid)}
    Path(script.folder, "claimed-0").write_text(json.dumps(dead))
    assert not script.is_claimed()
    script.claim()
    elsewhere = {**this_process(), "host": "elsewhere"}
    Path(script.folder, "claimed-1").write_text(json.dumps(elsewhere))
    with pytest.raises(InputError, match="on elsewhere works on this run"):
        script.claim()
    assert script.is_claimed()


def test_kept_runs_are_found_by_the_ids_of_their_jobs_and_cleaned(tmp_path, capsys):
    script = new_script(str(tmp_path / "kept"))
    script.job(0).begin({}, JOB)
    assert find_kept("aa", str(tmp_path / "kept")) == (script, None)
    with pytest.raises(InputError, match="there is no job 'b'"):
        find_kept("b", str(tmp_path / "kept"))
    clean.clean_command(checkpoint_dir=str(tmp_path / "kept"))
    assert "nothing is kept" in capsys.readouterr().out  # this process may still work on it
    with pytest.raises(InputError, match="may be running"):
        clean.clean_command("aa", str(tmp_path / "kept"))
    Path(script.folder, "claimed-0").unlink()
    clean.clean_command(checkpoint_dir=str(tmp_path / "kept"))
    assert scripts_in(str(tmp_path / "kept")) == []
    assert f"removed {script.folder}" in capsys.readouterr().out
    with pytest.raises(ConfigurationError, match="--checkpoint-dir"):
        new_script("/dev/null/none")


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [pa.RecordBatch.from_pydict({"n": [n], "payload": [b"x" * n]}) for n in range(5)]
    (told,) = keep_rows(lambda batches: iter(rows), str(tmp_path))(iter([]))
    assert list(keep_rows(lambda batches: iter([]), str(tmp_path))(iter([]))) == []
    (kept,) = (KeptFile(**row) for row in told.to_pylist())
    assert kept.size == (tmp_path / kept.name).stat().st_size
    ids = [pa.RecordBatch.from_pydict({"id": [0]})]
    assert list(read_rows(str(tmp_path), [kept])(iter(ids))) == rows


def test_a_folder_that_refuses_what_is_kept_is_named(tmp_path):
    folder = str(tmp_path / "gone")
    row = pa.RecordBatch.from_pydict({"a": [1]})
    with pytest.raises(OSError, match="cannot write the output of a vertex to") as raised:
        list(keep_rows(lambda batches: iter([row]), folder)(iter([])))
    full = str(raised.value).replace(os.strerror(errno.ENOENT), os.strerror(errno.ENOSPC))
    refused = disk_error_of_spark(RuntimeError(f"{full}\n\tat org.apache.spark.shuffle.X.y(X.java:1)"), {})
    assert refused is not None
    assert refused.message == f"writing {folder}: {os.strerror(errno.ENOSPC)}"


@pytest.fixture
def results():
    found: list[JobResult] = []
    return found


def word_counts(tmp_path, uid="counts", again=False):
    """Five vertices, one after a forward edge; the last one writes `out`, and fails unless `go` is there."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    go = tmp_path / "go"

    def checked(pair):
        if not go.exists():
            raise ValueError("not yet")
        return f"{pair[0]} {pair[1]}"

    if again:
        first = FileSink.for_row_format(str(tmp_path / "first"), Encoder.simple_string_encoder()).build()
        env.from_collection(["once"], Types.STRING()).sink_to(first)
        env.execute("first job")
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    words = env.from_collection(["to be", "or not to be"], Types.STRING())
    ones = words.flat_map(str.split, Types.STRING()).map(lambda word: (word, 1), pair).disable_chaining()
    counts = ones.key_by(lambda one: one[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1])).uid(uid)
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    counts.rebalance().map(checked, Types.STRING()).sink_to(sink)
    env.execute("counts")


def lines(folder):
    return sorted(line for one in folder.rglob("*") if one.is_file() for line in one.read_text().splitlines())


EXPECTED = ["be 1", "be 2", "not 1", "or 1", "to 1", "to 2"]


def recovered(recovery, results):
    return running_script(RunContext(recovery=recovery, run_listeners=[results.append]))


def test_a_run_goes_on_from_the_vertices_that_are_complete(spark, tmp_path, results, capfd):
    script = new_script(str(tmp_path / "kept"))
    with pytest.raises(JobExecutionError, match="not yet"), recovered(ScriptRecovery(script), results):
        word_counts(tmp_path, again=True)
    failed = results[-1]
    (kept,) = (job for _, job in script.jobs())
    complete = {Path(one).stem for one in Path(kept.folder).glob("*.complete")}
    vertices = failed.compiled.vertices
    assert complete == {one.vertex_id for one in vertices[:-1]}
    assert f"--resume {failed.job_id}" in capfd.readouterr().err
    assert lines(tmp_path / "first") == ["once"]

    changed = ScriptRecovery(KeptScript(script.folder))
    with pytest.raises(InputError, match=r"operator 'Reduce' \(\w+\) is gone"), recovered(changed, results):
        word_counts(tmp_path, uid="other", again=True)
    assert kept.plan() is not None

    (tmp_path / "go").touch()
    with recovered(ScriptRecovery(KeptScript(script.folder), failed.job_id), results):
        word_counts(tmp_path, again=True)
    done = results[-1]
    last = done.compiled.vertices[-1]  # numbers count on in a process, as those of Flink
    assert {one.vertex for one in done.attempts} == {last.chain.vertex}
    assert (lines(tmp_path / "out"), lines(tmp_path / "first")) == (EXPECTED, ["once"])
    assert "job 'first job' is not run again" in capfd.readouterr().err
    assert not Path(script.folder).exists()
