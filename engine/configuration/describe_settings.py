"""Describe value, default and source of every option for `penstock config`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.engine.configuration.cluster_options import Level, Option, Setting, option_text
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.merge_settings import (
    OPTIONS,
    SPARK,
    flink_keys,
    option_of,
    spark_keys,
    typed_values,
)
from penstock.engine.output.redaction import redact_value
from penstock.engine.spark.spark_conf import (
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)

# Spark's properties outside the YAML files: in spark-defaults.conf, and in the environment.


_FILE = "spark-defaults.conf"


def properties_in_use() -> list[Setting]:
    """Return the settings of spark-defaults.conf that a session starts with, each with its line."""
    directory = spark_conf_dir_in_use()
    base = spark_conf_dir()
    folders = [base, directory] if base in directory.parents else [directory]
    places = {key: place for folder in folders for key, place in _places(str(folder / _FILE)).items()}
    return [
        Setting(key, text, Level.PROPERTIES, places.get(key, str(directory / _FILE)))
        for key, text in spark_settings(directory).items()
    ]


def properties_of_environment() -> list[Setting]:
    """Return the settings of environment variables, of which PENSTOCK_JARS replaces the jars."""
    jars = offline_jars()
    if not jars:
        return []
    listed = ",".join(map(str, jars))
    return [
        Setting("spark.jars", listed, Level.ENVIRONMENT, "PENSTOCK_JARS"),
        Setting("spark.jars.packages", "", Level.ENVIRONMENT, "PENSTOCK_JARS"),
    ]


def _places(path: str) -> dict[str, str]:
    """Map the first word of each line to its file and line."""
    try:
        with open(path, encoding="utf-8") as file:
            words = [re.split(r"[=\s]", line.strip(), maxsplit=1)[0] for line in file]
    except OSError:
        return {}
    return {word: f"{path}:{number}" for number, word in enumerate(words, 1) if word}


DEFAULT = "default"
UNREAD = "known to Flink; not read by Penstock"


class DescribedSetting(NamedTuple):
    """A key with its value, default, source, reader and notes.

    `overridden`: place and value of overridden settings, strongest first.
    """

    key: str
    value: str
    default: str
    place: str
    meaning: str
    note: str = ""
    allowed: str = ""
    deprecated: tuple[str, ...] = ()
    overridden: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the setting as JSON, with a list of the settings that it overrides."""
        lost = [{"place": place, "value": value} for place, value in self.overridden]
        return {**self._asdict(), "deprecated": list(self.deprecated), "overridden": lost}


def describe_settings(
    configuration: EffectiveConfiguration, environment: Iterable[Setting], properties: Iterable[Setting]
) -> list[DescribedSetting]:
    """Describe every option, then every other key that is set. Secret values are redacted.

    `environment` and `properties` are Spark's settings from environment variables, which win, and from
    spark-defaults.conf, which lose.
    """
    options = {option.key for option in OPTIONS}
    texts = {key: setting.text for key, setting in configuration.settings.items() if key in options}
    values, _ = typed_values(texts)
    described = [_option(option, values[option.key], configuration) for option in OPTIONS]
    spark = _stacked(properties, configuration, environment)
    others = {
        key: setting
        for key, setting in configuration.settings.items()
        if key not in options and not key.startswith(SPARK)
    }
    described += [_other(setting, configuration.overridden.get(key, ())) for key, setting in others.items()]
    return described + [_spark(settings) for _, settings in sorted(spark.items())]


def describe_known(key: str) -> DescribedSetting | None:
    """Describe an unset key of an option, deprecated ones too, or an unset key of Flink or Spark."""
    option = option_of(key)
    if option is not None:
        return _option(option, option.default, EffectiveConfiguration())
    if key in spark_keys():
        return DescribedSetting(key, "", "", "not set", "a property of Spark")
    if key in flink_keys():
        return DescribedSetting(key, "", "", "not set", "an option of Flink", _note(key))
    return None


def _option(option: Option, value: Any, configuration: EffectiveConfiguration) -> DescribedSetting:
    setting = configuration.settings.get(option.key)
    text = option_text(option, value)
    return DescribedSetting(
        option.key,
        text if setting is None else redact_value(option.key, text),
        option_text(option, option.default),
        DEFAULT if setting is None else setting.place,
        f"{option.meaning}; {option.reader}" if option.reader else option.meaning,
        f"set under its deprecated key {setting.key}"
        if setting is not None and setting.key != option.key
        else "",
        option.allowed,
        option.deprecated,
        _lost(configuration.overridden.get(option.key, ())),
    )


def _other(setting: Setting, overridden: Iterable[Setting]) -> DescribedSetting:
    value = redact_value(setting.key, setting.text)
    return DescribedSetting(
        setting.key,
        value,
        "",
        setting.place,
        "an option of Flink",
        _note(setting.key),
        overridden=_lost(overridden),
    )


def _note(key: str) -> str:
    newer = flink_keys().get(key)
    return UNREAD if newer is None else f"{UNREAD}; deprecated, now {newer}"


def _spark(settings: list[Setting]) -> DescribedSetting:
    *lower, setting = settings
    known = setting.key in spark_keys()
    return DescribedSetting(
        setting.key,
        redact_value(setting.key, setting.text),
        "",
        setting.place,
        "a property of Spark",
        "" if known else "Spark does not declare it; passed to Spark unchanged",
        overridden=_lost(reversed(lower)),
    )


def _stacked(
    properties: Iterable[Setting], configuration: EffectiveConfiguration, environment: Iterable[Setting]
) -> Mapping[str, list[Setting]]:
    """Collect the settings of each Spark property; the winner is the last."""
    by_property: dict[str, list[Setting]] = {}
    for setting in properties:
        by_property.setdefault(setting.key, []).append(setting)
    for key, setting in configuration.settings.items():
        if key.startswith(SPARK):
            by_property.setdefault(key, []).extend(
                [*reversed(configuration.overridden.get(key, ())), setting]
            )
    for setting in environment:
        by_property.setdefault(setting.key, []).append(setting)
    return by_property


def _lost(settings: Iterable[Setting]) -> tuple[tuple[str, str], ...]:
    return tuple((setting.place, redact_value(setting.key, setting.text)) for setting in settings)
