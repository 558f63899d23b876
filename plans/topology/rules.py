"""Rules for the keys of one JSON object, each with a quick test of a value and the errors if it fails."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from penstock.plans.errors import EACH_NAME_ONCE, RENAME_ONE, ErrorKind, TopologyError

# Allowed values and hints for errors in rows of given tables.


ALLOWED_AND_HINT = {
    ErrorKind.NO_TOPOLOGY: (
        "a topology_id of topologies",
        "topology_id is the xxhash64 of the topology's name",
    ),
    ErrorKind.TOPOLOGY_ID_MISMATCH: (
        "the xxhash64 of the topology's name",
        "compute it with Spark's xxhash64(name), or leave the column out",
    ),
    ErrorKind.DUPLICATE_TOPOLOGY_NAME: (EACH_NAME_ONCE, RENAME_ONE),
    ErrorKind.UNKNOWN_VALUE: (
        "form transformations, or no column form",
        "give a stream graph as a line of a topology file",
    ),
    ErrorKind.TOPOLOGY_ID_COLLISION: ("each topology_id once in a run", RENAME_ONE),
}
"""By kind, for errors in a topology's own row."""


INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_LONGEST_MISSPELLED = 100
_MOST_SUGGESTIONS = 20
"""Unknown keys per object that get a suggestion; each look-up takes a millisecond."""

_JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
    type(None): "null",
}


class Rule(NamedTuple):
    """The values a key accepts: `accepts` is a quick test; `explain(location, key, value)` returns the
    errors.
    """

    accepts: Callable[[Any], bool]
    explain: Callable[[str, str, Any], list[TopologyError]]
    allowed: str


Rules = Mapping[str, Rule]


def shorten(value: Any, limit: int = 120) -> str:
    """Return the value as an error quotes it, never longer than a line."""
    text = _start_of_repr(value, limit)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _start_of_repr(value: Any, least: int) -> str:
    """Return the value's repr, or a prefix of it longer than `least`; repr itself recurses and
    is complete.
    """
    written: list[str] = []
    size = 0
    pending: list[Any] = [value]
    while pending and size <= least:
        item = pending.pop()
        match item:
            case _Verbatim(text):
                piece = text
            case str():
                piece = repr(item[: least + 1])
            case list():
                piece = "["
                pending += _in_reverse("]", ((entry,) for entry in islice(item, least)))
            case dict():
                piece = "{"
                pairs = islice(item.items(), least)
                pending += _in_reverse("}", ((key, _Verbatim(": "), entry) for key, entry in pairs))
            case _:
                piece = repr(item)
        written.append(piece)
        size += len(piece)
    return "".join(written)


class _Verbatim(NamedTuple):
    """Text among values that is output without quotes."""

    text: str


