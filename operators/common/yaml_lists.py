"""The lists that Flink writes into options: YAML's, or parts between semicolons."""

from typing import Any

from penstock.operators.common.flink_yaml import load_yaml


def parse_list(text: str | None) -> list[Any]:
    """The elements of a list in YAML ("[a, 'b', 1]", or lines that begin with "- "), or of "a;b"."""
    if not text:
        return []
    try:
        found = load_yaml(text)
    except ValueError:
        found = None
    return found if isinstance(found, list) else text.split(";")
