"""Which topology has a name, or an id, first: of all that came in, in little memory."""

from array import array
from typing import NamedTuple


class Place(NamedTuple):
    """File and line from 1; for an object its place among the objects, from 1."""

    file: str | None
    number: int

    @property
    def line(self) -> int | None:
        """source_line."""
        return None if self.file is None else self.number


class NamesSeen:
    """Names and places by topology_id: some 170 bytes and the name for each."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._names = bytearray()
        self._ends = array("Q", [0])
        self._numbers = array("Q")
        self._files = array("I")
        self._file_numbers: dict[str | None, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, topology_id: int, name: str, place: Place) -> tuple[str, Place] | None:
        """Name and place of the topology that had this id before; None if this one is the first."""
        row = self._rows.setdefault(topology_id, len(self._numbers))
        if row < len(self._numbers):
            return self._at(row)
        self._names += name.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._names))
        self._numbers.append(place.number)
        self._files.append(self._file_numbers.setdefault(place.file, len(self._file_numbers)))
        return None

    def _at(self, row: int) -> tuple[str, Place]:
        name = bytes(self._names[self._ends[row] : self._ends[row + 1]]).decode("utf-8", "surrogatepass")
        files = list(self._file_numbers)
        return name, Place(files[self._files[row]], self._numbers[row])
