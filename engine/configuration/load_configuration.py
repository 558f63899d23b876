"""Load the configuration from all YAML files of a directory, then -D, then the environment.

Source: GlobalConfiguration.loadConfiguration, CliFrontend.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

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
    MergedSettings,
    closest_key,
    is_known_to_flink,
    merge_settings,
    misspelled_spark_key,
    option_of,
    typed_values,
)
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.operators.common.flink_yaml import as_option_text, core_schema_loader
from penstock.plans.errors import ConfigurationError
from penstock.plans.importing.bounds import BoundError, require_bounded_yaml
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import FLINK_2_3
from penstock.plans.topology.flink_options import PARALLELISM_OVERRIDES, parse_map
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.job_settings import refusals_of_config
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, SlotSharingStrategy

# Settings of a YAML file, each with its line.
#
# Source: GlobalConfiguration.loadYAMLResource, GlobalConfiguration.flatten, YamlParserUtils.


LARGEST_BYTES = 3 << 20
"""Largest file that snakeyaml reads, in bytes."""

_MOST_SETTINGS = 2_000
_DEEPEST = 50
_TEXT_TAG = "tag:yaml.org,2002:str"
_NULL_TAG = "tag:yaml.org,2002:null"


class FileSettings(NamedTuple):
    """The settings of a file in its order, and its errors, each with its place."""

    settings: list[Setting]
    problems: list[str]


class _Problem(Exception):
    """The reason why a file, or a value in it, cannot be read; `line` counts from 1."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def read_yaml_settings(path: str) -> FileSettings:
    """Read the settings of a file. Nested maps become keys with dots; lists are texts in YAML.

    A key that occurs twice is two settings. Errors contain no values of the file. A file that holds too much
    has that error alone.
    """
    settings: list[Setting] = []
    problems: list[str] = []
    try:
        root = _root(_text(path))
        if root is None:  # nothing, or comments only
            return FileSettings([], [])
        for setting in _settings(root[0], root[1], path, "", (), count(1)):
            if isinstance(setting, str):
                problems.append(setting)
            else:
                settings.append(setting)
    except _Problem as problem:
        place = path if problem.line is None else f"{path}:{problem.line}"
        return FileSettings([], [f"{place}: {problem}"])
    return FileSettings(settings, problems)


