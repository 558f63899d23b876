"""Operators that PyFlink adds for keys get the parallelism and place of those that they belong to.

Source: org.apache.flink.python.util.PythonConfigUtil.{configPythonOperator,alignTransformation}.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from penstock.engine.lowering.lower_calls import KEY_BY_MAP, KEYED_VALUES, PARTITION_CUSTOM_MAP
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.lowered_transformation import LoweredTransformation
from penstock.engine.runtime.transformations import take_ids


def align_operators(
    transformations: Iterable[LoweredTransformation], aligned_before: Container[int] = ()
) -> None:
    """Align what `transformations`, a list of the environment, has; Python operators declare their memory.

    An operator is known by its name. If its author has changed the name, it is not aligned, as in PyFlink.
    Those of the ids `aligned_before` have their partitions already, which take no new ids.
    """
    for one in transformations:
        if one.inputs:
            given = one.inputs[0]
            if given.name == KEYED_VALUES:
                _require_input(
                    one, f"the reader of {KEYED_VALUES!r}: put a map between partition_custom() and"
                )
                _take_place_of(given, one)
                _read_forward(one, given, -one.id if one.id in aligned_before else take_ids())
            if one.name in (KEY_BY_MAP, PARTITION_CUSTOM_MAP):
                _require_input(one, "named like an operator of PyFlink's own: give another name to")
                _take_place_of(one, given)
                _read_forward(one, given, -one.id if one.id in aligned_before else take_ids())
        if one.python is not None:
            one.slot_scope.add("PYTHON")


def _require_input(one: LoweredTransformation, why: str) -> None:
    """PyFlink sets a field `input`, which transformations of several inputs do not have."""
    if one.kind in ("two_input", "multi_input", "union", "cache"):
        raise JobCompileError(f"PyFlink fails on {one.name!r}, which is {why} {one.name!r}")


def _take_place_of(one: LoweredTransformation, other: LoweredTransformation) -> None:
    if other.slot_sharing_group is not None:
        one.slot_sharing_group, one.slot_resources = other.slot_sharing_group, other.slot_resources
    one.co_location_group = other.co_location_group
    one.parallelism, one.parallelism_configured = other.parallelism, False


def _read_forward(one: LoweredTransformation, given: LoweredTransformation, partition: int) -> None:
    """Let `one` read its first input, `given`, through a forward partition of the id `partition`.

    Sinks of the Sink V2 API do not look at it.
    """
    one.inputs[0] = LoweredTransformation(
        id=partition,
        kind="partition",
        name="Partition",
        inputs=[given],
        parallelism=given.parallelism,
        output_type=given.output_type,
        partitioner="forward" if one.commits is None else None,
    )
