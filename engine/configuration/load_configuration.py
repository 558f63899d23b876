"""Reading the configuration: all YAML files of a directory, then -D, then the environment.

Source: GlobalConfiguration.loadConfiguration, CliFrontend.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.engine.configuration.cluster_options import (
    CLUSTER_OPTIONS,
    LOAD_BALANCE_MODE,
    MEMORY_FIELDS,
    NETWORK_FIELDS,
    PARALLELISM,
    PROCESS_SIZE,
    SLOTS,
    STATE_BACKEND,
    ClusterSettings,
    Level,
    Option,
    Reader,
    Setting,
    memory_options,
    option_text,
)
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.merge_settings import (
    OPTIONS,
    SPARK,
    Merged,
    closest_key,
    is_known_to_flink,
    merge_settings,
    misspelled_spark_key,
    option_of,
    typed_values,
)
from penstock.engine.configuration.read_yaml_settings import read_yaml_settings
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.columnar.count_network_buffers import FLINK_2_3
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.topology.flink_options import PARALLELISM_OVERRIDES
from penstock.plans.topology.flink_values import parse_map
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.job_settings import refusals_of_config
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, SlotSharingStrategy

# Settings that are right by themselves, and wrong together.


_RANGES = ("taskmanager.memory.jvm-overhead", "taskmanager.memory.network")


def _contradictions(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    """Everything that contradicts another setting, or a default, each with the places of both.

    `values`: of all options, `settings`: those that are set.
    """
    ranges = [said for prefix in _RANGES for said in _empty_range(prefix, values, settings)]
    cluster = [] if ranges else _too_small(values, settings)
    return [*ranges, *cluster, *_network(values, settings), *_jobs(settings)]


def _empty_range(prefix: str, values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    least, most = f"{prefix}.min", f"{prefix}.max"
    if values[least] <= values[most]:
        return []
    return [f"{_shown(least, settings)} is above {_shown(most, settings)}"]


def _too_small(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    """A TaskManager whose memory does not hold its parts."""
    keys = [key for key in (PROCESS_SIZE.key, *MEMORY_FIELDS, SLOTS.key) if key in settings]

    def make() -> TaskManager:
        memory = memory_options(values)
        follows = PROCESS_SIZE.key not in settings and memory.decides_process_size
        return TaskManager(None if follows else values[PROCESS_SIZE.key], values[SLOTS.key], memory)

    return _refused_together(make, keys, settings)


def _network(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    keys = [key for key in NETWORK_FIELDS if key in settings]
    return _refused_together(
        lambda: replace(FLINK_2_3, **{NETWORK_FIELDS[key]: values[key] for key in keys}), keys, settings
    )


def _refused_together(
    make: Callable[[], object], keys: list[str], settings: Mapping[str, Setting]
) -> list[str]:
    try:
        make()
    except ConfigurationError as error:
        places = ", ".join(_shown(key, settings) for key in keys) or "defaults"
        return [f"{places}: {error.message}" + (f"; {error.hint}" if error.hint else "")]
    return []


def _jobs(settings: Mapping[str, Setting]) -> list[str]:
    """Contradictions for which Flink refuses every job with these options, whatever its operators."""
    config = {
        setting.key: setting.text
        for setting in settings.values()
        if (option := option_of(setting.key)) is not None and option.reader is Reader.JOBS
    }
    places = {setting.key: setting.place for setting in settings.values()}
    return [f"{_places(said, places)}: {said}" for said in refusals_of_config(config)]


def _places(said: str, places: Mapping[str, str]) -> str:
    named = [place for key, place in places.items() if key in said]
    return ", ".join(dict.fromkeys(named)) or "options of jobs"


def _shown(key: str, settings: Mapping[str, Setting]) -> str:
    setting = settings.get(key)
    return f"{key} (default)" if setting is None else f"{setting.place}: {setting.key} ({setting.text})"


_BY_KEY = {option.key: option for option in OPTIONS}
_READ = frozenset(_BY_KEY)
_SLOT_SHARING_BY_MODE = {"TASKS": SlotSharingStrategy.TASK_BALANCED_PREFERRED}
_WITH_OPTIONS_OF_THEIR_OWN = (SLOTS.key, PROCESS_SIZE.key, LOAD_BALANCE_MODE.key)


def load_configuration(
    files: list[str], defines: Mapping[str, str], place_of_defines: str = "-D"
) -> EffectiveConfiguration:
    """The settings of `files` and of `defines` above them.

    Raises ConfigurationError with everything that is wrong: files that cannot be read, keys that are set
    twice, keys that nobody knows, values of other types, settings that contradict each other.
    """
    settings: list[Setting] = []
    problems: list[str] = []
    for file in files:
        read = read_yaml_settings(file)
        settings += read.settings
        problems += read.problems
    settings += [
        Setting(key.strip(), text.strip(), Level.DEFINE, place_of_defines) for key, text in defines.items()
    ]
    remember_secrets({setting.key: setting.text for setting in settings})
    problems += [said for setting in settings for said in _unknown(setting)]
    merged = merge_settings(settings)
    values, wrong = _typed(merged)
    problems += [*merged.problems, *wrong.values()]
    sound = {key: setting for key, setting in merged.settings.items() if key not in wrong}
    problems += _contradictions(values, sound)
    if problems:
        raise _refused(problems)
    return _effective(merged, values)


def yaml_files(directory: Path) -> list[str]:
    """The YAML files of a directory, by name. Raises ConfigurationError if it cannot be listed."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise ConfigurationError(
            f"configuration directory {directory}: {error.strerror}", "name a directory of YAML files"
        ) from None
    return [str(directory / name) for name in names if name.lower().endswith((".yaml", ".yml"))]


