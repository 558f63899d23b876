"""What an environment is told, and what its jobs know of it."""

from pathlib import Path

import pytest

from penstock.engine.machine.operating_system import cores
from penstock.engine.pyflink.datastream import (
    CheckpointingMode,
    MemorySize,
    RuntimeExecutionMode,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.engine.pyflink.datastream.environment_options import (
    JobCaptured,
)
from penstock.engine.run.lowering.transformations import CachedFile, Job, topology_of, topology_to_run
from penstock.engine.run.runtime import run_environment as no_effect
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, use_context
from penstock.operators.common.configuration import Configuration
from penstock.operators.common.typeinfo import Types
from penstock.operators.formats.data_types import DataTypes, as_row_type, as_type
from tests.engine.pyflink.datastream.helpers import environment, pairs


def registered_job(env: StreamExecutionEnvironment, name: str | None = None) -> Job:
    pairs(env).print()
    return env.new_job(name)


def test_what_a_dataframe_runs_is_no_longer_registered_nor_planned() -> None:
    env = environment()
    job = registered_job(env)
    pairs(env).map(str).name("other").print()
    env.new_job()
    env._forget(job)
    left = {step.name for planned in env._planned for step in planned.steps}
    assert "other" in left
    assert len(env._planned) == len(env.new_job().lowered.transformations)


def test_defaults() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == cores()
    assert env.get_max_parallelism() == -1
    assert env.get_buffer_timeout() == 100
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    job = registered_job(env)
    assert (job.name, job.batch) == ("Flink Streaming Job", False)
    assert job.auto_watermark_interval_milliseconds == 200
    assert "jobmanager.scheduler" not in topology_of(job).get("config", {})


def test_options_of_the_command_lie_under_those_of_the_script() -> None:
    script = Configuration()
    script.set_string("pipeline.name", "of the script")
    given = {"pipeline.name": "of the command", "execution.runtime-mode": "BATCH"}
    with use_context(RunContext(settings=EnvironmentSettings(parallelism=7, config=given))):
        env = StreamExecutionEnvironment.get_execution_environment(script)
        plain = StreamExecutionEnvironment.get_execution_environment()
    job = registered_job(env)
    assert (job.name, job.batch, job.parallelism) == ("of the script", True, 7)
    assert registered_job(plain).name == "of the command"
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == cores()


@pytest.mark.parametrize(
    ("mode", "batch", "name"),
    [
        ("STREAMING", False, "Flink Streaming Job"),
        ("BATCH", True, "Flink Batch Job"),
        ("AUTOMATIC", True, "Flink Batch Job"),
    ],
)
def test_runtime_modes(mode: str, batch: bool, name: str) -> None:
    env = environment(mode=mode)
    job = registered_job(env)
    assert (job.batch, job.name) == (batch, name)
    topology = topology_of(job)
    assert topology["config"]["execution.runtime-mode"] == ("BATCH" if batch else "STREAMING")
    graph = job.lowered.submitted.stream_graph
    assert (graph["job_type"], graph["dynamic"]) == ("BATCH" if batch else "STREAMING", batch)
    assert not job.lowered.to_run.stream_graph["dynamic"]
    assert topology_to_run(job)["config"].get("jobmanager.scheduler") == ("Default" if batch else None)


def test_the_scheduler_asked_for_stays() -> None:
    env = environment(mode="BATCH", jobmanager_scheduler="AdaptiveBatch")
    assert topology_of(registered_job(env))["config"]["jobmanager.scheduler"] == "AdaptiveBatch"
    given = environment(mode="BATCH", jobmanager_scheduler="Default")
    assert not registered_job(given).lowered.submitted.stream_graph["dynamic"]


def test_configure_changes_what_is_set_only(tmp_path: Path) -> None:
    env = environment(parallelism=3)
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", "BATCH")
    configuration.set_string("pipeline.operator-chaining.enabled", "false")
    configuration.set_string("pipeline.cached-files", f"name:words,path:'{tmp_path}/words.txt'")
    env.configure(configuration)
    job = registered_job(env)
    assert (job.batch, job.parallelism) == (True, 3)
    assert not job.lowered.submitted.stream_graph["chaining_enabled"]
    assert job.cached_files == {"words": CachedFile(path=f"{tmp_path}/words.txt")}


def test_settings_of_execution() -> None:
    env = environment()
    env.set_max_parallelism(64).set_buffer_timeout(250).disable_operator_chaining()
    assert (env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()) == (
        64,
        250,
        False,
    )
    env.get_config().set_auto_watermark_interval(50)
    env.get_config().set_global_job_parameters({"rate": "3"})
    job = registered_job(env, "named")
    assert (job.name, job.max_parallelism) == ("named", 64)
    assert job.auto_watermark_interval_milliseconds == 50
    assert job.job_parameters == {"rate": "3"}
    topology = topology_of(job)
    assert topology["max_parallelism"] == 64
    assert job.lowered.submitted.stream_graph["chaining_enabled"] is False
    assert topology["config"]["execution.buffer-timeout.interval"] == "250 ms"
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert topology_of(registered_job(env, "named"))["config"]["execution.buffer-timeout.enabled"] == "false"


@pytest.mark.parametrize("wrong", [0, -1, 32769])
def test_wrong_max_parallelism(wrong: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 32768"):
        environment().set_max_parallelism(wrong)


def test_wrong_buffer_timeout() -> None:
    with pytest.raises(ValueError, match="at least -1"):
        environment().set_buffer_timeout(-2)


def test_python_dependencies() -> None:
    env = environment()
    env.add_python_file("a.py")
    env.add_python_file("b.zip")
    env.set_python_requirements("requirements.txt", "wheels")
    env.add_python_archive("data.zip")
    env.add_python_archive("model.zip", "model")
    env.set_python_executable("/usr/bin/python3")
    job = registered_job(env)
    assert job.python_files == ("b.zip", "a.py")
    assert (job.requirements, job.requirements_cache) == ("requirements.txt", "wheels")
    assert job.archives == (("data.zip", None), ("model.zip", "model"))
    assert job.python_executable == "/usr/bin/python3"
    plain = registered_job(environment())
    assert (plain.python_files, plain.requirements, plain.archives) == ((), None, ())


def test_cached_files() -> None:
    env = environment()
    env.register_cached_file("/data/it's,here.txt", "odd")
    env.register_cached_file("/bin/tool", "tool", executable=True)
    job = registered_job(env)
    assert job.cached_files == {
        "odd": CachedFile(path="/data/it's,here.txt"),
        "tool": CachedFile(path="/bin/tool", executable=True),
    }
    again = Configuration()
    again.set_string("pipeline.cached-files", job.config["pipeline.cached-files"])
    other = environment()
    other.configure(again)
    assert {name: one.path for name, one in registered_job(other).cached_files.items()} == {
        "odd": "/data/it's,here.txt",
        "tool": "/bin/tool",
    }


def test_what_has_no_effect_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(no_effect, "_warned_names", set())
    env = environment()
    env.add_jars("file:///a.jar", "file:///b.jar")
    env.add_jars("file:///c.jar")
    env.add_classpaths("file:///a")
    env.enable_checkpointing(1000)
    env.set_buffer_timeout(5)
    assert env.options()["pipeline.jars"] == "file:///a.jar;file:///b.jar;file:///c.jar"
    for _ in range(2):
        no_effect.print_ignored_options(env.options())
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(", because")[0] for line in said] == [
        "warning: execution.checkpointing.interval: no effect",
        "warning: pipeline.classpaths, pipeline.jars: no effect",
    ]
    assert "jobs run no Java code" in said[1]


def test_checkpoints_are_settings_only() -> None:
    env = environment()
    env.enable_checkpointing(3000, CheckpointingMode.AT_LEAST_ONCE)
    config = env.get_checkpoint_config()
    assert env.get_checkpoint_interval() == 3000
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE).enable_unaligned_checkpoints()
    assert env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    config.set_force_unaligned_checkpoints()
    assert env.is_force_unaligned_checkpoints()
    assert registered_job(env).config["execution.checkpointing.interval"] == "3000 ms"
    with pytest.raises(ValueError, match="at least 10"):
        env.enable_checkpointing(9)


