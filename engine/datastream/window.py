"""Windows, assigners and triggers, under the name that PyFlink's pyflink.datastream.window has here."""

from operators.windows.assigner import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
)
from operators.windows.continuous_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    Min,
)
from operators.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from operators.windows.fixed_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from operators.windows.other_triggers import CountTrigger, NeverTrigger, PurgingTrigger
from operators.windows.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from operators.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from operators.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from operators.windows.trigger import Trigger, TriggerResult
from operators.windows.window import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
    long_to_int_with_bit_mixing,
    mod_inverse,
)
from operators.windows.window_operation import WindowOperationDescriptor

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowOperationDescriptor",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]
