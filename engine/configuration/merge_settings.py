"""Merge settings of all levels into one setting per option, and find contradictions."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from penstock.engine.configuration.cluster_options import CLUSTER_OPTIONS, JOB_OPTIONS, Option, Setting
from penstock.engine.configuration.run_options import RUN_OPTIONS
from penstock.plans.topology.flink_options import map_text, parse_map

# The typed model of all options that Penstock reads.
#
# Every option is defined once: options of jobs by planning (plans.topology.flink_options), the others in the
# modules beside this one. The model, `penstock config` and the reference in docs/configuration.md follow from
# these lists.


OPTIONS: tuple[Option, ...] = (*JOB_OPTIONS, *CLUSTER_OPTIONS, *RUN_OPTIONS)
"""Every option, in the order of the reference."""


def _field(option: Option) -> tuple[Any, Any]:
    """Return type and default of a field; the option's own parser makes the type from text."""
    kind: Any = object if option.default is None else type(option.default)
    if option.is_map:
        kind = dict[str, int] if isinstance(next(iter(option.default.values()), ""), int) else dict[str, str]
    kind = kind | None if option.default is None else kind
    default = Field(default=option.default, alias=option.key, description=option.meaning)
    return Annotated[kind, BeforeValidator(option.parse)], default


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_FIELDS: dict[str, Any] = {option.field: _field(option) for option in OPTIONS}
Options: type[BaseModel] = create_model("Options", __base__=_StrictModel, **_FIELDS)
"""A field per option, named after its key; the alias is the key itself."""


