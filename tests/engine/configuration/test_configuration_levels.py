"""Which of two sources wins, for every pair of them; maps are merged entry by entry."""

from itertools import combinations
from pathlib import Path

import pytest

from penstock.engine.configuration.cluster_options import Level, Setting
from penstock.engine.configuration.describe_settings import (
    describe_settings,
    properties_in_use,
    properties_of_environment,
)
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.configuration.merge_settings import merge_settings
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, use_context
from penstock.plans.layers import PlanOptions
from tests.plans.topology.builders import simple

PAIRS = list(combinations(Level, 2))
KEY = "spark.jars"


@pytest.mark.parametrize(("lower", "higher"), PAIRS)
def test_the_higher_of_two_levels_wins(lower, higher):
    settings = [Setting(KEY, level.name, level, level.name) for level in (higher, lower)]
    merged = merge_settings(settings)
    assert merged.settings[KEY].text == higher.name
    assert [one.text for one in merged.overridden[KEY]] == [lower.name]
    assert merged.problems == []


def shown(key: str, config_dir: str, **defines: str) -> tuple[str, str, list[str]]:
    configuration = find_configuration(config_dir, defines)
    described = describe_settings(configuration, properties_of_environment(), properties_in_use())
    (found,) = [one for one in described if one.key == key]
    return found.value, found.place, [value for _, value in found.overridden]


def test_all_sources_of_a_spark_property(tmp_path, monkeypatch):
    jar, conf, spark = tmp_path / "a.jar", tmp_path / "conf", tmp_path / "spark"
    jar.write_bytes(b"")
    conf.mkdir()
    spark.mkdir()
    (spark / "spark-defaults.conf").write_text("# comment\nspark.jars  of-defaults\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(spark))
    assert shown(KEY, str(conf)) == ("of-defaults", f"{spark}/spark-defaults.conf:2", [])
    (conf / "a.yaml").write_text("\nspark: {jars: of-file}\n")
    assert shown(KEY, str(conf)) == ("of-file", f"{conf}/a.yaml:2", ["of-defaults"])
    defined = {KEY: "of-define"}
    assert shown(KEY, str(conf), **defined) == ("of-define", "-D", ["of-file", "of-defaults"])
    monkeypatch.setenv("PENSTOCK_JARS", str(jar))
    lost = ["of-define", "of-file", "of-defaults"]
    assert shown(KEY, str(conf), **defined) == (str(jar), "PENSTOCK_JARS", lost)


def parallelism_of(
    script_sets: int | None, option: int | None, directory: str, define: str | None = None
) -> int:
    """Parallelism that a script's environment has, from files up to the script itself."""
    configuration = find_configuration(directory, {} if define is None else {"parallelism.default": define})
    with use_context(
        RunContext(settings=EnvironmentSettings(parallelism=option, config=configuration.scripts))
    ):
        environment = StreamExecutionEnvironment.get_execution_environment()
        if script_sets is not None:
            environment.set_parallelism(script_sets)
        return environment.get_parallelism()


def test_script_over_option_over_define_over_file(tmp_path):
    (tmp_path / "a.yaml").write_text("parallelism.default: 5")
    directory = str(tmp_path)
    assert parallelism_of(None, None, directory) == 5
    assert parallelism_of(None, None, directory, "6") == 6
    assert parallelism_of(None, 7, directory) == 7
    assert parallelism_of(None, 7, directory, "6") == 7
    assert parallelism_of(8, None, directory) == 8
    assert parallelism_of(8, None, directory, "6") == 8
    assert parallelism_of(8, 7, directory, "6") == 8


def test_environment_variable_below_option_names_the_directory(tmp_path, monkeypatch):
    for name in ("variable", "option"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(f"pipeline.name: of-{name}")
    assert find_configuration().settings == {}
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path / "variable"))
    assert find_configuration().job_defaults.config == {"pipeline.name": "of-variable"}
    found = find_configuration(str(tmp_path / "option"))
    assert found.job_defaults.config == {"pipeline.name": "of-option"}


def test_a_higher_level_wins_under_a_deprecated_key_too(tmp_path):
    (tmp_path / "a.yaml").write_text("execution.buffer-timeout.interval: 5 ms")
    found = find_configuration(str(tmp_path), {"execution.buffer-timeout": "7 ms"})
    assert found.job_defaults.config == {"execution.buffer-timeout": "7 ms"}


def test_entries_of_a_map_are_merged(tmp_path):
    key = "taskmanager.memory.managed.consumer-weights"
    (tmp_path / "a.yaml").write_text(f"{key}: {{OPERATOR: 10, PYTHON: 20}}")
    memory = find_configuration(str(tmp_path)).cluster.memory
    assert (memory.operator_weight, memory.state_backend_weight, memory.python_weight) == (10, 0, 20)
    memory = find_configuration(str(tmp_path), {f"{key}.PYTHON": "30"}).cluster.memory
    assert (memory.operator_weight, memory.python_weight) == (10, 30)
    memory = find_configuration(str(tmp_path), {key: "STATE_BACKEND:1"}).cluster.memory
    assert (memory.operator_weight, memory.state_backend_weight, memory.python_weight) == (0, 1, 0)


def test_options_of_a_command_win_over_the_configuration(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "taskmanager: {numberOfTaskSlots: 3, memory.process.size: 4g, load-balance.mode: TASKS, "
        "memory.segment-size: 64kb, network.sort-shuffle.min-buffers: 100}\nstate.backend.type: rocksdb\n"
    )
    cluster = find_configuration(str(tmp_path)).cluster
    configured = plan_options(cluster=cluster)
    assert configured.task_manager.slots == 3
    assert configured.task_manager.process_bytes == 4 << 30
    assert configured.task_manager.state_backend == "rocksdb"
    assert configured.network.segment_size_bytes == 64 << 10
    assert configured.network.sort_shuffle_min_buffers == 100
    assert configured.slot_sharing_strategy == "task-balanced-preferred"
    given = plan_options(slots_per_task_manager=2, task_manager_memory="2g", cluster=cluster)
    assert (given.recorded["slots_per_task_manager"], given.recorded["task_manager_memory"]) == ("2", "2g")
    assert given.recorded["state.backend.type"] == "rocksdb"
    assert set(plan_options().recorded) < set(given.recorded)


def test_a_topologys_own_settings_win(tmp_path):
    (tmp_path / "a.yaml").write_text("parallelism.default: 3\npipeline.operator-chaining.enabled: false\n")
    defaults = find_configuration(str(tmp_path)).job_defaults
    own = simple("own", parallelism=2, config={"pipeline.operator-chaining.enabled": "true"})
    tables = plan_in_process([own, simple("other")], PlanOptions(job_defaults=defaults)).tables
    assert tables["topologies"]["parallelism"].to_pylist() == [2, 3]
    assert tables["job_settings"]["chaining_enabled"].to_pylist() == [True, False]


def test_the_installed_directory_configures_nothing():
    assert find_configuration() == find_configuration(str(Path(__file__).parents[3] / "spark-conf"))
