"""get_session: a session with Delta, or an error that says what to do."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext

from penstock import engine
from penstock.engine.spark import session
from penstock.engine.spark.find_java import find_java
from penstock.engine.spark.session import get_session, require_delta
from penstock.engine.spark.spark_conf import delta_coordinates
from penstock.engine.spark.start_jvm import _explain
from penstock.engine.spark.start_settings import ivy_dir
from penstock.plans.errors import ConfigurationError

ROOT = Path(engine.__file__).resolve().parents[1]


def run_python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[0] = {str(ROOT)!r}\n{code}"],
        cwd=cwd,
        env=env | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def test_running_session_is_used_and_settings_are_applied(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before == "4"
    assert get_session(conf={"spark.sql.shuffle.partitions": "3"}) is not None
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", before)
    assert get_session().sparkContext is spark.sparkContext


def test_what_a_running_session_cannot_change_is_an_error(spark):
    with pytest.raises(ConfigurationError, match=r"spark\.master must be 'local\[2\]', .* got 'local\[7\]'"):
        get_session(master="local[7]")
    with pytest.raises(ConfigurationError, match=r"spark\.driver\.memory must be '2g', .* got '5g'"):
        get_session(conf={"spark.driver.memory": "5g"})


def test_options_for_java_are_those_asked_for_with_sparks_own_before_them(spark):
    """Spark adds what Java needs; `penstock run --conf` asks for a session again where the script runs."""
    key = "spark.driver.extraJavaOptions"
    found = spark.sparkContext.getConf().get(key)
    asked = found[found.index("-XX:+UseParallelGC") :]
    assert found != asked
    assert get_session(conf={key: asked}).sparkContext is spark.sparkContext
    for other in ("-XX:TieredStopAtLevel=4", "C", ""):
        with pytest.raises(ConfigurationError, match="it cannot be changed any more"):
            get_session(conf={key: other})


def test_settings_of_the_test_profile_and_its_base_are_in_force(spark):
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    assert {key: spark.conf.get(key) for key in conf} == conf
    assert require_delta(spark) is spark


def test_the_driver_answers_nobody_without_the_secret(spark):
    """An RPC client of another process: it would reach the endpoint that StopExecutor goes to."""
    jvm, context = spark._jvm, spark.sparkContext
    driver = jvm.org.apache.spark.SparkEnv.get().rpcEnv().address()
    conf = jvm.org.apache.spark.SparkConf(False)
    keys = getattr(getattr(jvm.org.apache.spark.internal.config, "package$"), "MODULE$")
    manager = jvm.org.apache.spark.SecurityManager(conf, jvm.scala.Option.empty(), keys.AUTH_SECRET_FILE())
    stranger = jvm.org.apache.spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    try:
        with pytest.raises(Py4JJavaError, match="Exception thrown in awaitResult"):
            stranger.setupEndpointRef(driver, "LocalSchedulerBackendEndpoint")
    finally:
        stranger.shutdown()
    assert context.getConf().get("spark.authenticate") == "true"
    assert spark.range(3).count() == 3


def test_jars_are_delta_only(spark):
    """One logging binding, one Hadoop, one Jackson: Spark's own."""
    conf = spark.sparkContext.getConf()
    found = conf.get("spark.driver.extraClassPath", "").split(":") + conf.get("spark.jars", "").split(",")
    jars = [Path(jar).name for jar in found]
    assert [jar for jar in jars if "delta-spark" in jar]
    foreign = ("log4j", "slf4j", "hadoop-client", "jackson-core", "jackson-databind", "parquet")
    assert [jar for jar in jars if any(name in jar for name in foreign)] == []


SHADOWED = """
import os
from penstock.engine.spark.session import get_session
conf = {"spark.jars.ivy": os.getcwd() + "/ivy", "spark.driver.memory": "1g"}
conf["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
spark = get_session(conf=conf, master="local[1]")
def where(batches):
    import sys, pyarrow as pa, plans.errors, penstock.operators, penstock.engine
    for batch in batches:
        names = [m.__file__ for m in (penstock.engine, penstock.operators, penstock.plans)]
        yield pa.RecordBatch.from_pydict({"where": [*names, sys.executable]})
answer = spark.range(1, numPartitions=1).mapInArrow(where, "where string").collect()
print(*(row["where"] for row in answer), sep="\\n")
print(spark.sparkContext.getConf().get("spark.driver.memory"), spark.range(3).count())
"""


def test_workers_import_penstock_beside_files_of_its_names_and_without_a_network(spark, tmp_path):
    """Also: PENSTOCK_JARS stands for spark.jars.packages, HOME may be empty, and a start says nothing."""
    for name in ("plans.py", "engine.py", "operators.py"):
        (tmp_path / name).write_text("raise RuntimeError('the user\\'s file was imported')")
    jars = ivy_dir() / "jars"
    wanted = [str(path) for path in jars.glob("io.*.jar")]
    assert wanted
    done = run_python(SHADOWED, tmp_path, PENSTOCK_JARS=",".join(wanted), HOME=str(tmp_path / "home"))
    assert done.stderr == ""
    packages = [str(ROOT / "penstock" / name / "__init__.py") for name in ("engine", "operators", "plans")]
    assert done.stdout.splitlines() == [*packages, sys.executable, "1g 3"]
    assert not (tmp_path / "ivy" / "jars").exists()
    assert {p.name for p in tmp_path.iterdir()} <= {"plans.py", "engine.py", "operators.py", "ivy", "home"}


