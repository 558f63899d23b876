"""Spark's properties beside the YAML files: those of spark-defaults.conf, and of the environment."""

import re

from penstock.engine.configuration.option import Level, Setting
from penstock.engine.spark.spark_conf import (
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)

_FILE = "spark-defaults.conf"


def properties_in_use() -> list[Setting]:
    """The settings in spark-defaults.conf that a session starts with, each with its line."""
    directory = spark_conf_dir_in_use()
    base = spark_conf_dir()
    folders = [base, directory] if base in directory.parents else [directory]
    places = {key: place for folder in folders for key, place in _places(str(folder / _FILE)).items()}
    return [
        Setting(key, text, Level.PROPERTIES, places.get(key, str(directory / _FILE)))
        for key, text in spark_settings(directory).items()
    ]


def properties_of_environment() -> list[Setting]:
    """What environment variables set: PENSTOCK_JARS replaces the jars."""
    jars = offline_jars()
    if not jars:
        return []
    listed = ",".join(map(str, jars))
    return [
        Setting("spark.jars", listed, Level.ENVIRONMENT, "PENSTOCK_JARS"),
        Setting("spark.jars.packages", "", Level.ENVIRONMENT, "PENSTOCK_JARS"),
    ]


def _places(path: str) -> dict[str, str]:
    """Key to file and line, of the first word of each line."""
    try:
        with open(path, encoding="utf-8") as file:
            words = [re.split(r"[=\s]", line.strip(), maxsplit=1)[0] for line in file]
    except OSError:
        return {}
    return {word: f"{path}:{number}" for number, word in enumerate(words, 1) if word}
