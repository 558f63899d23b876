"""Flink's jars and the compiled planner: where they are found, and what is said where they are not."""

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.engine.flink import plan_with_flink as flink_jars
from penstock.engine.machine.folders import CACHE_DIR
from penstock.engine.spark.find_java import Java
from penstock.plans.errors import ConfigurationError
from tests.engine.flink.programs import script


def test_package_is_not_installed(monkeypatch):
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(flink_jars, "distribution", absent)
    with pytest.raises(
        ConfigurationError, match=r"not installed\n  hint: pip install 'penstock-spark\[flink\]'"
    ) as e:
        flink_jars.flink_jars()
    assert e.value.exit_code == 2


@pytest.mark.parametrize(
    ("version", "jar", "message"),
    [
        ("1.20.0", "flink-dist-1.20.0.jar", "apache-flink-libraries must be 2.3.0, got 1.20.0"),
        ("2.3.0", "flink-csv-2.3.0.jar", "lacks flink-dist-2.3.0.jar"),
        ("2.3.0", "flink-dist-2.3.0.jar", None),
    ],
)
def test_jars_of_the_package(monkeypatch, tmp_path, version, jar, message):
    folder = tmp_path / "pyflink/lib"
    folder.mkdir(parents=True)
    (folder / jar).touch()
    package = SimpleNamespace(version=version, locate_file=lambda path: tmp_path / path)
    monkeypatch.setattr(flink_jars, "distribution", lambda name: package)
    if message is None:
        assert flink_jars.flink_jars() == folder
    else:
        with pytest.raises(ConfigurationError, match=message):
            flink_jars.flink_jars()


@pytest.fixture
def cache(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "cache"))
    return tmp_path / "cache"


JAVAC = """
into = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
(into / "penstock/flink").mkdir(parents=True)
(into / "penstock/flink/PlanTopologies.class").write_text(" ".join(sys.argv))
"""


def test_no_javac(monkeypatch, tmp_path, cache):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="javac is required") as e:
        flink_jars.compiled_planner(tmp_path, Java(str(tmp_path / "jre/bin/java"), "17.0.1", 17))
    assert "needs a JDK and not only a JRE" in str(e.value)


def test_javac_beside_java_compiles_once(tmp_path, cache):
    javac = script(tmp_path / "jdk/bin/javac", JAVAC)
    java = Java(str(tmp_path / "jdk/bin/java"), "17.0.1", 17)
    classes = flink_jars.compiled_planner(tmp_path / "lib", java)
    said = (classes / "penstock/flink/PlanTopologies.class").read_text()
    assert said.startswith(f"{javac} --release 17 ")
    assert f"-cp {tmp_path}/lib/*" in said
    assert f"{Path(flink_jars.__file__).parent}/PlanTopologies.java" in said
    Path(javac).unlink()
    assert flink_jars.compiled_planner(tmp_path / "lib", java) == classes
    assert list(cache.iterdir()) == [classes]


def test_another_source_is_compiled_anew(monkeypatch, tmp_path, cache):
    script(tmp_path / "jdk/javac", JAVAC)
    java = Java(str(tmp_path / "jdk/java"), "17.0.1", 17)
    first = flink_jars.compiled_planner(tmp_path, java)
    (tmp_path / "PlanTopologies.java").write_text("class PlanTopologies {}")
    monkeypatch.setattr(flink_jars, "_SOURCES", tmp_path)
    assert flink_jars.compiled_planner(tmp_path, java) != first


def test_many_that_compile_at_once_leave_one_folder(tmp_path, cache):
    """The slow javac makes them all start before the first one ends."""
    script(tmp_path / "jdk/javac", "import time\ntime.sleep(0.5)\n" + JAVAC)
    java = Java(str(tmp_path / "jdk/java"), "17.0.1", 17)
    with ThreadPoolExecutor(6) as pool:
        folders = set(pool.map(lambda _: flink_jars.compiled_planner(tmp_path, java), range(6)))
    assert folders == set(cache.iterdir())
    assert len(folders) == 1


def test_javac_that_fails_leaves_nothing(tmp_path, cache):
    script(tmp_path / "jdk/javac", "sys.exit('error: release version 17 not supported')")
    java = Java(str(tmp_path / "jdk/java"), "17.0.1", 17)
    with pytest.raises(ConfigurationError, match="release version 17 not supported"):
        flink_jars.compiled_planner(tmp_path, java)
    assert list(cache.iterdir()) == []


def test_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "file"))
    script(tmp_path / "jdk/javac", JAVAC)
    with pytest.raises(ConfigurationError, match="cache cannot be used"):
        flink_jars.compiled_planner(tmp_path, Java(str(tmp_path / "jdk/java"), "17.0.1", 17))
