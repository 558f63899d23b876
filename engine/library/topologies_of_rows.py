"""A frame whose rows are topologies as dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.engine.library.frames_as_arrow import frame_as_arrow, is_pandas
from penstock.plans.errors import InputError, SchemaError
from penstock.plans.printable import first_and_count
from penstock.plans.tables.plain_columns import require_unique_columns
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import TopologyForm

_MAPS = ("config", "managed_memory", "input_requirements")


def topologies_of_rows(frame: Any) -> list[Mapping[str, Any]]:
    """The rows of a frame, with the keys of a line of a topology file as columns; null is a key that is not
    set.

    The frame is read once. Raises InputError if it lacks the columns that a topology has in any case, and
    SchemaError where two columns have one name, or it has others.
    """
    if is_pandas(frame):
        require_unique_columns(map(str, frame.columns), "a frame of pandas")
        require_topologies(list(map(str, frame.columns)))
        rows: list[dict[str, Any]] = frame.to_dict("records")
        return [_set({key: _int(value) for key, value in row.items()}) for row in rows]
    table = frame_as_arrow(frame)
    require_topologies(table.column_names)
    return [_set(row) for row in table.to_pylist()]


def require_topologies(columns: Sequence[str]) -> None:
    """InputError or SchemaError unless these can be the columns of a frame with a topology in each row."""
    if "name" in columns and any(form in columns for form in TopologyForm):
        _require_no_others(columns)
        return
    found = first_and_count(columns) or "none"
    raise InputError(
        f"topologies: found a frame with the columns {found}",
        "allowed: one frame with the columns name and transformations (a list of structs) or stream_graph, "
        "or two frames, (topologies, transformations)",
    )


def _require_no_others(columns: Sequence[str]) -> None:
    """SchemaError naming every column of a frame, with a topology in each row, that is no key of one."""
    others = [repr(name) for name in columns if name not in TOPOLOGY_KEYS]
    if others:
        raise SchemaError(
            f"topologies: found columns that no topology has: {first_and_count(others)}; "
            f"allowed {', '.join(TOPOLOGY_KEYS)}",
            "leave them out, or name them in ignore=[…]: they are kept beside the plan",
        )


def _set(row: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with values, at any depth."""
    kept = {key: _plain(key, value) for key, value in row.items()}
    return {key: value for key, value in kept.items() if value is not None}


def _plain(key: str, value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, Mapping):
        return _set(value)
    if isinstance(value, list | tuple):
        if key in _MAPS:
            return _set(dict(value)) if value else None
        return [_plain("", one) for one in value]
    return None if value != value else value  # NaN


def _int(value: Any) -> Any:
    """pandas has ints beside nulls as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
