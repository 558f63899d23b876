"""How a local Spark's JVM starts: with an archive of its classes, and early."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from penstock.engine.machine.folders import CACHE_DIR
from penstock.engine.spark import class_archive, session, start_jvm
from penstock.engine.spark.class_archive import (
    archived_start,
    remember_jars,
    remember_written,
    remembered_jars,
    save_archive,
    uses_only_its_packages,
)
from penstock.engine.spark.find_java import Java
from penstock.engine.spark.spark_conf import spark_conf_dir, spark_settings
from penstock.plans.errors import ConfigurationError

JAVA = Java("/usr/bin/java", "17.0.15", 17)
LOCAL = {"spark.master": "local[2]", "spark.jars.ivy": "/ivy"}
DEFAULTS = spark_settings(spark_conf_dir())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    """A cache in which Spark has resolved its packages, for a command that waits for its JVM."""
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("PENSTOCK_JARS", raising=False)
    for name in class_archive._ADDS_CLASSES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(class_archive, "handles_signals", lambda: True)
    jar = tmp_path / "a b.jar"
    jar.write_bytes(b"jar")
    remember_jars({**DEFAULTS, **LOCAL}, jar.as_uri())
    return tmp_path / "cache"


def start(settings: dict[str, str] = LOCAL, java: Java = JAVA) -> Any:
    return archived_start(settings, DEFAULTS, java)


def test_the_first_jvm_writes_what_later_ones_read(tmp_path):
    first = start()
    assert f"-XX:ArchiveClassesAtExit={first.written}" in first.settings["spark.driver.extraJavaOptions"]
    assert first.settings["spark.driver.extraClassPath"] == str(tmp_path / "a b.jar")
    assert first.settings["spark.jars.packages"] == ""
    first.written.write_bytes(b"classes")
    remember_written(first)
    save_archive(complete=True)
    assert (first.archive.read_bytes(), first.written.exists()) == (b"classes", False)
    second = start()
    assert second.written is None
    assert f"-XX:SharedArchiveFile={first.archive}" in second.settings["spark.driver.extraJavaOptions"]
    assert second.settings["spark.sql.extensions"] == DEFAULTS["spark.sql.extensions"]
    assert not Path(second.environment["SPARK_CONF_DIR"]).exists()
    assert start(java=Java("/usr/bin/java", "21.0.1", 21)).archive != first.archive
    (tmp_path / "a b.jar").write_bytes(b"another")
    assert start().archive != first.archive


def test_what_a_killed_jvm_has_written_is_no_archive():
    first = start()
    first.written.write_bytes(b"half")
    remember_written(first)
    save_archive(complete=False)
    assert list(first.archive.parent.glob("classes-*")) == []
    save_archive(complete=True)
    assert not first.archive.exists()


def test_old_archives_go(cache):
    for number in range(5):
        (cache / f"classes-{number}.jsa").touch()
        os.utime(cache / f"classes-{number}.jsa", (number, number))
    (cache / "classes-9.killed.new").touch()
    os.utime(cache / "classes-9.killed.new", (0, 0))
    one = start()
    one.written.touch()
    remember_written(one)
    save_archive(complete=True)
    assert sorted(path.name for path in cache.glob("classes-*")) == sorted(
        ["classes-3.jsa", "classes-4.jsa", one.archive.name]
    )


@pytest.mark.parametrize(
    "settings",
    [
        {**LOCAL, "spark.master": "spark://host:7077"},
        {**LOCAL, "spark.driver.extraClassPath": "/folder"},
        {**LOCAL, "spark.jars": "/a.jar"},
        {**LOCAL, "spark.jars.packages": "a:b:1"},
        {**LOCAL, "spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/mine"},
    ],
)
def test_other_class_paths_have_no_archive(settings):
    assert start(settings) is None


@pytest.mark.parametrize("name", [*class_archive._ADDS_CLASSES, "SPARK_CONF_DIR"])
def test_folders_on_the_class_path_have_no_archive(name, tmp_path, monkeypatch):
    monkeypatch.setenv(name, str(tmp_path))
    assert start() is None


def test_only_a_command_writes_one(monkeypatch):
    monkeypatch.setattr(class_archive, "handles_signals", lambda: False)
    assert start() is None
    monkeypatch.setattr(class_archive, "handles_signals", lambda: True)
    start().archive.write_bytes(b"classes")
    monkeypatch.setattr(class_archive, "handles_signals", lambda: False)
    assert start().written is None


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch):
    monkeypatch.setenv(CACHE_DIR, "/dev/null/none")
    assert start() is None
    remember_jars(LOCAL, "file:///a.jar")


def test_jars_that_have_gone_are_resolved_again(tmp_path):
    settings = {**DEFAULTS, **LOCAL}
    assert remembered_jars(settings) == [tmp_path / "a b.jar"]
    assert remembered_jars({**settings, "spark.jars.packages": "a:b:1"}) is None
    (tmp_path / "a b.jar").unlink()
    assert remembered_jars(settings) is None
    assert start() is None


class Jvm:
    """Stands for what spawns JVMs: those with an archive do not come up."""

    def __init__(self, monkeypatch, *, comes_up: bool) -> None:
        self.spawned: list[Any] = []
        output = SimpleNamespace(captured=bytearray(b"no such option"), forward=lambda *at: None)
        self.jvm = SimpleNamespace(output=output)
        self.comes_up = comes_up
        monkeypatch.setattr(start_jvm, "spawn_jvm", self.spawn)
        monkeypatch.setattr(start_jvm, "connect_jvm", self.connect)

    def spawn(self, settings, environment):
        self.spawned.append(dict(settings))
        return self.jvm

    def connect(self, spawned):
        with_archive = "-Xlog:cds*=off" in self.spawned[-1].get("spark.driver.extraJavaOptions", "")
        return None if with_archive or not self.comes_up else "gateway"


def test_a_jvm_that_does_not_start_with_an_archive_starts_without(monkeypatch):
    jvm, archived = Jvm(monkeypatch, comes_up=True), start()
    archived.archive.write_bytes(b"damaged")
    with start_jvm.starting_jvm(LOCAL, start()) as gateway:
        assert gateway == "gateway"
    assert jvm.spawned[1] == LOCAL
    assert not archived.archive.exists()


def test_an_archive_is_not_blamed_for_other_errors(monkeypatch):
    Jvm(monkeypatch, comes_up=False)
    archived = start()
    archived.archive.write_bytes(b"sound")
    with pytest.raises(ConfigurationError, match="no such option"), start_jvm.starting_jvm(LOCAL, start()):
        pass
    assert archived.archive.exists()


@pytest.mark.parametrize("change", ["nothing", "environment", "folder", "settings"])
def test_what_is_begun_early_is_used_unless_something_has_changed(change, monkeypatch, tmp_path):
    spawned: list[str] = []
    monkeypatch.setattr(session, "require_java", lambda: JAVA)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session, "_running_session", lambda: None)
    monkeypatch.setattr(session, "_early_start", None)
    monkeypatch.setattr(session, "spawn_early", lambda settings, archived: spawned.append("early"))
    monkeypatch.setattr(session, "end_early", lambda: spawned.append("ended"))

    def starting(settings, archived):
        raise ConfigurationError(settings["spark.driver.memory"])

    monkeypatch.setattr(session, "starting_jvm", starting)
    session.begin_session(master="local[2]", conf={"spark.driver.memory": "1g"})
    memory = "1g"
    match change:
        case "environment":
            monkeypatch.setenv("OF_THE_SCRIPT", "1")
        case "folder":
            monkeypatch.chdir(tmp_path)
        case "settings":
            memory = "2g"
    with pytest.raises(ConfigurationError, match=memory):
        session.any_session(master="local[2]", conf={"spark.driver.memory": memory})
    assert spawned == (["early"] if change == "nothing" else ["early", "ended"])


def test_what_cannot_start_is_said_where_a_session_is_asked_for(monkeypatch):
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session, "_running_session", lambda: None)
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    session.begin_session(master="local[2]")
    with pytest.raises(ConfigurationError, match="/no/java"):
        session.any_session(master="local[2]")


def test_jars_of_a_users_own_are_not_remembered_as_those_of_packages(monkeypatch):
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert uses_only_its_packages(DEFAULTS)
    assert not uses_only_its_packages({**DEFAULTS, "spark.jars": "udf.jar"})
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 pyspark-shell")
    assert not uses_only_its_packages(DEFAULTS)


@pytest.mark.parametrize(
    ("archived", "master", "jars", "noted"),
    [
        (None, "local[2]", "", True),
        ("an archive", "local[2]", "", False),
        (None, "spark://a:7077", "", False),
        (None, "local[2]", "udf.jar", False),
    ],
)
def test_jars_are_noted_by_a_local_start_that_resolved_them(monkeypatch, archived, master, jars, noted):
    context = SimpleNamespace(
        _accumulatorServer=SimpleNamespace(handle_error=None), getConf=lambda: {"spark.jars": "file:///a.jar"}
    )
    own = {"spark.master": master, "spark.jars": jars}
    begun = session._SessionStart((None, {}, "a"), own, archived, {}, "")
    remembered: list[str] = []
    made = SimpleNamespace(_gateway="running")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.delenv(session._GATEWAY, raising=False)
    monkeypatch.setattr(session, "_early_start", None)
    monkeypatch.setattr(session, "_prepared", lambda *_: begun)
    monkeypatch.setattr(session, "end_early", lambda: None)
    monkeypatch.setattr(session, "SparkConf", lambda **_: SimpleNamespace(setAll=lambda _: None))
    monkeypatch.setattr(
        session, "SparkContext", type("Made", (), {**vars(made), "__new__": lambda *_, **__: context})
    )
    monkeypatch.setattr(session, "SparkSession", lambda context: context)
    monkeypatch.setattr(session, "remember_jars", lambda settings, resolved: remembered.append(resolved))
    session._start(None, {}, "a")
    assert remembered == ["file:///a.jar"] * noted
