"""spark-conf/ says one thing in one place, and it fits what is installed."""

from importlib.metadata import version
from pathlib import Path

import pyspark
import pytest

from penstock.engine.spark.spark_conf import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    delta_coordinates,
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.plans.errors import ConfigurationError

ROOT = spark_conf_dir().parent


def test_delta_jar_fits_the_installed_packages():
    jar = delta_coordinates()
    assert jar.version == version("delta-spark")
    assert jar.spark_version == ".".join(version("pyspark").split(".")[:2])
    scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")).name
    assert scala.startswith(f"scala-library-{jar.scala_version}.")


def test_delta_jar_is_named_in_one_file_only():
    files = [
        path
        for folder in ROOT.iterdir()
        if not folder.name.startswith(".") and folder.name != "build"
        for path in (folder.rglob("*") if folder.is_dir() else [folder])
        if path.suffix in (".py", ".conf", ".toml", ".properties")
    ]
    naming = [
        p for p in [*files, ROOT / "Makefile"] if delta_coordinates().text in p.read_text(encoding="utf-8")
    ]
    assert naming == [ROOT / "spark-conf" / "spark-defaults.conf"]


def test_every_excluded_group_is_one_that_spark_ships():
    groups = {
        e.strip().split(":")[0] for e in spark_settings(spark_conf_dir())["spark.jars.excludes"].split(",")
    }
    shipped = {
        "com.fasterxml.jackson.core": "jackson-databind-",
        "com.github.luben": "zstd-jni-",
        "com.google.code.findbugs": "jsr305-",
        "commons-logging": "jcl-over-slf4j-",
        "commons-pool": "commons-pool-",
        "io.airlift": "aircompressor-",
        "org.apache.hadoop": "hadoop-client-runtime-",
        "org.apache.logging.log4j": "log4j-slf4j2-impl-",
        "org.apache.parquet": "parquet-hadoop-",
        "org.locationtech.jts": "jts-core-",
        "org.roaringbitmap": "RoaringBitmap-",
        "org.slf4j": "slf4j-api-",
        "org.xerial.snappy": "snappy-java-",
    }
    jars = [p.name for p in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    assert groups == set(shipped)
    assert [group for group, start in shipped.items() if not any(jar.startswith(start) for jar in jars)] == []


def test_profile_is_laid_over_the_base():
    base, test = spark_settings(spark_conf_dir()), spark_settings(spark_conf_dir() / "test")
    assert test["spark.master"] == "local[2]"
    assert "spark.master" not in base
    assert test["spark.sql.shuffle.partitions"] == "4" != base["spark.sql.shuffle.partitions"]
    assert test["spark.jars.packages"] == base["spark.jars.packages"]
    assert base["spark.sql.extensions"] == DELTA_EXTENSION
    assert base["spark.sql.catalog.spark_catalog"] == DELTA_CATALOG


def test_a_directory_of_the_users_stands_for_itself(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(
        "# mine\n\nspark.a=1\nspark.b   two words \nspark.c x,\\\n   y\nspark.d\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    expected = {"spark.a": "1", "spark.b": "two words", "spark.c": "x,y", "spark.d": ""}
    assert spark_settings(spark_conf_dir_in_use()) == expected
    assert spark_settings(tmp_path / "absent") == {}


def test_penstock_jars(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_JARS", raising=False)
    assert offline_jars() == []
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PENSTOCK_JARS", str(tmp_path))
    assert offline_jars() == [tmp_path / "a.jar", tmp_path / "b.jar"]
    monkeypatch.setenv("PENSTOCK_JARS", f"{tmp_path / 'b.jar'}, {tmp_path / 'missing.jar'}")
    with pytest.raises(ConfigurationError, match=r"missing\.jar.*\n.*io\.delta:delta-spark"):
        offline_jars()
