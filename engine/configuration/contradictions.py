"""Settings that are right by themselves, and wrong together."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from penstock.engine.configuration.cluster_options import (
    MEMORY_FIELDS,
    NETWORK_FIELDS,
    PROCESS_SIZE,
    SLOTS,
)
from penstock.engine.configuration.memory_options import memory_options
from penstock.engine.configuration.merge_settings import option_of
from penstock.engine.configuration.option import Reader, Setting
from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.network_options import FLINK_2_3
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.topology.job_settings import refusals_of_config

_RANGES = ("taskmanager.memory.jvm-overhead", "taskmanager.memory.network")


def contradictions(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
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

    return _refused(make, keys, settings)


def _network(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[str]:
    keys = [key for key in NETWORK_FIELDS if key in settings]
    return _refused(
        lambda: replace(FLINK_2_3, **{NETWORK_FIELDS[key]: values[key] for key in keys}), keys, settings
    )


def _refused(make: Callable[[], object], keys: list[str], settings: Mapping[str, Setting]) -> list[str]:
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
