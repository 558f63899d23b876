"""What the real PyFlink made of values: the lines of pyflink_trips.jsonl (see ask_pyflink.py)."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import TypeInformation, Types

NAMES = {
    "datetime": datetime,
    "Decimal": Decimal,
    "Instant": Instant,
    "Row": Row,
    "RowKind": RowKind,
    "Types": Types,
}


class Trips(NamedTuple):
    """Values of one type, the hashes and key groups (of 32768) of their keys, and reprs of what came back."""

    type_info: TypeInformation
    values: list[Any]
    hashes: list[int]
    groups: list[int]
    reprs: list[str]
    kinds: list[int]


def read_trips() -> dict[str, Trips]:
    """All of them by the text of the type."""
    lines = Path(__file__).with_name("pyflink_trips.jsonl").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in map(json.loads, lines):
        expressions, hashes, groups, reprs, kinds = (list(one) for one in zip(*line["keys"], strict=True))
        values = [eval(one, NAMES) for one in expressions]
        type_info = eval(line["type"], NAMES)
        found[line["type"]] = Trips(type_info, values, hashes, groups, reprs, kinds)
    return found


def kind_of(value: Any) -> int:
    """Number of a row's kind; 0 for other values."""
    return value.get_row_kind().value if isinstance(value, Row) else 0
