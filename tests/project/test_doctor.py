"""`penstock doctor` says which pair does not fit."""

from importlib.metadata import version

import pytest

from penstock.engine.commands import doctor
from penstock.engine.commands.doctor import Finding, diagnose, probe
from penstock.engine.commands.main import app
from penstock.engine.spark.find_java import Java
from penstock.engine.spark.spark_conf import DeltaCoordinates
from penstock.plans.errors import ConfigurationError


def problems() -> dict[str, str]:
    return {finding.name: finding.problem for finding in diagnose() if finding.problem}


@pytest.fixture
def java(monkeypatch):
    monkeypatch.setattr(doctor, "find_java", lambda: Java("java", "17.0.15", 17))


@pytest.mark.spark
def test_this_installation_is_sound():
    assert problems() == {}
    assert {
        "Python",
        "Java",
        "pyspark",
        "delta-spark",
        "Delta jar",
        "pyarrow",
        "workers' Python",
        "numba",
        "extra flink",
    } <= {finding.name for finding in diagnose()}


@pytest.mark.parametrize(
    ("jar", "problem"),
    [
        (("4.2", "2.13", "4.3.0"), "jar 4.3.0 and delta-spark 4.4.0 differ"),
        (("4.1", "2.13", "4.4.0"), "the jar is for Spark 4.1, pyspark is 4.2.0"),
        (("4.2", "2.12", "4.4.0"), "the jar is for Scala 2.12, pyspark has 2.13.18"),
    ],
)
def test_a_jar_that_fits_nothing(java, monkeypatch, jar, problem):
    monkeypatch.setattr(doctor, "delta_coordinates", lambda: DeltaCoordinates("io.delta:…", *jar))
    assert problems() == {"Delta jar": problem}


def test_a_package_that_penstock_does_not_allow(java, monkeypatch):
    real = version
    monkeypatch.setattr(
        "penstock.engine.commands.doctor.version",
        lambda name: "3.0.1" if name == "pandas" else real(name),
    )
    assert problems() == {"pandas": "penstock 0.1.0 needs pandas<3,>=2.2"}


def test_the_extra_may_be_missing_but_not_be_another_version(java, monkeypatch):
    real = version
    for found, problem in ((doctor.NOT_INSTALLED, {}), ("2.2.0", {"extra flink"})):
        monkeypatch.setattr(
            doctor, "_version", lambda name, found=found: found if name.startswith("apache") else real(name)
        )
        monkeypatch.setattr(doctor, "flink_jars", _no_jars)
        assert set(problems()) == set(problem)
    (said,) = (finding.problem for finding in diagnose() if finding.name == "extra flink")
    assert said == "no jars"


def _no_jars():
    raise ConfigurationError("no jars")


def test_java_settings_and_jars_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_JARS", str(tmp_path / "absent"))
    found = problems()
    assert set(found) == {"Java", "Spark settings", "jars from"}
    assert "lacks Delta's spark.sql.extensions, spark.sql.catalog.spark_catalog" in found["Spark settings"]


def test_probe_asks_a_worker_and_delta(spark):
    assert [(finding.name, finding.problem) for finding in probe(spark)] == [
        ("session", ""),
        ("session's worker", ""),
        ("session's Delta table", ""),
    ]


def test_a_wrong_pair_ends_with_exit_code_2_and_is_marked(monkeypatch, capsys):
    monkeypatch.setattr(
        "penstock.engine.commands.doctor.diagnose", lambda: [Finding("Java", "11", "too old\n[x]")]
    )
    with pytest.raises(SystemExit) as stopped:
        app(["doctor"])
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.out == "Java\t11\tWRONG: too old [x]\n"
    assert said.err == "penstock: 1 of 1 findings have a problem; see above\n"
