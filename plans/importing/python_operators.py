"""Derives properties of PyFlink's operators from their names in a plan.

Source: pyflink.datastream.data_stream, org.apache.flink.python.util.PythonConfigUtil.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.vocabulary import ChainingStrategy, Kind

#: Names that PyFlink alone gives: a plan with one of them is PyFlink's.
_OWN = frozenset(
    {
        "_stream_key_by_map_operator",
        "_keyed_stream_values_operator",
        "_partition_custom_map_operator",
        "Extract-Timestamp",
        "KEYED PROCESS",
    }
)
#: Names that PyFlink gives to operators in which no Python runs, and their ends where sinks have names.
_JAVA = frozenset({"Timestamps/Watermarks", "Remove-Timestamp", "Projection", "CacheWrite", "CacheRead"})
_JAVA_ENDS = (": Writer", ": Committer", ": CompactorCoordinator", ": CompactorOperator")
_TWO_INPUTS = frozenset(
    {
        "Co-Process",
        "Co-Map",
        "Co-Flat Map",
        "Keyed Co-Process",
        "Co-Process-Broadcast",
        "Keyed-Co-Process-Broadcast",
    }
)
_COLLECTION = "Source: Collection Source"
_TREE = re.compile(r"^[ |]*(?:[:+]- )?(?:\[\d+\]:)?")
_BETWEEN = ", "  #: names of fused operators


def is_of_pyflink(names: Iterable[str]) -> bool:
    """Whether operators of these names are PyFlink's."""
    return any(part in _OWN or part in _TWO_INPUTS for name in names for part in name.split(_BETWEEN))


def python_kind(name: str, kind: str, inputs: int) -> str:
    """The kind of an operator in a plan of PyFlink's that has `inputs` predecessors; `kind`: as it looks."""
    if name == _COLLECTION:
        return str(Kind.LEGACY_SOURCE)
    first = name.split(_BETWEEN, maxsplit=1)[0]
    if first in _TWO_INPUTS and inputs == 2:  # for unions of more, the input of each edge is unknown
        return str(Kind.TWO_INPUT)
    return kind


def known_of_python(name: str, kind: str, keyed: bool) -> dict[str, Any]:
    """Keys of a stream node in a plan of PyFlink's. `keyed`: whether it reads a keyed stream."""
    if name == _COLLECTION:
        return {
            "chaining": str(ChainingStrategy.HEAD),
            "input_format": True,
            "max_parallelism": 1,
            "operator_factory": "SimpleInputFormatOperatorFactory",
            "keyed": False,
        }
    state = ["STATE_BACKEND"] if keyed else []
    if kind == Kind.SOURCE or name.startswith("Sink: ") or name in _JAVA or name.endswith(_JAVA_ENDS):
        return {"slot_scope": state, "keyed": keyed}
    return {"slot_scope": ["PYTHON", *state], "keyed": keyed, "operator_factory": "SimpleOperatorFactory"}


def operators_of_vertex(description: str) -> list[str]:
    """The names of a vertex's operators, the head first: `description` is a tree, or a chain on one line."""
    if "\n" in description:
        return [_TREE.sub("", line) for line in description.split("\n") if line.strip()]
    return _TREE.sub("", description).split(" -> ")


def known_of_python_vertex(operators: Sequence[str], inputs: int, keyed: bool) -> dict[str, Any]:
    """Keys of the node that stands for a vertex in a plan of PyFlink's. `keyed`: its head reads keys."""
    head = python_kind(operators[0], str(Kind.ONE_INPUT if inputs else Kind.SOURCE), inputs)
    of_operators = [
        known_of_python(name, head if not place else str(Kind.ONE_INPUT), keyed and not place)
        for place, name in enumerate(operators)
    ]
    scopes = {scope for known in of_operators for scope in known.get("slot_scope", ())}
    known: dict[str, Any] = {"slot_scope": sorted(scopes), "keyed": of_operators[0]["keyed"]}
    if head == Kind.TWO_INPUT:
        known["invokable"] = OPERATOR_KINDS[head].invokable
    return known