def _in_reverse(end: str, entries: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the parts of a list or object from its end to its beginning, with commas."""
    parts = [part for entry in entries for part in (_Verbatim(", "), *entry)]
    return [_Verbatim(end), *reversed(parts[1:])]


def json_type(value: Any) -> str:
    """Return the JSON name of a value's type."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


def suggestion(word: str, words: Iterable[str]) -> str:
    """Return a hint that names the closest allowed words, or "" if none is close."""
    if len(word) > _LONGEST_MISSPELLED:
        return ""
    return _suggestion(word, tuple(words))


@lru_cache(maxsize=1024)
def _suggestion(word: str, words: tuple[str, ...]) -> str:
    """Cached: all lines of a file often share a mistake, and difflib takes 50 microseconds for it."""
    known = {w.lower(): w for w in words}
    close = get_close_matches(word.lower(), known, n=2, cutoff=0.6)
    return "" if not close else "did you mean " + " or ".join(known[c] for c in close) + "?"


def wrong_type(location: str, key: str, value: Any, allowed: str, hint: str = "") -> TopologyError:
    """Return the error for a value whose JSON type the key does not accept."""
    return TopologyError(
        ErrorKind.WRONG_TYPE, location, f"{key} {shorten(value)} ({json_type(value)})", allowed, hint
    )


def integer(low: int, high: int, allowed: str = "") -> Rule:
    """Return a rule for an integer in [low, high]; booleans do not count as integers."""
    text = allowed or f"an integer from {low} to {high}"

    def accepts(value: Any) -> bool:
        return type(value) is int and low <= value <= high

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is int:
            return [TopologyError(ErrorKind.OUT_OF_RANGE, location, f"{key} {value}", text, "")]
        return [
            wrong_type(location, key, value, text, "write it without quotes" if type(value) is str else "")
        ]

    return Rule(accepts, explain, text)


def boolean() -> Rule:
    """Return a rule for true or false."""
    text = "true or false"

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        return [
            wrong_type(location, key, value, text, "write it without quotes" if type(value) is str else "")
        ]

    return Rule(lambda value: value is True or value is False, explain, text)


def text(allowed: str = "a string", test: Callable[[str], bool] | None = None) -> Rule:
    """Return a rule for a string that passes `test`, if given."""

    def accepts_any(value: Any) -> bool:
        return type(value) is str

    def accepts(value: Any) -> bool:
        return type(value) is str and test is not None and test(value)

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is str:
            return [TopologyError(ErrorKind.OUT_OF_RANGE, location, f"{key} {shorten(value)}", allowed, "")]
        hint = "leave the key out if it is not set" if value is None else ""
        return [wrong_type(location, key, value, allowed, hint)]

    return Rule(accepts_any if test is None else accepts, explain, allowed)


def one_of(values: Iterable[str], error: ErrorKind = ErrorKind.UNKNOWN_VALUE) -> Rule:
    """Return a rule for a string of a closed vocabulary."""
    vocabulary = tuple(str(v) for v in values)
    members, listed = frozenset(vocabulary), ", ".join(vocabulary)

    def accepts(value: Any) -> bool:
        return type(value) is str and value in members

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not str:
            return [wrong_type(location, key, value, listed)]
        return [
            TopologyError(error, location, f"{key} {shorten(value)}", listed, suggestion(value, vocabulary))
        ]

    return Rule(accepts, explain, listed)


def nullable(rule: Rule) -> Rule:
    """Return a rule for null and any value that `rule` accepts."""

    def accepts(value: Any) -> bool:
        return value is None or rule.accepts(value)

    return Rule(accepts, rule.explain, f"{rule.allowed}, or null")


def list_of(item: Rule, allowed: str) -> Rule:
    """Return a rule for a list whose values `item` accepts."""

    def accepts(value: Any) -> bool:
        return type(value) is list and all(map(item.accepts, value))

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not list:
            return [wrong_type(location, key, value, allowed)]
        return [
            error
            for position, entry in enumerate(value)
            if not item.accepts(entry)
            for error in item.explain(location, f"{key}[{position}]", entry)
        ]

    return Rule(accepts, explain, allowed)


def mapping(key_rule: Rule, value_rule: Rule, allowed: str) -> Rule:
    """Return a rule for an object whose keys `key_rule` and values `value_rule` accept."""

    def accepts(value: Any) -> bool:
        return (
            type(value) is dict
            and all(map(key_rule.accepts, value))
            and all(map(value_rule.accepts, value.values()))
        )

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not dict:
            return [wrong_type(location, key, value, allowed)]
        errors: list[TopologyError] = []
        for name, entry in value.items():
            if not key_rule.accepts(name):
                errors += key_rule.explain(location, f"{key} key", name)
            if not value_rule.accepts(entry):
                errors += value_rule.explain(location, f"{key}.{name}", entry)
        return errors

    return Rule(accepts, explain, allowed)


def explain_keys(
    entry: Mapping[str, Any], rules: Rules, required: Iterable[str], location: str
) -> list[TopologyError]:
    """Return an error for every unknown key, every rejected value and every missing required key."""
    errors: list[TopologyError] = []
    allowed = ", ".join(rules)
    for key, value in entry.items():
        rule = rules.get(key)
        if rule is None:
            hint = suggestion(key, rules) if len(errors) < _MOST_SUGGESTIONS else ""
            errors.append(
                TopologyError(ErrorKind.UNKNOWN_KEY, location, f"key {shorten(key)}", allowed, hint)
            )
        elif not rule.accepts(value):
            errors += rule.explain(location, key, value)
    errors += [
        TopologyError(ErrorKind.MISSING_KEY, location, f"no {key}", rules[key].allowed, f"add {key}")
        for key in required
        if key not in entry
    ]
    return errors


def keys_hold(entry: Mapping[str, Any], rules: Rules, required: Iterable[str]) -> bool:
    """Return whether `explain_keys` would return no errors."""
    for key, value in entry.items():
        rule = rules.get(key)
        if rule is None or not rule.accepts(value):
            return False
    return all(key in entry for key in required)
