"""Ways in which a table of a store gets damaged."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable


def newest_file(table: Path) -> Path:
    """A Parquet file of the last write that has any."""
    return max(table.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def logs(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def flip(path: Path, start: int) -> None:
    held = bytearray(path.read_bytes())
    for place in range(start, min(start + 8, len(held))):
        held[place] ^= 0xFF
    path.write_bytes(held)


def flip_middle(table: Path) -> None:
    path = newest_file(table)
    flip(path, path.stat().st_size // 2)


def flip_footer(table: Path) -> None:
    path = newest_file(table)
    flip(path, path.stat().st_size - 60)


def make_again(table: Path) -> None:
    """The table as it is before any rows."""
    schema = DeltaTable(table).schema()
    partitions = DeltaTable(table).metadata().partition_columns
    shutil.rmtree(table)
    DeltaTable.create(table, schema, partition_by=partitions)


def delete_last_log(table: Path) -> None:
    """With the sums that Spark keeps beside it; where they stay, the log can no longer be read at all."""
    last = logs(table)[-1]
    for name in (last.name, f"{last.stem}.crc", f".{last.name}.crc", f".{last.stem}.crc.crc"):
        (table / "_delta_log" / name).unlink(missing_ok=True)


def make_a_file(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("")


def remove_checkpoint_and_first(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    for path in (table / "_delta_log").glob("*.checkpoint*.parquet"):
        path.unlink()
    logs(table)[0].unlink()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "file deleted": lambda table: newest_file(table).unlink(),
    "file cut": lambda table: cut(newest_file(table)),
    "file emptied": lambda table: newest_file(table).write_bytes(b""),
    "start flipped": lambda table: flip(newest_file(table), 0),
    "middle flipped": flip_middle,
    "footer flipped": flip_footer,
    "first log deleted": lambda table: logs(table)[0].unlink(),
    "last log deleted": delete_last_log,
    "last log cut": lambda table: cut(logs(table)[-1]),
    "last log emptied": lambda table: logs(table)[-1].write_bytes(b""),
    "last log garbage": lambda table: logs(table)[-1].write_bytes(b"\xff\x00{"),
    "log deleted": lambda table: shutil.rmtree(table / "_delta_log"),
    "checkpoint deleted": remove_checkpoint_and_first,
    "table deleted": shutil.rmtree,
    "table made again": make_again,
    "table is a file": make_a_file,
}
