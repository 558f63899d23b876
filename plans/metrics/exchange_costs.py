"""Costs of handing a record on, and the capacity of slots and TaskManagers: the terms of the cost
model."""

import json
from collections.abc import Mapping
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.plans.errors import InputError
from penstock.plans.metrics.plan_arrays import Edges, Floats

NANOSECOND = 1e-9

SLOT_CORES = "slot_cores"
CORES = "cores"


class Term(NamedTuple):
    """One constant of the model. `low` and `high`: its quartiles, or the bounds of what is assumed."""

    value: float
    low: float
    high: float
    unit: str
    about: str
    source: str


_FLINK = "measured: penstock metrics --calibrate, Flink 2.3.0 MiniCluster, 2 busy cores, 2026-11-27"

TERMS: dict[str, Term] = {
    "call_ns": Term(20.0, 19.0, 31.0, "ns/record", "a chained operator is called", _FLINK),
    "copy_ns": Term(
        *(20.0, 5.0, 23.0, "ns/record"),
        "a record is copied for a chained operator, unless objects are reused",
        _FLINK,
    ),
    "copy_ns_per_byte": Term(0.14, 0.12, 0.18, "ns/byte", "the same, for each byte", _FLINK),
    "serialise_ns": Term(60.0, 20.0, 140.0, "ns/record", "a producer writes a record into a buffer", _FLINK),
    "serialise_ns_per_byte": Term(0.07, 0.0, 0.13, "ns/byte", "the same, for each byte", _FLINK),
    "deserialise_ns": Term(
        140.0, 17.0, 180.0, "ns/record", "a consumer reads a record from a buffer", _FLINK
    ),
    "deserialise_ns_per_byte": Term(0.07, 0.0, 0.13, "ns/byte", "the same, for each byte", _FLINK),
    "route_ns": Term(
        *(40.0, 20.0, 60.0, "ns/record"), "a record's channel is chosen, where an edge is not forward", _FLINK
    ),
    "handover_ns_per_buffer": Term(
        *(5_000.0, 1_000.0, 50_000.0, "ns/buffer"),
        "a full buffer goes from one task's thread to another's, by a queue and a thread switch",
        "assumed: a switch takes some microseconds (Li, Ding, Shen: ExpCS 2007), twice",
    ),
    "remote_ns_per_byte": Term(
        *(1.0, 0.3, 14.0, "ns/byte"),
        "network threads send and receive, where tasks are in different TaskManagers",
        "assumed: a core moves 1 GB/s over TCP, both ends together",
    ),
    "network_bytes_per_second": Term(
        *(1.25e9, 1.25e8, 1.25e10, "bytes/s"),
        "a TaskManager sends at most, and receives at most",
        "assumed: 10 Gbit/s Ethernet, between 1 and 100 Gbit/s",
    ),
    SLOT_CORES: Term(
        *(1.0, 1.0, 1.0, "cores"),
        "the tasks of a slot share",
        "Flink: as many cores as slots, if taskmanager.cpu.cores is not set",
    ),
    CORES: Term(
        *(float("inf"), float("inf"), float("inf"), "cores"),
        "all tasks of a job share",
        "assumed: a cluster has as many cores as its slots bring",
    ),
}
"""The model's constants, by name. A file of constants replaces any of them (see read_constants)."""


class Constants(NamedTuple):
    """Values of TERMS, in their units."""

    call_ns: float
    copy_ns: float
    copy_ns_per_byte: float
    serialise_ns: float
    serialise_ns_per_byte: float
    deserialise_ns: float
    deserialise_ns_per_byte: float
    route_ns: float
    handover_ns_per_buffer: float
    remote_ns_per_byte: float
    network_bytes_per_second: float
    slot_cores: float
    cores: float


CONSTANTS = Constants(**{name: term.value for name, term in TERMS.items()})
"""What the model takes where nothing else is given."""


class HandingOn(NamedTuple):
    """What handing a record on costs, for each edge: nanoseconds of a call in a chain, of sending and of
    receiving; nanoseconds of network threads and bytes, if the record crosses TaskManagers."""

    call: Floats
    send: Floats
    receive: Floats
    network: Floats
    size: Floats


def cost_handing_on(terms: Constants, buffer_bytes: int, size: Floats, edges: Edges) -> HandingOn:
    """The costs of each edge, whether it is chained or not. `size`: bytes of its records."""
    handover = terms.handover_ns_per_buffer / buffer_bytes * size / 2
    send = terms.serialise_ns + terms.serialise_ns_per_byte * size + handover
    return HandingOn(
        call=terms.call_ns + np.where(edges.reuses, 0.0, terms.copy_ns + terms.copy_ns_per_byte * size),
        send=send + np.where(edges.forward, 0.0, terms.route_ns),
        receive=terms.deserialise_ns + terms.deserialise_ns_per_byte * size + handover,
        network=terms.remote_ns_per_byte * size,
        size=size,
    )


def read_constants(path: Path) -> Constants:
    """Constants of a JSON file, as `penstock metrics --calibrate` writes it; those that it lacks are
    CONSTANTS.

    The file is {"terms": {name: {"value": number, ...}}}, or {name: number}. Raises InputError for a file
    that cannot be read, names that are no term, units other than the term's, and values that are no numbers
    above 0 (of costs: at least 0).
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}", "constants are JSON, as penstock metrics "
                         "--calibrate writes them") from None  # fmt: skip
    return constants_of(document, str(path))


def constants_of(document: Any, where: str) -> Constants:
    """Constants of what a file of them holds; `where` is named in errors.

    Raises InputError as read_constants.
    """
    terms = document.get("terms", document) if isinstance(document, Mapping) else None
    if not isinstance(terms, Mapping):
        raise InputError(f"{where}: found {type(document).__name__}, allowed an object of terms")
    values = {}
    for name, entry in terms.items():
        if name not in TERMS:
            raise InputError(f"{where}: found the term {name!r}, allowed {', '.join(TERMS)}")
        unit = entry.get("unit", TERMS[name].unit) if isinstance(entry, Mapping) else TERMS[name].unit
        if unit != TERMS[name].unit:
            raise InputError(f"{where}: {name}: found the unit {unit!r}, allowed {TERMS[name].unit}")
        value = entry.get("value") if isinstance(entry, Mapping) else entry
        values[name] = _checked(where, name, value)
    return CONSTANTS._replace(**values)


def _checked(where: str, name: str, value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    capacity = name in (SLOT_CORES, CORES, "network_bytes_per_second")
    if not is_number or not value >= 0 or (capacity and value == 0) or (not capacity and value > 1e12):
        allowed = "a number above 0" if capacity else "0 to 1e12"
        raise InputError(f"{where}: {name}: found {value!r}, allowed {allowed}")
    try:
        return float(value)
    except OverflowError:
        return inf  # a capacity so large is no limit
