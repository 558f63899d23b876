"""The lists that Flink writes into options: YAML's, or parts between semicolons."""

import re
from typing import Any

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^,]*?))\s*(?:,|$)""", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def parse_list(text: str | None) -> list[Any]:
    """The parts of "[a, 'b', 1]", of lines that begin with "- ", or of "a;b"."""
    if not text:
        return []
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        inner = stripped[1:-1].strip().removesuffix(",")
        return [_part(found) for found in _PART.finditer(inner) if found.group()] if inner else []
    lines = [line.strip() for line in stripped.splitlines()]
    if all(line.startswith("- ") for line in lines):
        return [_scalar(line[2:].strip()) for line in lines]
    return text.split(";")


def _part(found: re.Match[str]) -> Any:
    double, single, plain = found.groups()
    if double is not None:
        return re.sub(r"\\(.)", r"\1", double)
    if single is not None:
        return single.replace("''", "'")
    return _scalar(plain)


def _scalar(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
