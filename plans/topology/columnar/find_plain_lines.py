"""Finds the lines of a text, and those that can be read all at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.compiled import compiled

Bytes = npt.NDArray[np.uint8]

_NEVER_PLAIN = ("stream_graph", "pre_write", "pre_commit", "post_commit")


class FoundLines(NamedTuple):
    """The lines of a text. One value per line, except `text` and `keys`.

    text: the text, with spaces in place of configurations. starts, ends: where a line begins, and where its
    newline is. is_plain: see find_plain_lines. config_starts, config_ends: the bounds of the configuration,
    an object; both 0 if there is none. keys: the requested keys that occur in the text.
    """

    text: Bytes
    starts: Ints
    ends: Ints
    is_plain: Flags
    config_starts: Ints
    config_ends: Ints
    keys: frozenset[str]


def find_plain_lines(data: bytes, keys: Sequence[str]) -> FoundLines:
    """The lines of `data`, each of which has its newline, and which of `keys` are somewhere in it.

    A plain line begins and ends with a brace, has no zero byte, no stream graph, no steps of a sink, no
    `null` outside its configuration, and at most one configuration, an object. Plain lines may be wrong. The
    part taken as the configuration is one if the rest of the line, with an empty object in its place, turns
    out right, since only a key can stand before a colon. It may itself be wrong.
    """
    text = np.frombuffer(data, np.uint8).copy()
    count = data.count(b"\n")
    ends, config_starts, config_ends = (np.zeros(count, np.int64) for _ in range(3))
    is_plain = np.ones(count, np.bool_)
    compiled(_cut_configs)(text, _quoted(["config"])[0], ends, config_starts, config_ends, is_plain)
    starts = np.append(0, ends + 1)[:-1]
    characters = _quoted([*_NEVER_PLAIN, *keys])
    has_key = np.zeros(len(characters), np.bool_)
    not_plain = len(_NEVER_PLAIN)
    compiled(_look_for_surprises)(text, starts, ends, characters, not_plain, is_plain, has_key)
    present_keys = frozenset(key for key, has in zip(keys, has_key[not_plain:].tolist(), strict=True) if has)
    return FoundLines(text, starts, ends, is_plain, config_starts, config_ends, present_keys)


def _quoted(keys: Sequence[str]) -> Bytes:
    """Each key in quotes, newlines after it."""
    width = max(map(len, keys)) + 3
    return np.frombuffer(b"".join(f'"{key}"'.ljust(width, "\n").encode() for key in keys), np.uint8).reshape(
        len(keys), width
    )


def _cut_configs(
    text: Bytes, key: Bytes, ends: Ints, config_starts: Ints, config_ends: Ints, is_plain: Flags
) -> None:
    """The loop that finds lines and configurations. Neither loop checks bounds: the last character is a
    newline, which stops them. A line found not to be plain is skipped, because each further configuration
    could be searched for up to its end."""
    at = line = 0
    while at < len(text):
        if text[at] == 0x0A:
            ends[line] = at
            line += 1
        elif text[at] == 0x22 and is_plain[line]:
            place = 1
            while text[at + place] == key[place] != 0x0A:
                place += 1
            if key[place] == 0x0A:
                end = at + place
                while text[end] == 0x20 or text[end] == 0x09 or text[end] == 0x0D:
                    end += 1
                if text[end] == 0x3A:
                    end += 1
                    while text[end] == 0x20 or text[end] == 0x09 or text[end] == 0x0D:
                        end += 1
                    first, depth, in_string = end, 1, False
                    end += text[first] == 0x7B
                    while depth and text[end] != 0x0A:
                        if text[end] == 0x22:
                            in_string = not in_string
                        elif text[end] == 0x5C and text[end + 1] != 0x0A:
                            end += 1
                        elif not in_string:
                            depth += (text[end] == 0x7B) - (text[end] == 0x7D)
                        end += 1
                    if depth or text[first] != 0x7B or config_ends[line]:
                        is_plain[line] = False
                    else:
                        config_starts[line], config_ends[line] = first, end
                        text[first + 1 : end - 1] = 0x20
                        at = end - 1
        at += 1


def _look_for_surprises(
    text: Bytes, starts: Ints, ends: Ints, keys: Bytes, not_plain: int, is_plain: Flags, has_key: Flags
) -> None:
    """The loop that looks at what is left. Lines with one of the first keys, `not_plain`, are not plain."""
    for line in range(len(ends)):
        for at in range(starts[line], ends[line]):
            if text[at] == 0x22:
                for key in range(len(keys)):
                    place = 1
                    while text[at + place] == keys[key, place] != 0x0A:
                        place += 1
                    if keys[key, place] == 0x0A:
                        has_key[key] = True
                        is_plain[line] &= key >= not_plain
            elif text[at] == 0x6E:
                if text[at + 1] == 0x75 and text[at + 2] == 0x6C and text[at + 3] == 0x6C:
                    is_plain[line] = False
            elif text[at] == 0:
                is_plain[line] = False
        first, last = starts[line], ends[line] - 1
        while text[first] == 0x20 or text[first] == 0x09 or text[first] == 0x0D:
            first += 1
        while first < last and (text[last] == 0x20 or text[last] == 0x09 or text[last] == 0x0D):
            last -= 1
        is_plain[line] &= first < last and text[first] == 0x7B and text[last] == 0x7D
