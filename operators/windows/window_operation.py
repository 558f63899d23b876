"""Descriptions of windowed operations, and their names in a plan.

Source: pyflink.datastream.window.WindowOperationDescriptor.
"""

from typing import Any

from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.serializer import TypeSerializer
from penstock.operators.state.descriptors import StateDescriptor
from penstock.operators.windows.assigner import WindowAssigner
from penstock.operators.windows.trigger import Trigger


class WindowOperationDescriptor:
    """The parts of a windowed operation."""

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer[Any],
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.internal_window_function = internal_window_function
        self.window_serializer = window_serializer

    def generate_op_name(self) -> str:
        """The operator's name: that of the assigner's class."""
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        """The operator's description; `windowed_stream_type` is "Window" or "AllWindow"."""
        return f"{windowed_stream_type}({self.assigner}, {type(self.trigger).__name__}, {func_desc})"
