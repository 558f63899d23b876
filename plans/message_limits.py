"""Limits on messages about a topology, which may itself be of any size."""

from collections.abc import Sequence

MOST_ERRORS = 20
"""Of one topology; how many more there are is said in their place."""

MOST_CHARACTERS = 2_000
"""Of one part of a message; more than any message of Flink that does not quote what somebody wrote."""

MOST_OF_A_NAME = 120
"""Characters of a name that a message quotes."""


def limited(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its first `most` characters and how many more there are."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def first_and_count(items: Sequence[str], separator: str = ", ", most: int = MOST_ERRORS) -> str:
    """The first items, none longer than MOST_CHARACTERS, and how many more there are."""
    more = len(items) - most
    return separator.join(map(limited, items[:most])) + (f"{separator}and {more:,} more" if more > 0 else "")
