"""Refuses a topology of which only the transformations that may be wrong are looked at."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from plans.errors import TopologyError
from plans.topology.duplicate_keys import duplicate_keys
from plans.topology.operator_rules import UID_HASH
from plans.topology.parse_lines import shown_errors, with_stage
from plans.topology.validate_topology import validate_topology
from plans.topology.validate_transformations import cycle_errors, errors_of_entries

Refusal = tuple[str, list[dict[str, str]]]
"""Stage and errors, as the `rejected` table has them."""

_ALONE = b'{"transformations":[%b]}'

LARGE = 100_000
"""Transformations of a topology from which on this takes less than its whole line."""


def validate_wrong_rows(
    topology: bytes, rows: Iterable[bytes], size: int, cycle: list[int]
) -> Refusal | None:
    """Stage and errors of a topology with `size` transformations, ids 1..n; None if it is right.

    `topology` is its JSON object without transformations. `rows` are the objects of those transformations,
    by id, that suspicious_transformation does not call right; they are looked at one after the other.
    `cycle` is what find_cycle_in_rows finds. The same errors as parse_lines finds in the whole line.
    """
    outside = orjson.loads(topology) | {"transformations": []}
    repeated = duplicate_keys(topology, orjson.loads(topology))
    refused_hashes: list[dict[str, Any]] = []

    def entries() -> Iterator[tuple[int, dict[str, Any]]]:
        for row in rows:
            entry = orjson.loads(row)
            if not refused_hashes and "uid_hash" in entry and not UID_HASH.accepts(entry["uid_hash"]):
                refused_hashes.append(entry)
            repeated.extend(
                duplicate_keys(b'{"transformations":[' + row + b"]}", {"transformations": [entry]})
            )
            yield entry["id"], entry

    def of_transformations(_: Any) -> list[TopologyError]:
        return errors_of_entries(entries(), range(size + 1)) + cycle_errors(cycle)

    errors = validate_topology(outside, of_transformations)
    errors = repeated + errors
    if not errors:
        return None
    stage, errors = with_stage(outside | {"transformations": refused_hashes}, errors)
    return stage, shown_errors(errors)
