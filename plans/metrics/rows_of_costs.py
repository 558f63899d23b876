"""The rows of a file of costs, which is read within bounds: a small file may stand for much."""

import csv
import io
import os
from pathlib import Path

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import (
    MOST_BYTES,
    BoundError,
    bounded_file,
    bounded_text,
    require_at_most,
)
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

MOST_ROWS = 20_000_000
_LONGEST_ROW_BYTES = 64 << 10
_LINES_THAT_SAY_COLUMNS = 100
"""polars takes the columns of JSON lines from as many."""


def rows_of_costs(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    """The rows of a .parquet, .csv or, else, JSON lines file (both may be packed), with no other columns.

    Raises InputError: too large, other columns, not of that form.
    """
    with bounded_file(str(path)):
        try:
            return _read_parquet(path, allowed) if _ending(path) == ".parquet" else _read_text(path, allowed)
        except (pl.exceptions.PolarsError, pa.ArrowException, csv.Error, ValueError) as error:
            if isinstance(error, BoundError):
                raise
            raise InputError(
                f"{path}: {_shown(str(error))}",
                "costs are JSON lines, or .csv or .parquet as the name ends",
            ) from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or _shown(str(error))}") from None


def _read_parquet(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    with pq.ParquetFile(path) as file:
        said = file.metadata
        require_at_most(said.num_rows, MOST_ROWS, "rows")
        require_at_most(
            sum(said.row_group(number).total_byte_size for number in range(said.num_row_groups)),
            MOST_BYTES * len(allowed),
            "bytes, unpacked",
        )
        _require_columns(path, file.schema_arrow.names, allowed)
    return pl.read_parquet(path)


def _read_text(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    text = bounded_text(texts_of_file(str(path)), MOST_BYTES)
    if not text.isascii():
        text.decode("utf-8")  # raises for packed bytes under another name, which polars would unpack
    require_at_most(text.count(b"\n"), MOST_ROWS, "rows")
    if _ending(path) == ".csv":
        (first,) = _first_lines(text, 1) or (b"",)
        _require_columns(path, next(csv.reader([first.decode("utf-8-sig")]), []), allowed)
        return pl.read_csv(text)
    names: dict[str, None] = {}
    for line in _first_lines(text, _LINES_THAT_SAY_COLUMNS):
        row = orjson.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise ValueError(f"found {_shown(line.decode())}, allowed an object in each line")
        names |= dict.fromkeys(row)
    if not names:
        return pl.DataFrame(schema=["topology", "id"])
    _require_columns(path, list(names), allowed)
    return pl.read_ndjson(text)


def _first_lines(text: bytes, most: int) -> list[bytes]:
    beginning = io.BytesIO(text[: most * _LONGEST_ROW_BYTES])
    lines = [line for line in beginning.readlines()[:most] if line.strip()]
    require_at_most(max(map(len, lines), default=0), _LONGEST_ROW_BYTES, "bytes in a row")
    return lines


def _require_columns(path: Path, names: list[str], allowed: tuple[str, ...]) -> None:
    if not {"topology", "id"} <= set(names) <= set(allowed):
        raise InputError(
            f"{path}: found columns {_shown(', '.join(names))}, allowed {', '.join(allowed)}",
            "topology and id have to be there; what is not given is assumed",
        )


def _shown(text: str) -> str:
    return limited((text.splitlines() or [""])[0], MOST_OF_A_NAME)


def _ending(path: Path) -> str:
    stem, ending = os.path.splitext(path.name)
    return (os.path.splitext(stem)[1] if ending.lower() in CODECS else ending).lower()
