"""Settings in a YAML file, each with its line.

Source: GlobalConfiguration.loadYAMLResource, GlobalConfiguration.flatten, YamlParserUtils.
"""

import os
import stat
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from penstock.engine.configuration.cluster_options import Level, Setting
from penstock.operators.common.flink_yaml import as_option_text, core_schema_loader
from penstock.plans.importing.bounds import BoundError, require_bounded_yaml

LARGEST_BYTES = 3 << 20
"""Most bytes that snakeyaml reads of one file."""

_MOST_SETTINGS = 2_000
_DEEPEST = 50
_TEXT_TAG = "tag:yaml.org,2002:str"
_NULL_TAG = "tag:yaml.org,2002:null"


class Read(NamedTuple):
    """The settings of a file, in its order, and what is wrong with it, each with its place."""

    settings: list[Setting]
    problems: list[str]


class _Problem(Exception):
    """Why a file, or a value in it, cannot be read; `line` counts from 1."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def read_yaml_settings(path: str) -> Read:
    """The settings of one file. Maps in maps become keys with dots between; lists are texts in YAML.

    A key that is there twice is two settings. Nothing of a file's values is in `problems`. Of a file that
    holds too much, that alone is said.
    """
    settings: list[Setting] = []
    problems: list[str] = []
    try:
        root = _root(_text(path))
        if root is None:  # nothing, or comments only
            return Read([], [])
        for setting in _settings(root[0], root[1], path, "", (), count(1)):
            if isinstance(setting, str):
                problems.append(setting)
            else:
                settings.append(setting)
    except _Problem as problem:
        place = path if problem.line is None else f"{path}:{problem.line}"
        return Read([], [f"{place}: {problem}"])
    return Read(settings, problems)


def _text(path: str) -> str:
    try:
        # Opening a pipe would wait for its writer.
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
    """The map of a file, and the loader that constructs values of it."""
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
    """The settings in a map and in the maps in it, and what is wrong with others. `number` counts entries,
    those of an alias each time: a few lines of aliases of aliases stand for billions.
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
                yield f"{place}: {key}: an alias of the map that it is in"
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
    """Why a value cannot be constructed, without the value."""
    problem = getattr(error, "problem", None)
    return f"its value is not YAML: {problem}" if problem else "its value is not YAML"
