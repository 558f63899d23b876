"""One Spark session for the tests that ask for it, folders of state and cache, and a guard against Java.

A test that starts Java, itself or through a process, is marked `spark` or `flink`; the fixture `spark` marks
its tests. All others find programs in place of java, javac and jar, and fail if one of these is called.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.engine.machine.cache_folder import CACHE_DIR
from penstock.engine.machine.state_folder import STATE_DIR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MARKERS = ("spark", "flink")


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What outlives a command is not this user's; later runs find the archive of Spark's classes."""
    os.environ[STATE_DIR] = str(tmp_path_factory.mktemp("state"))
    os.environ[CACHE_DIR] = str(Path(__file__).parents[1] / "build" / "cache")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """local[2], 4 shuffle partitions, 2 GiB, Delta; started by the first test that asks for it."""
    from penstock.engine.spark.session import get_session
    from penstock.engine.spark.spark_conf import spark_conf_dir

    os.environ["SPARK_CONF_DIR"] = str(spark_conf_dir() / "test")
    session = get_session(app_name="penstock tests")
    yield session
    session.stop()


def pytest_itemcollected(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker("spark")


JAVA_HOME = Path(tempfile.mkdtemp(prefix="penstock-no-java-"))
CALLS = JAVA_HOME / "calls"


def pytest_configure() -> None:
    (JAVA_HOME / "bin").mkdir(exist_ok=True)
    for name in ("java", "javac", "jar"):
        program = JAVA_HOME / "bin" / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >>"{CALLS}"\n'
            "echo 'no Java for tests without the marker spark or flink' >&2\nexit 97\n"
        )
        program.chmod(0o755)


def pytest_unconfigure() -> None:
    for path in (*JAVA_HOME.glob("bin/*"), CALLS):
        path.unlink(missing_ok=True)
    (JAVA_HOME / "bin").rmdir()
    JAVA_HOME.rmdir()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hide Java from the test and from the fixtures that it is the first to ask for."""
    if any(item.get_closest_marker(name) for name in JAVA_MARKERS):
        return (yield)
    before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}
    os.environ["JAVA_HOME"] = str(JAVA_HOME)
    os.environ["PATH"] = f"{JAVA_HOME / 'bin'}{os.pathsep}{before['PATH'] or os.defpath}"
    try:
        return (yield)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    if CALLS.exists():
        calls = CALLS.read_text()
        CALLS.unlink()
        pytest.fail(f"starts Java without the marker spark or flink: {calls}", pytrace=False)
