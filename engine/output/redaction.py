"""Remove secrets of settings from texts for people.

Source: org.apache.spark.util.Utils.redact, with the options spark.redaction.regex and
spark.redaction.string.regex; GlobalConfiguration.isSensitive of Flink.
"""

import re
import sys
from collections.abc import Iterable, Mapping

from penstock.engine.machine.operating_system import overwrite_own_arguments, own_arguments
from penstock.plans.printable import printable_lines

REDACTED = "*********(redacted)"
KEY_REGEX = "spark.redaction.regex"
STRING_REGEX = "spark.redaction.string.regex"

_DEFAULT = "(?i)secret|password|token|access[.]?key"
_OF_FLINK = (
    "(?i)fs[.]azure[.]account[.]key|api-?key|auth-params|service-key|basic-auth|jaas[.]config|http-headers"
)
_SHORTEST = 4
"""Length from which a secret is searched anywhere in a text; shorter ones are part of ordinary words."""

_ORDINARY = frozenset({"true", "false", "none", "null"})
_PAIR = re.compile(
    r"""(?P<key>[^\s=,;:'"(){}\[\]]+)(?P<equals>=)(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;'")\]}]+)"""
)

_secret_keys: list[re.Pattern[str]] = [re.compile(_DEFAULT), re.compile(_OF_FLINK)]
_secret_strings: list[re.Pattern[str]] = []
_secret_values: set[str] = set()


def remember_secrets(settings: Mapping[str, str]) -> None:
    """Hide the secret values among `settings` in all later calls of `redact`, even without their keys.

    Redaction settings among them add to Spark's default: a key or a text is hidden if any regex that was ever
    set matches.
    """
    for option, regexes in ((KEY_REGEX, _secret_keys), (STRING_REGEX, _secret_strings)):
        text = settings.get(option)
        if text:
            regex = _compiled(text)
            if regex not in regexes:
                regexes.append(regex)
    for key, value in ((key, str(value)) for key, value in settings.items()):
        if _is_secret(key, value) and len(value) >= _SHORTEST and value.lower() not in _ORDINARY:
            _secret_values.update((value, repr(value)[1:-1], printable_lines(value)))


def remember_secret_arguments(arguments: Iterable[str]) -> None:
    """Remember secrets of a command line: KEY=VALUE, -DKEY=VALUE and --option=KEY=VALUE."""
    pairs = [pair for argument in arguments for pair in _pairs(argument)]
    remember_secrets(dict(pairs))


def secret_part(argument: str) -> str:
    """Return the secret value at the end of a command line argument; empty if it has none."""
    return next((value for key, value in reversed(_pairs(argument)) if _is_secret(key, value)), "")


def redact_value(key: str, value: str) -> str:
    """Return a setting's `value`, or its replacement if it is secret."""
    return REDACTED if _is_secret(key, value) else redact(value)


def redact(text: str) -> str:
    """Remove values of secret keys, remembered values, and matches of regexes from a message."""
    for value in sorted(_secret_values, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    text = _PAIR.sub(_without_value, text)
    for regex in _secret_strings:
        text = regex.sub(REDACTED, text)
    return text


def _is_secret(key: str, value: str) -> bool:
    """Return whether Spark treats a value as secret, because key or value looks like a secret's name."""
    return any(regex.search(key) or regex.search(value) for regex in _secret_keys)


def _pairs(argument: str) -> list[tuple[str, str]]:
    key, equals, value = argument.partition("=")
    pair = [(key, value)] if equals else []
    return pair + _pairs(value) if key.startswith("--") else pair


def _without_value(pair: re.Match[str]) -> str:
    key, value = pair["key"], pair["value"]
    hidden = value.startswith(REDACTED.removesuffix(")"))  # a value ends before a parenthesis
    if hidden or not any(regex.search(key) for regex in _secret_keys):
        return pair.group()
    return f"{key}={REDACTED}"


def _compiled(regex: str) -> re.Pattern[str]:
    """Compile a Java regex; a regex that Python does not understand matches every text, which is safe."""
    try:
        return re.compile(regex)
    except re.error:
        return re.compile("(?s).+")


# Secrets on Penstock's own command line, which every user of a machine can read while it runs.


def mask_arguments() -> bool:
    """Overwrite the secret values of this process's arguments, as `ps` shows them, with asterisks.

    `sys.argv` is unchanged. Until the call, the values are visible. Values in `--properties-file` are never
    visible. Returns False if there are secrets that the system cannot hide: only Linux can.
    """
    arguments = own_arguments()
    if not arguments:
        return not any(map(secret_part, sys.argv[1:]))
    masked = []
    for argument in arguments:
        secret = secret_part(argument.decode(errors="surrogateescape"))
        size = len(secret.encode(errors="surrogateescape")) if secret else 0
        masked.append(argument[: len(argument) - size] + b"*" * size)
    overwrite_own_arguments(masked)
    return True