def test_nothing_registered() -> None:
    env = environment()
    env.from_collection([1], type_info=Types.INT()).rebalance()
    for call in (env.execute, env.execute_async, env.get_execution_plan, env.get_stream_graph):
        with pytest.raises(RuntimeError, match="No operators defined in streaming topology"):
            call()


def test_captured_jobs_end_the_script() -> None:
    captured: list[Job] = []
    with use_context(RunContext(settings=EnvironmentSettings(captured=captured))):
        env = environment()
        pairs(env).print()
        with pytest.raises(JobCaptured):
            env.execute("one")
        with pytest.raises(JobCaptured):
            pairs(env).execute_and_collect("two")
        with pytest.raises(JobCaptured):
            pairs(env).to_dataframe()
        pairs(env).print()
        with pytest.raises(JobCaptured):
            env.execute_async("three")
    assert [job.name for job in captured] == ["one", "two", "Flink Streaming Job", "three"]
    assert [len(job.transformations) for job in captured] == [2, 2, 2, 2]


def test_slot_sharing_groups() -> None:
    env = environment()
    group = SlotSharingGroup.builder("big").set_cpu_cores(1.5).set_task_heap_memory_mb(64).build()
    assert group.get_managed_memory() == MemorySize(bytes_size=0)
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(64)
    pairs(env).map(str).slot_sharing_group(group)
    pairs(env).map(str).slot_sharing_group("small")
    rows = env.new_job().lowered.submitted.stream_graph["nodes"]
    groups = {row["id"]: row["slot_sharing_group"] for row in rows}
    assert [groups[node] for node in sorted(groups)] == ["default", "big", "default", "small"]
    with pytest.raises(ValueError, match="must include cores and task heap memory"):
        SlotSharingGroup.builder("odd").set_managed_memory_mb(5).build()


def test_set_runtime_mode_takes_effect_at_any_time() -> None:
    env = environment()
    pairs(env).print()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert env.new_job().batch


@pytest.mark.parametrize(
    "data_type",
    [
        DataTypes.INT(),
        DataTypes.STRING(),
        DataTypes.DECIMAL(5, 2),
        DataTypes.ARRAY(DataTypes.INT()),
        DataTypes.MAP(DataTypes.INT(), DataTypes.INT()),
        DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]),
    ],
)
def test_streams_take_no_data_types(data_type) -> None:
    env = environment()
    stream = env.from_collection([1])
    for use in (
        lambda: env.from_collection([], data_type),
        lambda: stream.map(str, data_type),
        lambda: stream.flat_map(str, output_type=data_type),
        lambda: stream.key_by(str, data_type),
    ):
        with pytest.raises(TypeError, match=r"made by pyflink.common.Types, got .* of DataTypes"):
            use()


def test_a_format_has_the_types_that_streams_take() -> None:
    row_type = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.ARRAY(DataTypes.INT()))])
    expected = Types.ROW_NAMED(["a"], [Types.OBJECT_ARRAY(Types.INT())])
    assert as_row_type(row_type) == row_type == expected
    assert as_type(DataTypes.INT()) == Types.INT()
    stream = environment().from_collection([1])
    for one in (as_row_type(row_type), row_type.get_field_types()[0], as_type(DataTypes.INT())):
        assert stream.map(str, one).get_type() == one