def _text(path: str) -> str:
    try:
        # Opening a pipe without O_NONBLOCK would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _Problem("it is not a file")
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise _Problem(f"it cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise _Problem(f"it is larger than {LARGEST_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Problem("it is not UTF-8", data[: error.start].count(b"\n") + 1) from None


def _root(text: str) -> tuple[Any, Any] | None:
    """Parse the map of a file; return it with the loader that constructs its values."""
    import yaml

    try:
        loader = core_schema_loader(text)
        node = loader.get_single_node()
        for _, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(value, yaml.SequenceNode):
                require_bounded_yaml(value)
    except BoundError as error:
        raise _Problem(str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        several = isinstance(error, yaml.composer.ComposerError) and "another document" in str(error.problem)
        reason = "it holds more than one document" if several else f"it is not YAML: {error.problem}"
        raise _Problem(reason, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise _Problem("it is not YAML: it has a character that YAML does not allow", line) from None
    except RecursionError:
        raise _Problem("it is nested too deeply") from None
    if node is None or node.tag == _NULL_TAG:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise _Problem("it is not a map of keys to values", node.start_mark.line + 1)
    return node, loader


def _settings(
    node: Any, loader: Any, path: str, prefix: str, above: tuple[Any, ...], number: Iterator[int]
) -> Iterator[Setting | str]:
    """Yield the settings in a map and its nested maps, or errors. `number` counts entries.

    Entries of an alias count each time, because a few lines of nested aliases can stand for billions.
    """
    import yaml

    for key_node, value_node in node.value:
        if next(number) > _MOST_SETTINGS:
            raise _Problem(f"it holds more than {_MOST_SETTINGS:,} settings")
        place = f"{path}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TEXT_TAG or not key_node.value:
            yield f"{place}: a key {'below ' + prefix[:-1] if prefix else ''} is not a text".replace(
                "  ", " "
            )
            continue
        key = prefix + key_node.value
        if isinstance(value_node, yaml.MappingNode):
            if value_node is node or any(value_node is outer for outer in above):
                yield f"{place}: {key}: an alias of the map that contains it"
            elif len(above) >= _DEEPEST:
                yield f"{place}: {key}: maps are nested too deeply"
            else:
                yield from _settings(value_node, loader, path, f"{key}.", (*above, node), number)
            continue
        try:
            value = loader.construct_object(value_node, deep=True)
            text = as_option_text(value)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
            reason = "it has no value" if value_node.tag == _NULL_TAG else _reason(error)
            yield f"{place}: {key}: {reason}"
            continue
        yield Setting(key, text, Level.FILE, place, is_list=isinstance(value, list))


def _reason(error: Exception) -> str:
    """Describe why a value cannot be constructed, without the value."""
    problem = getattr(error, "problem", None)
    return f"its value is not YAML: {problem}" if problem else "its value is not YAML"


# Settings that are valid alone, but contradict each other.


_RANGES = ("taskmanager.memory.jvm-overhead", "taskmanager.memory.network")


def _contradictions(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    """Describe every setting that contradicts another setting, or a default, with the places of both.

    `values` holds all options, `settings` only the ones set.
    """
    ranges = [error for prefix in _RANGES for error in _empty_range(prefix, values, settings)]
    cluster = [] if ranges else _too_small(values, settings)
    return [*ranges, *cluster, *_network(values, settings), *_jobs(settings)]


def _empty_range(prefix: str, values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    least, most = f"{prefix}.min", f"{prefix}.max"
    if values[least] <= values[most]:
        return []
    return [f"{_shown(least, settings)} is above {_shown(most, settings)}"]


def _too_small(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    """Describe a TaskManager whose memory is too small for its parts."""
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
    """Describe contradictions for which Flink refuses every job, whichever its operators."""
    config = {
        setting.key: setting.text
        for setting in settings.values()
        if (option := option_of(setting.key)) is not None and option.reader is Reader.JOBS
    }
    places = {setting.key: setting.place for setting in settings.values()}
    return [f"{_places(refusal, places)}: {refusal}" for refusal in refusals_of_config(config)]


def _places(refusal: str, places: Mapping[str, str]) -> str:
    named = [place for key, place in places.items() if key in refusal]
    return ", ".join(dict.fromkeys(named)) or "options of jobs"


def _shown(key: str, settings: Mapping[str, Setting]) -> str:
    setting = settings.get(key)
    return f"{key} (default)" if setting is None else f"{setting.place}: {setting.key} ({setting.text})"


_BY_KEY = {option.key: option for option in OPTIONS}
_READ = frozenset(_BY_KEY)
_SLOT_SHARING_BY_MODE = {"TASKS": SlotSharingStrategy.TASK_BALANCED_PREFERRED}
_WITH_OWN_OPTIONS = (SLOTS.key, PROCESS_SIZE.key, LOAD_BALANCE_MODE.key)


def load_configuration(
    files: list[str], defines: Mapping[str, str], place_of_defines: str = "-D"
) -> EffectiveConfiguration:
    """Load the settings of `files`, overridden by `defines`.

    Raises ConfigurationError with all errors: unreadable files, keys that are set twice, unknown keys, values
    of wrong types, and settings that contradict each other.
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
    problems += [error for setting in settings for error in _unknown(setting)]
    merged = merge_settings(settings)
    values, wrong = _typed(merged)
    problems += [*merged.problems, *wrong.values()]
    sound = {key: setting for key, setting in merged.settings.items() if key not in wrong}
    problems += _contradictions(values, sound)
    if problems:
        raise _refused(problems)
    return _effective(merged, values)


def yaml_files(directory: Path) -> list[str]:
    """List the YAML files of a directory by name. Raises ConfigurationError if it cannot be listed."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise ConfigurationError(
            f"configuration directory {directory}: {error.strerror}", "name a directory of YAML files"
        ) from None
    return [str(directory / name) for name in names if name.lower().endswith((".yaml", ".yml"))]


def _unknown(setting: Setting) -> list[str]:
    """Return an error if the key is unknown, else nothing."""
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


def _typed(merged: MergedSettings) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of all options, and errors of settings by key."""
    set_options = {key: setting for key, setting in merged.settings.items() if key in _BY_KEY}
    lists = {key for key, setting in set_options.items() if setting.is_list and key not in _TAKE_LISTS}
    texts = {key: setting.text for key, setting in set_options.items() if key not in lists}
    values, wrong = typed_values(texts)
    reasons = {**wrong, **dict.fromkeys(lists, "is a list")}
    errors = {key: _wrong(set_options[key], _BY_KEY[key], reason) for key, reason in reasons.items()}
    for key, several in merged.overridden.items():
        errors |= {
            f"{key} at {overridden.place}": text
            for overridden in several
            for text in _wrong_below(key, overridden)
        }
    return values, errors


def _wrong_below(key: str, setting: Setting) -> list[str]:
    """Return errors of a setting that a higher level replaces."""
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
    return f"{setting.place}: {setting.key} must be {option.allowed}, got {shown}, which {reason}"


_TAKE_LISTS = frozenset({"pipeline.cached-files"})


def _refused(problems: list[str]) -> ConfigurationError:
    unique = list(dict.fromkeys(problems))
    if len(unique) == 1:
        return ConfigurationError(f"configuration: {unique[0]}", _HINT)
    listed = "".join(f"\n  {problem}" for problem in unique)
    return ConfigurationError(f"configuration: {len(unique)} errors{listed}", _HINT)


_HINT = "penstock config lists the options, docs/configuration.md describes them"


def _effective(merged: MergedSettings, values: Mapping[str, Any]) -> EffectiveConfiguration:
    settings = merged.settings
    readers = {key: _BY_KEY[key].reader for key in settings if key in _BY_KEY}
    jobs = {s.key: s.text for key, s in settings.items() if readers.get(key) is Reader.JOBS}
    jobs.pop(PARALLELISM.key, None)
    # The Dispatcher merges a job's overrides into the cluster's by entry, not as a whole.
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
        if option.key not in _WITH_OWN_OPTIONS
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
