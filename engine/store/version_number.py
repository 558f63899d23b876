"""The number of a version, as a write gives it."""

from typing import Self


class VersionNumber(int):
    """The number of the version that holds what was to be written.

    `unchanged`: the store held it already, and nothing was written.
    """

    unchanged: bool

    def __new__(cls, number: int, unchanged: bool = False) -> Self:
        """`number`, which stays a number in every other way."""
        made = super().__new__(cls, number)
        made.unchanged = unchanged
        return made

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        return f"{int(self)} (unchanged)" if self.unchanged else str(int(self))
