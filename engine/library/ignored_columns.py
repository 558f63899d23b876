"""Columns of frames that are not Penstock's, set aside where that is asked for."""

from collections.abc import Sequence
from typing import Any

from penstock.engine.library.frames_as_arrow import frame_as_arrow
from penstock.engine.library.given_topologies import is_frame, is_spark_frame
from penstock.engine.library.planned_graphs import quoted
from penstock.engine.library.spelled_columns import column_named, spelled_names
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.printable import first_and_count
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS

NAME = "name"


def set_aside(topologies: Any, ignore: Sequence[str]) -> tuple[Any, Any]:
    """`topologies` without the columns `ignore`, and a frame of `name` and these; None if there are none.

    Raises ConfigurationError where a column is one of Penstock's, and InputError where a frame lacks one.
    """
    if isinstance(ignore, str) or not all(isinstance(column, str) for column in ignore):
        raise ConfigurationError("ignore: allowed a list of names of columns, such as ['team']")
    _require_no_keys(ignore)
    if not ignore:
        return topologies, None
    frames = list(topologies) if isinstance(topologies, list | tuple) else [topologies]
    if not frames or not all(map(is_frame, frames)):
        raise ConfigurationError("ignore: only frames have columns", "leave it out")
    first, *others = frames
    is_on_spark = is_spark_frame(first)
    columns = list(map(str, first.columns)) if is_on_spark else _columns(first)
    name = NAME
    if is_on_spark:
        name = column_named(first, NAME) or NAME
        ignore = [column_named(first, column) or column for column in ignore]
        _require_no_keys(spelled_names(ignore, TOPOLOGY_KEYS))
    missing = [column for column in (name, *ignore) if column not in columns]
    if missing:
        raise InputError(
            f"ignore: the frame has no column {', '.join(map(repr, missing))}; "
            f"it has {first_and_count(columns)}"
        )
    if is_on_spark:
        kept = first.drop(*ignore)
        aside = first.selectExpr(f"{quoted(name)} as {NAME}", *map(quoted, ignore))
    else:
        table = frame_as_arrow(first)
        kept, aside = table.drop_columns(list(ignore)), table.select([NAME, *ignore])
    return ((kept, *others) if others else kept), aside


def _require_no_keys(ignore: Sequence[str]) -> None:
    wrong = [column for column in ignore if column in TOPOLOGY_KEYS]
    if wrong:
        raise ConfigurationError(f"ignore: found {', '.join(wrong)}, which topologies are planned from")


def _columns(frame: Any) -> list[str]:
    return list(frame_as_arrow(frame).column_names)
