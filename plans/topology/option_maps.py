"""Maps of strings as values of options.

Source: ConfigurationUtils.convertToProperties.
"""

from collections.abc import Mapping

from penstock.operators.common.flink_yaml import as_option_text, load_yaml
from penstock.plans.topology.flink_values import split_escaped

_QUOTED = frozenset("'\",;: ")


def parse_map(text: str) -> dict[str, str]:
    """The entries of "a:1,b:2", or of a map in YAML. Raises ValueError for any other text."""
    if text.lstrip().startswith("{"):
        found = load_yaml(text)
        if isinstance(found, dict):
            return {as_option_text(name): as_option_text(value) for name, value in found.items()}
    pairs = [split_escaped(entry, ":") for entry in split_escaped(text, ",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("is no list of key:value")
    return {pair[0]: pair[1] for pair in pairs}


def map_text(values: Mapping[str, str]) -> str:
    """The text that `parse_map` reads back as `values`."""
    entries = (f"{_quoted(name)}:{_quoted(value)}" for name, value in values.items())
    return ",".join(map(_quoted, entries))


def _quoted(text: str) -> str:
    if text and not _QUOTED & set(text) and not text.startswith("{"):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
