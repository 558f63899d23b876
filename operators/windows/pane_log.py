"""The contents of a window when memory is short: records in arrival order, in a file, divided by key.

Contents of a key that were in memory come before its records, so that replaying a part gives exactly what
memory would hold. A window is worked out one part after the other.
"""

from collections.abc import Iterator
from io import BytesIO
from tempfile import TemporaryFile
from typing import Any

from penstock.operators.state.pickle_state import dump_state, load_states
from penstock.operators.windows.fold import Fold

#: A power of two: the share of a window that has to fit into memory at once.
PARTS = 64
#: How many entries of a part are written at once.
_ENTRIES_A_BLOCK = 128


class PaneLog:
    """Entries of one window on disk: (whether it is contents, key, contents or record)."""

    __slots__ = ("_blocks", "_buffers", "_file")

    def __init__(self) -> None:
        # Deleted by the system when closed, however the process ends.
        self._file = TemporaryFile(prefix="penstock-window-")  # noqa: SIM115
        self._buffers: list[list[tuple[bool, Any, Any]]] = [[] for _ in range(PARTS)]
        self._blocks: list[list[int]] = [[] for _ in range(PARTS)]

    def append(self, key: Any, record: Any) -> None:
        """Keep a record of a key of which there is nothing in memory."""
        self._append(False, key, record)

    def spill(self, contents: dict[Any, Any]) -> None:
        """Keep the contents of keys, of which nothing is here yet."""
        for key, content in contents.items():
            self._append(True, key, content)

    def _append(self, is_contents: bool, key: Any, value: Any) -> None:
        part = hash(key) & (PARTS - 1)
        buffer = self._buffers[part]
        buffer.append((is_contents, key, value))
        if len(buffer) >= _ENTRIES_A_BLOCK:
            self._write(part)

    def _write(self, part: int) -> None:
        self._blocks[part].append(self._file.seek(0, 2))
        self._file.write(dump_state(self._buffers[part]))
        self._buffers[part].clear()

    def replay(self, fold: Fold) -> Iterator[dict[Any, Any]]:
        """The contents by key, part after part."""
        for part in range(PARTS):
            contents = self.replay_part(part, fold)
            if contents:
                yield contents

    def replay_part(self, part: int, fold: Fold) -> dict[Any, Any]:
        """The contents by key of one part."""
        first, step = fold.first, fold.step
        contents: dict[Any, Any] = {}
        for entries in self._entries(part):
            for is_contents, key, value in entries:
                if is_contents:
                    contents[key] = value
                else:
                    before = contents.get(key)
                    contents[key] = first(value) if before is None else step(before, value)
        return contents

    def _entries(self, part: int) -> Iterator[list[tuple[bool, Any, Any]]]:
        for position in self._blocks[part]:
            self._file.seek(position)
            yield next(load_states(self._file))
        # The fold may change contents in place, and the buffer has to stay as it was written.
        if self._buffers[part]:
            yield from load_states(BytesIO(dump_state(self._buffers[part])))

    def close(self) -> None:
        self._file.close()
