"""Write Nexmark's events as CSV files: python -m benchmarks.write_nexmark DIR EVENTS [FILES]

Writes FILES of persons, of auctions and of bids (2 by default), each in order of event time, in DIR/person,
DIR/auction and DIR/bid.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow.csv as pc

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.connectors.nexmark import TYPES, NexmarkSource
from penstock.operators.formats.csv_files import StampedBatch


def write_nexmark(folder: Path, events: int, files: int = 2, kinds: Iterable[str] = TYPES) -> None:
    """Write all events of these kinds, whose folders must not exist yet."""
    for kind in kinds:
        (folder / kind).mkdir(parents=True)
        source = NexmarkSource(kind, events).batches()
        options = pc.WriteOptions(include_header=False)
        for number, splits in enumerate(source.splits(files)):
            writer = None
            for split in splits:
                for chunk in source.read(split, OperatorContext()):
                    assert isinstance(chunk, StampedBatch)
                    path = folder / kind / f"{number}.csv"
                    writer = writer or pc.CSVWriter(path, chunk.batch.schema, write_options=options)
                    writer.write_batch(chunk.batch)
            if writer:
                writer.close()


if __name__ == "__main__":
    write_nexmark(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 2)
