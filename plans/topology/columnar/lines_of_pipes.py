"""Lines of FIFOs and other files that can be read once, from the start, by one process."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.plans.topology.columnar.find_topology_files import find_topology_files, is_pipe
from penstock.plans.topology.columnar.lines_batch import lines_batch
from penstock.plans.topology.columnar.parse_block import LineBlock
from penstock.plans.topology.columnar.read_topology_files import blocks_of_files
from penstock.plans.topology.input_errors import MAX_LINE_BYTES

_LINES = lines_batch([], None, []).schema


def lines_of_pipes(paths: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, pa.Table]:
    """LINES, in memory, of those of `paths` that are pipes; a pipe that is named twice is read once.

    Only the size is kept of a line longer than `max_line_bytes`.

    Raises InputError for a pipe that cannot be read to its end.
    """
    lines_by_path: dict[str, pa.Table] = {}
    read: set[str] = set()
    for path in filter(is_pipe, paths):
        files = [file for file in find_topology_files([path]) if file not in read]
        read.update(files)
        batches = []
        for block in blocks_of_files(files, max_line_bytes):
            if not isinstance(block, LineBlock):
                batches.append(block)
                continue
            data, file, first = block
            values = data.split(b"\n")[:-1]
            batches.append(lines_batch(values, file, range(first, first + len(values))))
        lines_by_path.setdefault(path, pa.Table.from_batches(batches, _LINES))
    return lines_by_path
