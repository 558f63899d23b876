"""Limits on messages about one topology, however large the topology is."""

from collections.abc import Sequence

MOST_ERRORS = 20
"""Errors shown of one topology; the others are counted."""

MOST_CHARACTERS = 2_000
"""The longest part of a message; longer than every message of Flink that quotes no user text."""

MOST_OF_A_NAME = 120
"""Characters of a name that a message quotes."""


def limited(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its first `most` characters and how many more there are."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def first_and_count(items: Sequence[str], separator: str = ", ", most: int = MOST_ERRORS) -> str:
    """The first items, none longer than MOST_CHARACTERS, and how many more there are."""
    more = len(items) - most
    return separator.join(map(limited, items[:most])) + (f"{separator}and {more:,} more" if more > 0 else "")
