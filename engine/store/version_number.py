"""The number of a version, as a write gives it."""

import re
from datetime import UTC, datetime
from typing import Self


class VersionNumber(int):
    """The number of the version that holds what was to be written.

    `unchanged`: the store held it already, and nothing was written.
    """

    unchanged: bool

    def __new__(cls, number: int, unchanged: bool = False) -> Self:
        """`number`, which stays a number in every other way."""
        version_number = super().__new__(cls, number)
        version_number.unchanged = unchanged
        return version_number

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        return f"{int(self)} (unchanged)" if self.unchanged else str(int(self))


# Ids of writes, which become parts of paths: a store that others have written may say anything.


_WRITE_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{12}")


def is_write_id(text: str) -> bool:
    """Whether it has the form of `write_plan.new_write_id`."""
    return _WRITE_ID.fullmatch(text) is not None


def began_at(write_id: str) -> datetime | None:
    """When a write began; None where this is no id of one."""
    if not is_write_id(write_id):
        return None
    try:
        return datetime.strptime(write_id.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