def typed_values(texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse `texts` by key; return the values of all options, and errors by key.

    Options without a text, or with a wrong one, have their default.
    """
    wrong: dict[str, str] = {}
    try:
        options = Options.model_validate(dict(texts))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            cause = problem.get("ctx", {}).get("error", problem["msg"])
            wrong[str(problem["loc"][0])] = str(cause)
        options = Options.model_validate({key: text for key, text in texts.items() if key not in wrong})
    return options.model_dump(by_alias=True), wrong


_BY_KEY = {key: option for option in OPTIONS for key in (option.key, *option.deprecated)}
_MAPS = {option.key: option for option in OPTIONS if option.is_map}


# Merging the settings of all levels.


class MergedSettings(NamedTuple):
    """One setting per key, the settings that it overrides, and errors."""

    settings: dict[str, Setting]
    overridden: dict[str, tuple[Setting, ...]]
    problems: list[str]


def option_of(key: str) -> Option | None:
    """Return the option that a key sets, by its own key, by a deprecated one, or as an entry of a map."""
    return _BY_KEY.get(key) or _MAPS.get(_map_of(key) or "")


def merge_settings(settings: Iterable[Setting]) -> MergedSettings:
    """Merge settings of any levels. The highest level wins.

    Within a level, an option may be set once, a map either by its entries or as a whole. -D and the
    environment give one setting per key. Settings of lists come in the order of files.
    """
    problems: list[str] = []
    merged: dict[str, Setting] = {}
    overridden: dict[str, list[Setting]] = {}
    entries: dict[str, dict[str, str]] = {}
    ordered = sorted(settings, key=lambda ordered_setting: ordered_setting.level)
    for _, settings_of_level in groupby(ordered, key=lambda ordered_setting: ordered_setting.level):
        by_key: dict[str, list[Setting]] = {}
        for setting in settings_of_level:
            option = option_of(setting.key)
            by_key.setdefault(setting.key if option is None else option.key, []).append(setting)
        for key, several in by_key.items():
            if key in _MAPS:
                problems += _twice(several)
                setting = _as_map(key, several, merged.get(key), entries, problems)
            else:
                problems += _twice(several) or _under_two_keys(key, several)
                setting = several[-1]
            if key in merged:
                overridden.setdefault(key, []).insert(0, merged[key])
            merged[key] = setting
    return MergedSettings(merged, {key: tuple(lower) for key, lower in overridden.items()}, problems)


def _map_of(key: str) -> str | None:
    return next((map_key for map_key in _MAPS if key.startswith(f"{map_key}.")), None)


def _twice(several: list[Setting]) -> list[str]:
    """Report a key that is set more than once at one level."""
    places: dict[str, list[str]] = {}
    for setting in several:
        places.setdefault(setting.key, []).append(setting.place)
    return [
        f"{at[-1]}: {key} is set already at {' and '.join(at[:-1])}; set it once"
        for key, at in places.items()
        if len(at) > 1
    ]


def _under_two_keys(key: str, several: list[Setting]) -> list[str]:
    if len(several) < 2:
        return []
    first, *others = several
    return [
        f"{setting.place}: {setting.key} and {first.key} ({first.place}) set the same option; set {key} alone"
        for setting in others
    ]


def _as_map(
    key: str,
    several: list[Setting],
    lower: Setting | None,
    entries: dict[str, dict[str, str]],
    problems: list[str],
) -> Setting:
    """Return the map after one level, which sets the whole map, or entries over entries of lower levels."""
    whole = [setting for setting in several if setting.key == key]
    single = [setting for setting in several if setting.key != key]
    if whole and single:
        problems.append(
            f"{single[0].place}: {single[0].key} is an entry of {key}, which {whole[0].place} sets as a "
            "whole; set one or the other"
        )
    if whole:
        try:
            entries[key] = parse_map(whole[-1].text)
        except ValueError:
            return whole[-1]  # the option's own parser reports the error
    entries_of_key = entries.setdefault(key, {})
    entries_of_key |= {setting.key[len(key) + 1 :]: setting.text for setting in single}
    places = dict.fromkeys(setting.place for setting in several)
    lower_places = [] if whole or lower is None else [lower.place]
    return Setting(key, map_text(entries_of_key), several[-1].level, ", ".join([*places, *lower_places]))


def texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Map keys to texts."""
    return {key: setting.text for key, setting in settings.items()}


# Keys that Flink and Spark know, and hints for unknown keys.


SPARK = "spark."
_OPEN = (
    "containerized.master.env.",
    "containerized.taskmanager.env.",
    "env.java.opts",
    "events.reporter.",
    "flink.hadoop.",
    "flink.yarn.",
    "fs.",
    "gs.",
    "metrics.reporter.",
    "metrics.scope.",
    "oss.",
    "presto.s3.",
    "s3.",
    "s3a.",
    "security.delegation.token.provider.",
    "traces.reporter.",
)
"""Prefixes of Flink's keys whose rest is named by users or plugins."""
_OPEN_OF_SPARK = (
    "spark.databricks.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.hive.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
    "spark.yarn.appMasterEnv.",
)
_ALMOST = 0.93
"""Similarity from which an undeclared property is a misspelling of a declared one."""


@cache
def flink_keys() -> dict[str, str | None]:
    """Return every key of Flink 2.3.0, with the key that replaced it if it is deprecated."""
    pairs = (line.split() for line in _lines("flink_keys.txt"))
    return {pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}


@cache
def spark_keys() -> frozenset[str]:
    """Return the properties that Spark declares; plugins have others."""
    return frozenset(_lines("spark_keys.txt"))


def is_known_to_flink(key: str) -> bool:
    """Return whether Flink reads the key, an entry of a map under it, or keys with this prefix."""
    return (
        key in flink_keys() or key.startswith(_OPEN) or any(pattern.fullmatch(key) for pattern in _patterns())
    )


def misspelled_spark_key(key: str) -> str | None:
    """Return the declared property that `key` misspells; None if it is declared, or similar to none."""
    if key in spark_keys() or key.startswith(_OPEN_OF_SPARK):
        return None
    return next(iter(get_close_matches(key, spark_keys(), n=1, cutoff=_ALMOST)), None)


def closest_key(key: str, read: frozenset[str]) -> str | None:
    """Return the most similar known key, or None; `read` are the keys that Penstock reads."""
    known = spark_keys() if key.startswith(SPARK) else {*flink_keys(), *read}
    by_lower = {known_key.lower(): known_key for known_key in known}
    closest = get_close_matches(key.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[closest[0]] if closest else None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return patterns of keys with a name in them, such as `external-resource.<resource_name>.amount`."""
    with_names = (re.escape(key) for key in flink_keys() if "<" in key)
    return tuple(re.compile(re.sub(r"<\w+>", "[^.]+", re.sub(r"<\w+>$", ".+", key))) for key in with_names)


def _lines(name: str) -> list[str]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