WITHOUT_DELTA = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").appName("mine")
builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
from penstock.engine.spark.session import get_session
from penstock.plans.errors import ConfigurationError
try:
    get_session()
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.spark
def test_running_session_without_delta_is_told_what_it_lacks(tmp_path):
    said = run_python(WITHOUT_DELTA, tmp_path).stdout
    assert "the Spark session 'mine' cannot use Delta tables; it lacks" in said
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in said
    assert "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog" in said
    assert f"spark.jars.packages={delta_coordinates().text}" in said


def fake_java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(("version", "release"), [("1.8.0_292", 8), ("17.0.15", 17), ("21", 21)])
def test_java_versions_are_read(tmp_path, monkeypatch, version, release):
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (find_java().version, find_java().release) == (version, release)


def test_old_java_is_refused_before_spark_starts(tmp_path):
    fake_java(tmp_path, "11.0.2")
    code = "from penstock.engine.spark.session import get_session\nget_session()"
    said = run_python(code, tmp_path, JAVA_HOME=str(tmp_path)).stderr
    assert f"ConfigurationError: Java must be 17 or newer, got 11.0.2 ({tmp_path}/bin/java)" in said


def test_no_java_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"Java is required .*\n.*install Java 17"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"from JAVA_HOME=.* does not run"):
        find_java()


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        (
            "x\n:: UNRESOLVED DEPENDENCIES ::\n unresolved dependency: io.delta#d;1: not found\n\tat a.b",
            "PENSTOCK_JARS",
        ),
        ("Error: Could not reserve enough space for object heap\n", r"spark\.driver\.memory"),
        ("Exception in thread main\n\tat a.b.C\nCaused by: the reason\n", "Caused by: the reason"),
    ],
)
def test_a_jvm_that_does_not_start_is_explained(said, explained):
    error = _explain(said)
    assert explained.replace("\\", "") in str(error)
    assert "\tat" not in str(error)


@pytest.mark.spark
def test_a_jar_that_nobody_has_is_explained(tmp_path):
    """The whole way through Spark's launcher, without a network: a repository that is an empty folder."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{tmp_path}/[artifact].jar"/></filesystem></resolvers></ivysettings>'
    )
    conf = {"spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(tmp_path / "ivy")}
    code = f"from penstock.engine.spark.session import get_session\nget_session(conf={conf!r})"
    said = run_python(code, tmp_path).stderr
    assert f"ConfigurationError: Spark cannot fetch the Delta jar {delta_coordinates().text}" in said
    assert "hint: check the network" in said


def test_calls_that_are_cut_off_are_not_logged():
    cut_off, other = (logging.makeLogRecord({"msg": f"{what} command."}) for what in ("while sending", "a"))
    assert not session._is_worth_logging(cut_off)
    assert session._is_worth_logging(other)


def test_a_server_whose_jvm_has_ended_prints_no_traceback():
    printed = []
    handle = session._unless_cut_off(lambda *request: printed.append(request))
    for error in (EOFError(), ConnectionResetError(), ValueError()):
        try:
            raise error
        except Exception:
            handle("request", type(error))
    assert printed == [("request", ValueError)]


class Mine(Exception):
    """What a handler of the user's raises."""


@pytest.mark.parametrize("wrapped", [True, False])
def test_what_a_signal_handler_raises_while_spark_starts_comes_out_as_it_is(monkeypatch, wrapped):
    """Py4J wraps it, or passes over it; half a session must not be left for the next one to find."""
    forgotten = []

    def handler(number, frame):
        raise Mine("the user's own")

    def start(*arguments):
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(1)
        except Mine:
            if wrapped:
                raise Py4JNetworkError("Error while sending or receiving") from None
        return "a session"

    monkeypatch.setattr(session, "_prepared", lambda *asked: session._SessionStart(asked, {}, None, {}, ""))
    monkeypatch.setattr(session, "spark_settings", lambda folder: {})
    monkeypatch.setattr(session, "_session_of_new_context", start)
    monkeypatch.setattr(session, "forget_jvm", lambda: forgotten.append(True))
    monkeypatch.setattr(session, "_early_start", None)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Mine, match="the user's own"):
            session._start("local[1]", {}, "penstock")
        assert signal.getsignal(signal.SIGUSR1) is handler
        assert forgotten == ([True] if wrapped else [])
        monkeypatch.setattr(session, "_session_of_new_context", lambda *arguments: "a session")
        assert str(session._start("local[1]", {}, "penstock")) == "a session"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_session_that_another_thread_is_stopping_is_waited_for(monkeypatch):
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jsc=None))
    stopper = threading.Timer(0.2, setattr, [SparkContext, "_active_spark_context", None])
    stopper.start()
    assert session._running_session() is None
    stopper.join()
