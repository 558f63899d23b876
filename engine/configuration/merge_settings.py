"""Settings of all levels as one setting per option, and every contradiction among them."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from penstock.engine.configuration.model import OPTIONS
from penstock.engine.configuration.option import Option
from penstock.engine.configuration.setting import Setting
from penstock.plans.topology.option_maps import map_text, parse_map

_BY_KEY = {key: option for option in OPTIONS for key in (option.key, *option.deprecated)}
_MAPS = {option.key: option for option in OPTIONS if option.is_map}


class Merged(NamedTuple):
    """One setting per key, those that it replaces, and what is wrong."""

    settings: dict[str, Setting]
    overridden: dict[str, tuple[Setting, ...]]
    problems: list[str]


def option_of(key: str) -> Option | None:
    """The option that a key sets: by its own key, by a deprecated one, or as an entry of a map."""
    return _BY_KEY.get(key) or _MAPS.get(_map_of(key) or "")


def merge_settings(settings: Iterable[Setting]) -> Merged:
    """The highest level wins. Within one, an option is set once; a map by its entries, or as a whole.

    -D and the environment give one setting per key. In: settings of any levels; lists are in order of files.
    """
    problems: list[str] = []
    found: dict[str, Setting] = {}
    overridden: dict[str, list[Setting]] = {}
    entries: dict[str, dict[str, str]] = {}
    ordered = sorted(settings, key=lambda one: one.level)
    for _, of_level in groupby(ordered, key=lambda one: one.level):
        by_key: dict[str, list[Setting]] = {}
        for setting in of_level:
            option = option_of(setting.key)
            by_key.setdefault(setting.key if option is None else option.key, []).append(setting)
        for key, several in by_key.items():
            if key in _MAPS:
                problems += _twice(several)
                setting = _as_map(key, several, found.get(key), entries, problems)
            else:
                problems += _twice(several) or _under_two_keys(key, several)
                setting = several[-1]
            if key in found:
                overridden.setdefault(key, []).insert(0, found[key])
            found[key] = setting
    return Merged(found, {key: tuple(of_key) for key, of_key in overridden.items()}, problems)


def _map_of(key: str) -> str | None:
    return next((one for one in _MAPS if key.startswith(f"{one}.")), None)


def _twice(several: list[Setting]) -> list[str]:
    """The same key more than once at one level."""
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
        f"{one.place}: {one.key} and {first.key} ({first.place}) set the same option; set {key} alone"
        for one in others
    ]


def _as_map(
    key: str,
    several: list[Setting],
    lower: Setting | None,
    entries: dict[str, dict[str, str]],
    problems: list[str],
) -> Setting:
    """The map after one level: as it is given as a whole, or its entries over those of lower levels."""
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
            return whole[-1]  # the option's own parser says what is wrong
    of_key = entries.setdefault(key, {})
    of_key |= {setting.key[len(key) + 1 :]: setting.text for setting in single}
    places = dict.fromkeys(setting.place for setting in several)
    kept = [] if whole or lower is None else [lower.place]
    return Setting(key, map_text(of_key), several[-1].level, ", ".join([*places, *kept]))


def texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Key to text."""
    return {key: setting.text for key, setting in settings.items()}
