"""A Spark session for the tests that use it, folders of state and cache, and Java for marked tests.

A test that needs Java, itself or in a process, is marked `spark` or `flink`; the fixture `spark` marks its
tests. All others find none: JAVA_HOME names nothing, and java, javac and jar on PATH are those of no_java.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from penstock.engine.machine.folders import CACHE_DIR, STATE_DIR
from penstock.engine.machine.stop_on_signals import handles_signals

# No test is about time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the state folder to a temporary one, and the cache to a folder that later runs reuse.

    The cache holds the archive of Spark's classes.
    """
    os.environ[STATE_DIR] = str(tmp_path_factory.mktemp("state"))
    os.environ[CACHE_DIR] = str(Path(__file__).parents[1] / "build" / "cache")


@pytest.fixture(scope="session", autouse=True)
def _without_fsync() -> Iterator[None]:
    """Skip fsync of files and folders: storing a plan would wait for the disk some 200 times.

    No test cuts the power. Tests of durability check the calls of os.fsync.
    """
    fsync = os.fsync

    def sync_special(descriptor: int) -> None:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            fsync(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", sync_special)
        yield


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Return a session: local[2], 4 shuffle partitions, 2 GiB, Delta; started on first use."""
    from penstock.engine.spark.session import get_session
    from penstock.engine.spark.spark_conf import spark_conf_dir

    os.environ["SPARK_CONF_DIR"] = str(spark_conf_dir() / "test")
    session = get_session(app_name="penstock tests")
    yield session
    session.stop()


def pytest_itemcollected(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker("spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, so that neither of two processes waits long for the other at the end.

    These are the files that share a session, then those that start their own Java.
    """
    own = {item.path for item in items if needs_java(item)}
    items.sort(key=lambda item: (not shares_spark(item.path), item.path not in own))


@cache
def shares_spark(file: Path) -> bool:
    """Whether tests or fixtures of a file use `spark`, judged by its text: wrong guesses only cost time."""
    return _USES_SPARK.search(file.read_text(encoding="utf-8")) is not None


_USES_SPARK = re.compile(r"""\bdef \w+\([^)]*\bspark\b[,:)]|fixturevalue\("spark"\)""")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist=loadfile, give one process all files that share a session, which it then has warm."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope
    scheduler._split_scope = lambda test: (
        "spark" if shares_spark(config.rootpath / file_of(test)) else file_of(test)
    )
    return scheduler


def needs_java(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("spark", "flink"))


def ways_to_java() -> tuple[dict[str, str | None], dict[str, Any]]:
    """Return variables of the environment, and SparkContext's attributes of a running session."""
    attributes = ("_gateway", "_jvm", "_active_spark_context") if "pyspark" in sys.modules else ()
    attribute_values = {name: getattr(sys.modules["pyspark"].SparkContext, name) for name in attributes}
    return {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}, attribute_values


def set_ways_to_java(variables: dict[str, str | None], attributes: dict[str, Any]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for name, value in attributes.items():
        setattr(sys.modules["pyspark"].SparkContext, name, value)


HIDDEN = pytest.StashKey[tuple[dict[str, str | None], dict[str, Any]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hide Java, and a running session, from the test and from the fixtures that it sets up."""
    if needs_java(item):
        return (yield)
    variables, attributes = item.stash[HIDDEN] = ways_to_java()
    path = f"{Path(__file__).parent / 'no_java'}{os.pathsep}{variables['PATH'] or os.defpath}"
    hidden = {"JAVA_HOME": "/none-without-the-marker-spark-or-flink", "PATH": path}
    set_ways_to_java({**hidden}, dict.fromkeys(attributes))
    try:
        return (yield)
    finally:
        set_ways_to_java(variables, attributes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Show Java again to fixtures of the file that end with its last test, which may be without a marker."""
    if HIDDEN in item.stash:
        set_ways_to_java(*item.stash[HIDDEN])
    assert not handles_signals(), "a command's main() was called in this process without as_command()"
