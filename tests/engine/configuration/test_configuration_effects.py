"""What the configuration changes: plans, stores, scripts, commands; and what commands say of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.output import redaction
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.plan_versions import list_versions
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.topology import parse_block
from penstock.plans.topology.flink_options import parse_memory_size
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from tests.plans.topology.builders import golden_lines, simple

DEFAULTS = JobDefaults(
    3,
    {
        "pipeline.max-parallelism": "64",
        "execution.buffer-timeout.interval": "7 ms",
        "pipeline.operator-chaining.enabled": "false",
    },
)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output + result.stderr


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "parallelism.default: 3\npipeline.operator-chaining.enabled: false\n"
        "taskmanager: {numberOfTaskSlots: 2, memory.network.max: 100 mb}\n"
        "spark.my.password: hunter2\nsecurity.ssl.rest.key-password: hunter3\npipeline.jars: [a.jar]\n"
    )
    return folder


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.jsonl"
    own = simple("own", parallelism=2, config={"pipeline.operator-chaining.enabled": "true"})
    path.write_text("".join(json.dumps(one) + "\n" for one in (simple("bare"), own)))
    return path


def tables_of(topologies: Any, defaults: JobDefaults = NO_DEFAULTS) -> dict[str, list[dict[str, Any]]]:
    read = read_topologies(topologies, job_defaults=defaults)._asdict()
    read.pop("inputs")
    return {name: frame.to_dicts() for name, frame in read.items()}


@pytest.mark.slow
def test_every_reader_plans_as_if_topologies_said_it_themselves(tmp_path, monkeypatch):
    given = [line["topology"] for line in golden_lines(12)]
    given += [simple("odd", config={"pipeline.max-parallelism": 5}), simple("null", config=None)]
    filled = [DEFAULTS.under(one) for one in given]
    expected = tables_of(filled)
    assert tables_of(given, DEFAULTS) == expected
    monkeypatch.setattr(parse_block, "is_worth_compiling", lambda rows: True)
    for name, topologies in (("given", given), ("filled", filled)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in topologies))
    of_files = [tables_of(str(tmp_path / "given.jsonl"), DEFAULTS), tables_of(str(tmp_path / "filled.jsonl"))]
    for tables in of_files:
        for table in ("topologies", "rejected"):
            for row in tables[table]:
                row["source_file"] = None
    assert of_files[0] == of_files[1]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("chaining", pa.array([True, None])),
        ("parallelism", pa.array([None, 2])),
        ("config", pa.array([None, [("pipeline.max-parallelism", "9")]], pa.map_(pa.string(), pa.string()))),
    ],
)
def test_tables_take_the_defaults_too(column, values):
    topologies = pa.table({"name": ["a", "b"], column: values})
    rows = [{"topology": name, **row} for name in ("a", "b") for row in simple()["transformations"]]
    config = {"parallelism.default": "3", **DEFAULTS.config}
    found = penstock.plan((topologies, pl.DataFrame(rows)), config=config)
    planned = {row["name"]: row for row in found.tables["topologies"].to_pylist()}
    assert planned["a"]["parallelism"] == 3
    assert planned["b"]["parallelism"] == (2 if column == "parallelism" else 3)
    assert dict(planned["a"]["config"]) == DEFAULTS.config
    own = "9" if column == "config" else "64"
    assert dict(planned["b"]["config"]) == {**DEFAULTS.config, "pipeline.max-parallelism": own}
    settings = {row["topology_id"]: row for row in found.tables["job_settings"].to_pylist()}
    assert settings[planned["b"]["topology_id"]]["max_parallelism"] == int(own)


@pytest.mark.slow
def test_plan_takes_the_configuration_and_a_store_records_it(tmp_path, conf, lines):
    store = tmp_path / "store"
    assert run("plan", lines, "--out", store)[0] == 0
    code, said = run("plan", lines, "--out", store, "--config-dir", conf, "--slots-per-task-manager", 4)
    assert code == 0
    assert (
        f"--slots-per-task-manager 4 is used, not taskmanager.numberOfTaskSlots 2 ({conf}/a.yaml:3)" in said
    )
    assert (
        run("plan", lines, "--out", store, "--config-dir", conf, "-D", "taskmanager.numberOfTaskSlots=4")[0]
        == 0
    )
    plain, configured = list_versions(DeltaRsTables(str(store)))  # the third changed nothing
    assert plain.options.items() < {**configured.options, "slots_per_task_manager": "1"}.items()
    assert configured.options["taskmanager.memory.network.max"] == "100 mb"
    assert configured.options["slots_per_task_manager"] == "4"
    shown = json.loads(run("export", store)[1].splitlines()[0])
    assert [v["parallelism"] for v in shown["job_graph"]["vertices"]] == [3, 3, 3]
    assert "TaskManagers of 2 slots" in run("size", store, "--config-dir", conf)[1]
    assert "TaskManagers of 8 slots" in run("size", store, "-D", "taskmanager.numberOfTaskSlots=8")[1]


def test_a_topologys_fingerprint_follows_from_both(lines):
    plain, same, other = (
        penstock.plan(str(lines), config=config).tables["topologies"]["fingerprint"].to_pylist()
        for config in (None, {"taskmanager.numberOfTaskSlots": "2"}, {"parallelism.default": "2"})
    )
    assert plain == same
    assert plain[0] != other[0]
    assert plain[1] == other[1]


def test_library_takes_a_directory_or_options(conf, lines):
    assert penstock.plan(str(lines), config=conf).tables["topologies"]["parallelism"].to_pylist() == [3, 2]
    with pytest.raises(penstock.ConfigurationError, match="is an unknown key"):
        penstock.plan(str(lines), config={"paralelism.default": "2"})
    with pytest.raises(penstock.ConfigurationError, match="must map a string to a string"):
        penstock.plan(str(lines), config={"parallelism.default": 2})  # type: ignore[arg-type, dict-item]


def test_info_takes_the_configuration(tmp_path, conf):
    script = tmp_path / "job.py"
    script.write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(lambda x: x).print()\n"
        "env.execute()\n"
    )
    code, said = run("info", "--config-dir", conf, "--json", script)
    assert code == 0, said
    plan = json.loads(said)
    assert {v["parallelism"] for v in plan["job_graph"]["vertices"]} == {1, 3}
    assert all(len(v["operators"]) == 1 for v in plan["job_graph"]["vertices"])
    code, said = run("info", "--config-dir", conf, "-p", 2, script)
    assert f"-p 2 is used, not parallelism.default 3 ({conf}/a.yaml:1)" in said
    assert run("info", "--config-dir", conf, "-D", "x.y=1", script)[0] == 2


def test_run_takes_the_configuration(tmp_path, conf, monkeypatch):
    script, ran = tmp_path / "job.py", []

    def run_script(path, arguments, context, **others):
        ran.append((context.settings, context.spark))

    monkeypatch.setattr("penstock.engine.library.run_script.run_script", run_script)
    options = ("--py-files", "b.py", "--conf", "spark.my.password=hunter-other", "-D", "python.files=a.py")
    code, said = run("run", "--config-dir", conf, *options, script)
    assert code == 0, said
    assert f"--conf spark.my.password {redaction.REDACTED} is used, not spark.my.password" in said
    assert "--py-files b.py is used, not python.files a.py (-D)" in said
    assert "hunter" not in said
    assert run("run", "--config-dir", conf, "-D", "python.files=a.py,c.zip", script)[0] == 0
    (settings, session), (defined, _) = ran
    assert session is not None
    assert settings.config["parallelism.default"] == "3"
    assert (settings.config["python.files"], defined.config["python.files"]) == ("b.py", "a.py,c.zip")
    assert settings.plan_options.task_manager.slots == 2
    assert session.conf == {"spark.my.password": "hunter-other", "spark.executor.cores": "2"}


def test_a_script_imports_from_python_files_and_adds_to_them(tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "of_the_command.py").write_text("FACTOR = 3")
    script = tmp_path / "job.py"
    script.write_text(
        "import of_the_command\nfrom pyflink.datastream import StreamExecutionEnvironment\n"
        "from pyflink.common import Configuration\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "def files(): return env._configuration.get_string('python.files', '')\n"
        "env.add_python_file('added.py'); print('added', files())\n"
        "own = Configuration(); own.set_string('python.files', 'own.py')\n"
        "env.configure(own); print('set', files())\n"
        "env.from_collection([of_the_command.FACTOR]).print(); env.execute()\n"
    )
    given = tmp_path / "given"
    code, said = run("info", "-D", f"python.files={given}", script)
    assert code == 0, said
    assert f"added added.py,{given}\nset own.py\n" in said


def test_config_lists_everything_and_no_secrets(conf, monkeypatch):
    monkeypatch.setattr(redaction, "_secret_values", set())
    code, said = run("config", "--config-dir", conf, "-D", "parallelism.default=4", "--json")
    assert code == 0
    assert "hunter" not in said
    listing = json.loads(said)
    assert (listing["directory"], listing["named_by"]) == (str(conf), "--config-dir")
    settings = {one["key"]: one for one in listing["settings"]}
    found = settings["parallelism.default"]
    assert (found["value"], found["default"], found["place"]) == ("4", "1", "-D")
    assert found["overridden"] == [{"place": f"{conf}/a.yaml:1", "value": "3"}]
    assert settings["execution.runtime-mode"]["place"] == "default"
    assert settings["pipeline.jars"]["note"] == "known to Flink; not read by Penstock"
    assert "spark.sql.extensions" in settings
    table = run("config", "--config-dir", conf)[1]
    assert "hunter" not in table
    assert "parallelism.default" in table


def test_config_of_one_key(conf):
    said = run("config", "taskmanager.memory.network.max", "--config-dir", conf)[1]
    assert "100 mb" in said
    assert "no limit" in said
    assert "deprecated" in run("config", "akka.ask.timeout")[1]
    assert "state.backend.type" in run("config", "state.backend")[1]
    code, said = run("config", "paralelism.default")
    assert code == 2
    assert "did you mean parallelism.default?" in said


def test_nothing_foreign_reaches_a_terminal_raw(tmp_path):
    (tmp_path / "a.yaml").write_text('"pipeline.\\e[31m": 1\npipeline.name: "\\e[31mred"\n')
    code, said = run("config", "--config-dir", tmp_path)
    assert code == 2
    assert "\x1b" not in said
    (tmp_path / "a.yaml").write_text('pipeline.name: "\\e[31mred"\n')
    assert "\x1b" not in run("config", "--config-dir", tmp_path)[1]


def test_scripts_and_spark_get_what_they_read(conf):
    found = find_configuration(str(conf), {"taskmanager.numberOfTaskSlots": "3", "python.files": "a.py"})
    assert found.spark == {"spark.my.password": "hunter2"}
    assert found.scripts == {
        "parallelism.default": "3",
        "pipeline.operator-chaining.enabled": "false",
        "taskmanager.numberOfTaskSlots": "3",
        "python.files": "a.py",
    }


def test_where_nothing_is_configured_no_model_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "penstock.engine.configuration.load_configuration", None)
    assert find_configuration().settings == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "memory", "network", "managed"),
    [
        ({"flink.size": "1280m"}, 1728, "128", "256"),
        ({"managed.size": "512m", "task.heap.size": "384m"}, 1728, "128", "256"),
        ({"flink.size": "2g", "managed.size": "1g"}, 2560, "205", "512"),
    ],
)
def test_sizes_of_parts_make_a_task_manager(tmp_path, lines, sizes, memory, network, managed):
    store = tmp_path / "store"
    memory_options = {f"taskmanager.memory.{key}": size for key, size in sizes.items()}
    defined = [f"-D{key}={size}" for key, size in memory_options.items()]
    assert run("plan", lines, "--out", store, "--slots-per-task-manager", 2, *defined)[0] == 0
    (version,) = list_versions(DeltaRsTables(str(store)))
    process_bytes = parse_memory_size(version.options["task_manager_memory"])
    assert process_bytes // 2**20 == memory
    assert set(memory_options) < set(version.options)
    shown = run("show", store, "--topology", "bare")[1]
    assert f"of its {network} MiB network memory, {managed} MiB managed memory per slot" in " ".join(
        shown.split()
    )
    said = run("size", store, "--slots-per-task-manager", 2, *defined)[1]
    assert (
        said == run("size", store, "--slots-per-task-manager", 2, "--task-manager-memory", process_bytes)[1]
    )


def test_sizes_that_contradict_each_other_are_named(tmp_path, lines):
    defined = ("-Dtaskmanager.memory.flink.size=1g", "-Dtaskmanager.memory.process.size=9g")
    code, said = run("plan", lines, "--out", tmp_path / "store", *defined)
    assert code == 2
    assert "taskmanager.memory.flink.size (1g)" in said
    assert "JVM overhead, the rest of process memory of" in said


PLAIN_SCRIPT = """
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
print(env.get_parallelism(), env.from_collection([1]).print() and len(env.get_job_graph()["vertices"]))
"""


@pytest.mark.slow
def test_a_plain_script_takes_the_configuration_directory(tmp_path, conf, monkeypatch):
    def ran():
        done = subprocess.run(
            [sys.executable, "-c", PLAIN_SCRIPT], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr[-500:]

    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(conf))
    code, out, err = ran()
    assert (code, out.split()[0]) == (0, "3"), err
    (conf / "b.yaml").write_text("parallelism.default: x\n")
    assert ran()[0] != 0
