"""The bytes of a topology line without surprises as one automaton: what `scan_lines` walks through.

It takes lines of `transformations` whose keys are known and spelled plainly, and whose values have the right
form: all that can be said byte by byte. Values that are rare are taken as the text between their brackets,
strings as the text between their quotes, escapes and all. It refuses whatever it is not made for, right or
wrong (floats, large numbers, null, stream graphs): the validation of single lines looks at that.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plans.vocabulary import ChainingStrategy, Kind, Partitioner, StreamExchangeMode

ENUMS: dict[str, tuple[str, ...]] = {
    "kind": tuple(map(str, Kind)),
    "chaining": tuple(map(str, ChainingStrategy)),
    "partitioner": tuple(map(str, Partitioner)),
    "exchange_mode": tuple(map(str, StreamExchangeMode)),
}
NUMBERS = ("id", "parallelism", "max_parallelism", "buffer_timeout")
STRINGS = ("name", "uid", "uid_hash", "slot_sharing_group", "co_location_group", "tag")
NESTED = ("managed_memory", "slot_scope", "min_resources", "preferred_resources", "names")
INPUTS = "inputs"

# Columns of `scan_lines`: codes and numbers, then texts; those of lines behind those of transformations.
CODES = (*ENUMS, *NUMBERS)
TEXTS = (*STRINGS, *NESTED)
KEYS = (*CODES, *TEXTS, INPUTS)
LINE_KEYS = ("parallelism", "max_parallelism", "chaining", "name", "config", "transformations")
LINE_CODES, LINE_TEXTS = LINE_KEYS[:3], LINE_KEYS[3:5]

# What `scan_lines` does when it comes into a state.
(
    GO_ON,
    KEY,
    LINE_KEY,
    CODE,
    LINE_CODE,
    DIGIT,
    LINE_DIGIT,
    TEXT,
    TEXT_END,
    LINE_TEXT_END,
    INPUT,
    INPUT_DIGIT,
    OPEN,
    CLOSE,
    LINE_CLOSE,
    LINE_END,
    REFUSE,
) = range(17)

_SPACES = b" \t\r"
_DIGITS, _POSITIVE = b"0123456789", b"123456789"
_HEX = b"0123456789abcdefABCDEF"
_IN_STRINGS = bytes(byte for byte in range(0x20, 0x100) if byte not in b'"\\')
_IN_BRACKETS = bytes(byte for byte in (*_SPACES, *range(0x21, 0x7F)) if byte not in b'"\\[]{}')
_ANYTHING = bytes(byte for byte in range(0x100) if byte != 0x0A)

States = npt.NDArray[np.uint16]
Actions = npt.NDArray[np.int16]


class Automaton(NamedTuple):
    """Per state and byte the next state; per state what to do there, for which column, with which value."""

    following: States
    actions: Actions
    columns: Actions
    values: Actions


REFUSED, START = 0, 1
"""States: in a line that is refused, and at the start of a line."""


class _States:
    """States under construction."""

    def __init__(self) -> None:
        self.following: list[list[int]] = []
        self.of_states: list[tuple[int, int, int]] = []

    def new(self, action: int = GO_ON, column: int = 0, value: int = 0) -> int:
        self.following.append([REFUSED] * 256)
        self.of_states.append((action, column, value))
        return len(self.following) - 1

    def on(self, state: int, signs: bytes, target: int) -> int:
        for sign in signs:
            self.following[state][sign] = target
        return target

    def spaced(self) -> int:
        """A state that passes over spaces."""
        state = self.new()
        self.on(state, _SPACES, state)
        return state

    def words(self, state: int, words: Mapping[bytes, int]) -> None:
        """From `state` through each word to the state behind it."""
        for word, target in words.items():
            at = state
            for sign in word[:-1]:
                known = self.following[at][sign]
                at = known if known != REFUSED else self.on(at, bytes([sign]), self.new())
            self.on(at, word[-1:], target)

    def string_body(self, state: int, end: int) -> None:
        """What may stand between quotes goes on in `state`, the closing one leads to `end`."""
        escape = self.new()
        self.on(state, _IN_STRINGS, state)
        self.on(self.on(state, b"\\", escape), bytes(range(0x20, 0x100)), state)
        self.on(state, b'"', end)


Value = Callable[[_States, int, list[int]], None]
"""Adds the states of a value that starts in a state; gives the last ones, where it may be over."""


@cache
def line_automaton() -> Automaton:
    """Of whole files: each line starts and ends in START."""
    states = _States()
    refused = states.new(REFUSE)
    start = states.new(LINE_END)
    blank, close, tail = states.spaced(), states.new(LINE_CLOSE), states.spaced()
    states.on(refused, _ANYTHING, refused)
    for before in (start, blank):
        states.on(before, _SPACES, blank)
        states.on(before, b"{", _object(states, LINE_KEYS, LINE_KEY, _line_values(), close))
    states.on(close, _SPACES, tail)
    for following in states.following:
        following[0x0A] = start
    actions, columns, values = (
        np.array(of_states, np.int16) for of_states in zip(*states.of_states, strict=True)
    )
    return Automaton(np.array(states.following, np.uint16), actions, columns, values)


def _line_values() -> list[Value]:
    return [
        _number(LINE_DIGIT, 0),
        _number(LINE_DIGIT, 1),
        _words({b"false": 0, b"true": 1}, LINE_CODE, 2),
        _string(LINE_TEXT_END, 0, empty=False),
        _brackets(b"{", b"}", LINE_TEXT_END, 1),
        _transformations,
    ]


def _values() -> list[Value]:
    """Those of KEYS."""
    enums = [
        _words({f'"{word}"'.encode(): code for code, word in enumerate(words)}, CODE, column)
        for column, words in enumerate(ENUMS.values())
    ]
    numbers = [_number(DIGIT, CODES.index(name), timeout=name == "buffer_timeout") for name in NUMBERS]
    strings = [
        _hex(column) if name == "uid_hash" else _string(TEXT_END, column, empty=name != "tag")
        for column, name in enumerate(STRINGS)
    ]
    nested = [
        _brackets(
            *((b"[", b"]") if name in ("slot_scope", "names") else (b"{", b"}")), TEXT_END, TEXTS.index(name)
        )
        for name in NESTED
    ]
    return [*enums, *numbers, *strings, *nested, _inputs]


def _object(states: _States, keys: Iterable[str], action: int, values: Iterable[Value], close: int) -> int:
    """The state behind the opening brace of an object that is not empty."""
    opened, after, following = states.spaced(), states.spaced(), states.spaced()
    quoted = states.new()
    for before in (opened, following):
        states.on(before, b'"', quoted)
    words = {}
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        found, colon, at = states.new(action, number), states.spaced(), states.spaced()
        words[key.encode() + b'"'] = found
        states.on(found, _SPACES, colon)
        states.on(found, b":", at)
        states.on(colon, b":", at)
        last: list[int] = []
        value(states, at, last)
        for end in last:
            states.on(end, _SPACES, after)
            states.on(end, b",", following)
            states.on(end, b"}", close)
    states.words(quoted, words)
    states.on(after, b",", following)
    states.on(after, b"}", close)
    return opened


def _transformations(states: _States, at: int, last: list[int]) -> None:
    """A list of one object or more."""
    opened, following, after = states.spaced(), states.spaced(), states.spaced()
    begin, close, end = states.new(OPEN), states.new(CLOSE), states.new()
    inside = _object(states, KEYS, KEY, _values(), close)
    states.following[begin] = states.following[inside]
    states.on(at, b"[", opened)
    for before in (opened, following):
        states.on(before, b"{", begin)
    states.on(close, _SPACES, after)
    for before in (close, after):
        states.on(before, b",", following)
        states.on(before, b"]", end)
    last.append(end)


def _number(action: int, column: int, *, timeout: bool = False) -> Value:
    """An integer from 1 on, a timeout from -1."""

    def add(states: _States, at: int, last: list[int]) -> None:
        # A first digit starts anew: its value says so.
        first, more = states.new(action, column, 0), states.new(action, column, 10)
        states.on(at, _POSITIVE, first)
        for digits in (first, more):
            states.on(digits, _DIGITS, more)
        last += [first, more]
        if timeout:
            zero, minus, one = states.new(CODE, column, 0), states.new(), states.new(CODE, column, -1)
            states.on(at, b"0", zero)
            states.on(states.on(at, b"-", minus), b"1", one)
            last += [zero, one]

    return add


def _words(words: Mapping[bytes, int], action: int, column: int) -> Value:
    def add(states: _States, at: int, last: list[int]) -> None:
        ends = {word: states.new(action, column, code) for word, code in words.items()}
        states.words(at, ends)
        last += ends.values()

    return add


def _string(action: int, column: int, *, empty: bool) -> Value:
    def add(states: _States, at: int, last: list[int]) -> None:
        opened, body, end = states.new(TEXT, value=1), states.new(), states.new(action, column)
        states.string_body(body, end)
        states.on(at, b'"', opened)
        states.following[opened] = list(states.following[body])
        if not empty:
            states.following[opened][ord('"')] = REFUSED
        last.append(end)

    return add


def _hex(column: int) -> Value:
    """32 hex digits in quotes."""

    def add(states: _States, at: int, last: list[int]) -> None:
        state = states.on(at, b'"', states.new(TEXT, value=1))
        for _ in range(32):
            state = states.on(state, _HEX, states.new())
        last.append(states.on(state, b'"', states.new(TEXT_END, column)))

    return add


def _brackets(opening: bytes, closing: bytes, action: int, column: int) -> Value:
    """Anything that has no brackets inside but in strings; the text is all of it."""

    def add(states: _States, at: int, last: list[int]) -> None:
        opened, body, quoted = states.new(TEXT), states.new(), states.new()
        end = states.new(action, column, 1)
        states.string_body(quoted, body)
        states.on(at, opening, opened)
        for inside in (opened, body):
            states.on(inside, _IN_BRACKETS, body)
            states.on(inside, b'"', quoted)
            states.on(inside, closing, end)
        last.append(end)

    return add


def _inputs(states: _States, at: int, last: list[int]) -> None:
    """A list of integers from 1 on, or none."""
    opened, following, after = states.spaced(), states.spaced(), states.spaced()
    first, more, end = states.new(INPUT), states.new(INPUT_DIGIT), states.new()
    states.on(at, b"[", opened)
    for before in (opened, following):
        states.on(before, _POSITIVE, first)
    for digits in (first, more):
        states.on(digits, _DIGITS, more)
        states.on(digits, _SPACES, after)
    for before in (first, more, after):
        states.on(before, b",", following)
        states.on(before, b"]", end)
    states.on(opened, b"]", end)
    last.append(end)
