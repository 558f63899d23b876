"""Refuses a topology by checking only the transformations that may be wrong."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from penstock.plans.errors import TopologyError
from penstock.plans.topology.duplicate_keys import duplicate_keys, duplicate_keys_of_transformation
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.parse_lines import shown_errors, with_stage
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.topology.validate_transformations import KEPT, PositionOf, cycle_errors, errors_of_entries

Refusal = tuple[str, list[dict[str, str]]]
"""Stage and errors, as the `rejected` table has them."""

LARGE = 100_000
"""The number of a topology's transformations from which on errors are found in this way, not in its whole
line, which takes more memory."""


def validate_wrong_rows(
    topology: bytes,
    rows: Iterable[tuple[int, bytes]],
    position_of: PositionOf,
    cycle: list[int],
) -> Refusal | None:
    """Stage and errors of a topology, as parse_lines finds them in its whole line; None if there are none.

    `topology`: its JSON object without transformations. `rows`: positions and objects, in order, of the
    transformations that suspicious_transformation flags, whose id is not their position or occurs twice, or
    that read an unknown one; one at a time is in memory. `position_of` and `cycle`: see
    plans.topology.numbered_rows.
    """
    parsed = orjson.loads(topology)
    repeated = duplicate_keys(topology, parsed)
    outside = parsed | {"transformations": []}
    refused_hashes: list[dict[str, Any]] = []

    def entries() -> Iterator[tuple[int, dict[str, Any]]]:
        for position, row in rows:
            entry = orjson.loads(row)
            if not refused_hashes and "uid_hash" in entry and not UID_HASH.accepts(entry["uid_hash"]):
                refused_hashes.append(entry)
            duplicates = duplicate_keys_of_transformation(row, entry, position)
            repeated.extend(duplicates if len(repeated) < KEPT else repeated[-1:] * len(duplicates))
            yield position, entry

    def check_transformations(_: Any) -> list[TopologyError]:
        return errors_of_entries(entries(), position_of) + cycle_errors(cycle)

    topology_errors = validate_topology(outside, check_transformations)  # which fills `repeated`
    errors = repeated + topology_errors
    if not errors:
        return None
    stage, errors = with_stage(outside | {"transformations": refused_hashes}, errors)
    return stage, shown_errors(errors)