def _unknown(setting: Setting) -> list[str]:
    """Why nobody knows the key; nothing if somebody does."""
    key, closest = setting.key, None
    if key.startswith(SPARK):
        closest = misspelled_spark_key(key)
        if closest is None:
            return []
    elif option_of(key) is not None or is_known_to_flink(key):
        return []
    closest = closest or closest_key(key, _READ)
    hint = f"; did you mean {closest}?" if closest else ""
    return [f"{setting.place}: {shorten(key)} is an unknown key{hint}"]


def _typed(merged: Merged) -> tuple[dict[str, Any], dict[str, str]]:
    """Values of all options, and what is wrong with settings of some, by key."""
    set_options = {key: setting for key, setting in merged.settings.items() if key in _BY_KEY}
    lists = {key for key, setting in set_options.items() if setting.is_list and key not in _TAKE_LISTS}
    texts = {key: setting.text for key, setting in set_options.items() if key not in lists}
    values, wrong = typed_values(texts)
    reasons = {**wrong, **dict.fromkeys(lists, "is a list")}
    said = {key: _wrong(set_options[key], _BY_KEY[key], reason) for key, reason in reasons.items()}
    for key, several in merged.overridden.items():
        said |= {
            f"{key} at {overridden.place}": text
            for overridden in several
            for text in _wrong_below(key, overridden)
        }
    return values, said


def _wrong_below(key: str, setting: Setting) -> list[str]:
    """Faults of a setting that a higher level replaces."""
    option = _BY_KEY.get(key)
    if option is None or option.is_map:
        return []
    try:
        option.parse(setting.text)
    except ValueError as error:
        return [_wrong(setting, option, str(error))]
    return []


def _wrong(setting: Setting, option: Option, reason: str) -> str:
    shown = redact_value(setting.key, shorten(setting.text))
    return f"{setting.place}: {setting.key}: found {shown}, which {reason}; allowed: {option.allowed}"


_TAKE_LISTS = frozenset({"pipeline.cached-files"})


def _refused(problems: list[str]) -> ConfigurationError:
    unique = list(dict.fromkeys(problems))
    if len(unique) == 1:
        return ConfigurationError(f"configuration: {unique[0]}", _HINT)
    listed = "".join(f"\n  {problem}" for problem in unique)
    return ConfigurationError(f"configuration: {len(unique)} errors{listed}", _HINT)


_HINT = "penstock config lists the options, docs/configuration.md describes them"


def _effective(merged: Merged, values: Mapping[str, Any]) -> EffectiveConfiguration:
    settings = merged.settings
    readers = {key: _BY_KEY[key].reader for key in settings if key in _BY_KEY}
    jobs = {s.key: s.text for key, s in settings.items() if readers.get(key) is Reader.JOBS}
    jobs.pop(PARALLELISM.key, None)
    # The Dispatcher puts a job's overrides over the cluster's entry by entry, not as a whole.
    overrides = parse_map(jobs.pop(PARALLELISM_OVERRIDES.key, ""))
    jobs |= {f"{PARALLELISM_OVERRIDES.key}.{vertex}": text for vertex, text in overrides.items()}
    scripts = {
        setting.key: setting.text
        for key, setting in settings.items()
        if not key.startswith(SPARK)
        and (readers.get(key) in (Reader.JOBS, Reader.RUNS) or setting.level is Level.DEFINE)
    }
    spark = {key: setting.text for key, setting in settings.items() if key.startswith(SPARK)}
    return EffectiveConfiguration(
        settings,
        merged.overridden,
        _cluster(settings, values),
        JobDefaults(values[PARALLELISM.key], jobs),
        scripts,
        spark,
    )


def _cluster(settings: Mapping[str, Setting], values: Mapping[str, Any]) -> ClusterSettings:
    def value_if_set(key: str) -> Any:
        return values[key] if key in settings else None

    mode = value_if_set(LOAD_BALANCE_MODE.key)
    recorded = {
        option.key: option_text(option, values[option.key])
        for option in CLUSTER_OPTIONS
        if option.key not in _WITH_OPTIONS_OF_THEIR_OWN
        and (
            values[option.key] != option.default or (option.key in NETWORK_FIELDS and option.key in settings)
        )
    }
    return ClusterSettings(
        None if mode is None else _SLOT_SHARING_BY_MODE.get(mode, DEFAULT_SLOT_SHARING_STRATEGY),
        value_if_set(SLOTS.key),
        value_if_set(PROCESS_SIZE.key),
        memory_options(values),
        {field: values[key] for key, field in NETWORK_FIELDS.items() if key in settings},
        value_if_set(STATE_BACKEND.key),
        recorded,
    )
