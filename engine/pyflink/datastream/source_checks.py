"""Checks sources and side outputs that scripts name."""

from __future__ import annotations

from typing import Any

from penstock.engine.pyflink.common.typeinfo import TypeInformation
from penstock.engine.pyflink.datastream.operator_settings import as_output_type
from penstock.engine.pyflink.datastream.output_tag import OutputTag
from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.connectors.source import Source

#: Types by the operator that has the side output, and the tag's id.
SideOutputTypes = dict[tuple[int, str], TypeInformation | None]


def check_source(source: Any) -> Source:
    """`source`; TypeError unless it is one of Penstock's."""
    if not isinstance(source, Source):
        raise TypeError(
            f"{type(source).__name__} is no source of Penstock: sources of Java classes have no meaning here"
        )
    return source


def side_output_type(
    known: SideOutputTypes, operator: Transformation, tag: OutputTag
) -> TypeInformation | None:
    """The tag's type. TypeError where the operator's tag of this id was asked for with another type before.

    Source: SingleOutputStreamOperator.getSideOutput.
    """
    output_type = as_output_type(tag.type_info)
    before = known.setdefault((operator.created, tag.tag_id), output_type)
    if before != output_type:
        raise TypeError(
            f"side output {tag.tag_id!r} of {operator.name!r} was asked for with type {before} before, "
            f"and now with {output_type}"
        )
    return output_type
