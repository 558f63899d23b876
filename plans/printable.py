"""Foreign text (names, paths, messages of others) in a form that terminals display and never obey."""

import re
from collections.abc import Sequence

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # control codes: C0, DEL, C1
    "\xad\u180e\u200b\u2060-\u2065\ufeff\ufff9-\ufffb"  # invisible
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # change the direction of the text after them
    "\u2028\u2029"  # end a line
    "\ud800-\udfff"  # lone surrogates, such as bytes of a file name that are not UTF-8
    "\U000e0000-\U000e007f"  # tags: a second, invisible ASCII
)
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
_HIDDEN_CHARACTER = re.compile(f"{_FLAG}|[{_HIDDEN}]")
_AMBIGUOUS_BACKSLASH = re.compile(rf"\\(?=[\\xuUntr]|[{_HIDDEN}])")
_BEYOND_ASCII_IN_JSON = re.compile(f"[{_HIDDEN}]".replace("\x00-\x1f", ""))
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def printable(text: str) -> str:
    r"""Return `text` on one line, with each character that a terminal obeys or hides replaced by an escape.

    Control codes, line ends, marks of direction, invisible characters and lone surrogates become \\n, \\t,
    \\r, \\x1b, \\u202e or \\U000e0041, as in Python. Everything else stays, including every script and all
    emoji. Two different texts never look alike: a backslash is doubled if it would read as such an escape.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text  # most names are printable: a tenth of the time
    return _HIDDEN_CHARACTER.sub(_escaped, _AMBIGUOUS_BACKSLASH.sub(r"\\\\", text))


def printable_lines(text: str) -> str:
    """Make a message of several lines printable; its line feeds and backslashes stay.

    Foreign text in the message has been escaped before, so its backslashes are escapes.
    """
    return "\n".join(_HIDDEN_CHARACTER.sub(_escaped, line) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """Return equivalent JSON text with JSON's own escapes for the characters that `printable` escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _BEYOND_ASCII_IN_JSON.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    if len(character) > 1:
        return character
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped_in_json(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


_ESCAPE = re.compile(r"\\(?:[\\ntr]|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_LONG = {f"\\{escape[1]}": character for character, escape in _SHORT.items()} | {"\\\\": "\\"}


def unprintable(text: str) -> str:
    """Return the original text of a result of `printable`."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _LONG[match[0]]
    return chr(int(code, 16)) if int(code, 16) < 0x110000 else match[0]


def reason_of(error: Exception) -> str:
    """Return the first line of an error's message, or the place of the first byte that is not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    return (str(error).splitlines() or [type(error).__name__])[0]


_JAVA_CLASS = re.compile(
    # packages of the JVM's libraries only: a class of a user's Python package keeps its name
    r"(?<![\w.])(?:scala|(?:javax?|jdk|sun|org|com|io|net|py4j)\.[a-z_][a-z0-9_]*)\."
    r"(?:[a-z_][a-z0-9_]*\.)*(?:\w+\$)*(?P<name>(?:[A-Z]\w*?)?)(?:Exception|Error)\b(?P<colon>(?:: )?)"
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WITHOUT_MEANING = ("", "Runtime", "Spark", "Execution", "UncheckedExecution", "IO", "UncheckedIO")


def without_java_classes(text: str) -> str:
    """Return a message of Java with its exceptions in words: "file not found: x" of FileNotFoundException."""
    return _JAVA_CLASS.sub(_in_words, text)


def _in_words(match: re.Match[str]) -> str:
    if match["name"] in _WITHOUT_MEANING and match["colon"]:
        return ""
    words = [word if word.isupper() else word.lower() for word in _WORD.findall(match["name"])]
    return " ".join([*words, "error"] if len(words) < 2 else words) + match["colon"]


MOST_ERRORS = 20
"""Errors listed per topology; further ones are counted."""

MOST_CHARACTERS = 2_000
"""The longest part of a message; longer than any message of Flink that quotes no user text."""

MOST_OF_A_NAME = 120
"""Characters of a name that a message quotes."""


def limited(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return `text`, or its first `most` characters and the number of further ones."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def first_and_count(items: Sequence[str], separator: str = ", ", most: int = MOST_ERRORS) -> str:
    """Join the first items, each cut to MOST_CHARACTERS, and append the number of further ones."""
    more = len(items) - most
    return separator.join(map(limited, items[:most])) + (f"{separator}and {more:,} more" if more > 0 else "")
