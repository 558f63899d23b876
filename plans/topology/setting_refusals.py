"""Settings that Flink refuses: Flink's message, the step at which it reads them, and Penstock's own error."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.errors import TopologyError
from penstock.plans.topology.flink_options import FlinkOption, key_set
from penstock.plans.topology.flink_values import FlinkValueError
from penstock.plans.topology.rules import shorten, suggestion

ILLEGAL_ARGUMENT = "IllegalArgumentException"
ILLEGAL_STATE = "IllegalStateException"


class SettingStep(StrEnum):
    """The step at which Flink reads a setting once it has begun to translate transformations.

    The first five are in the StreamGraph, the last five in the JobGraph; chaining is read with the first edge
    that may be chained.
    """

    MAX_PARALLELISM = "MAX_PARALLELISM"  #: of a transformation that has none
    BUFFER_TIMEOUT = "BUFFER_TIMEOUT"  #: of an operator that has none, in STREAMING mode
    AUTO_GENERATE_UIDS = "AUTO_GENERATE_UIDS"  #: of any operator
    SORTED_INPUTS_MEMORY = "SORTED_INPUTS_MEMORY"  #: of a keyed operator in BATCH mode
    CACHED_FILES = "CACHED_FILES"  #: after all transformations
    OPERATOR_CHAINING = "OPERATOR_CHAINING"
    CHAIN_DIFFERENT_MAX_PARALLELISM = "CHAIN_DIFFERENT_MAX_PARALLELISM"
    APPROXIMATE_LOCAL_RECOVERY = "APPROXIMATE_LOCAL_RECOVERY"  #: in BATCH mode
    CHECKPOINTING = "CHECKPOINTING"  #: StreamGraph.createJobCheckpointingSettings
    FORCE_UNALIGNED = "FORCE_UNALIGNED"  #: StreamingJobGraphGenerator.preValidate
    PAUSE_SOURCES = "PAUSE_SOURCES"  #: the last check of preValidate
    PARALLELISM_OVERRIDES = "PARALLELISM_OVERRIDES"  #: by the Dispatcher, of the finished JobGraph


JOB_GRAPH_STEPS = (
    SettingStep.APPROXIMATE_LOCAL_RECOVERY,
    SettingStep.CHECKPOINTING,
    SettingStep.FORCE_UNALIGNED,
    SettingStep.PAUSE_SOURCES,
    SettingStep.PARALLELISM_OVERRIDES,
)
"""What Flink reads of a stream graph that is already translated."""


class SettingRefusal(Exception):
    """Flink refuses one option: its exception class and message; `ours` says the same in Penstock's words."""

    def __init__(self, error: str, flink_message: str, ours: TopologyError) -> None:
        super().__init__(flink_message)
        self.error = error
        self.flink_message = flink_message
        self.ours = ours

    def as_row(self, step: SettingStep) -> dict[str, str]:
        """One element of JOB_SETTINGS' `setting_refusals`."""
        return {
            "step": str(step),
            "error": self.error,
            "message": self.flink_message,
            "location": self.ours.location,
            "found": self.ours.found,
            "allowed": self.ours.allowed,
            "hint": self.ours.hint,
        }


class FlinkRefusal(Exception):
    """Flink refuses the job for its settings: the stage, its exception class and its message.

    `ours` are the same in Penstock's words, which come after Flink's in the list of errors.
    """

    def __init__(
        self, error_stage: str, error: str, flink_message: str, ours: tuple[TopologyError, ...] = ()
    ) -> None:
        super().__init__(flink_message)
        self.error_stage = error_stage
        self.error = error
        self.flink_message = flink_message
        self.ours = ours

    @classmethod
    def from_setting(cls, error_stage: str, refusal: SettingRefusal) -> "FlinkRefusal":
        """The refusal of an option that Flink reads at this stage for every job."""
        return cls(error_stage, refusal.error, refusal.flink_message, (refusal.ours,))

    def as_topology_errors(self) -> list[TopologyError]:
        """Flink's own first: its `found` is Flink's message, word for word."""
        location = self.ours[0].location if self.ours else "topology"
        return [TopologyError(self.error, location, self.flink_message, "", ""), *self.ours]


def read_setting(config: Mapping[str, str], option: FlinkOption) -> Any:
    """The option's value, else its default (Configuration.get). Raises SettingRefusal."""
    key = key_set(config, option)
    if key is None:
        return option.default
    value = config[key]
    try:
        return option.parse(value)
    except FlinkValueError as refused:
        error, message, reason = refused.error, refused.flink_message, str(refused)
    except ValueError as unparsable:
        error, message = ILLEGAL_ARGUMENT, f"Could not parse value '{value}' for key '{option.key}'."
        reason = str(unparsable)
    ours = TopologyError(
        ErrorKind.INVALID_OPTION_VALUE,
        f"config {key}",
        f"{shorten(value)}, which {reason}",
        option.allowed,
        suggestion(value, option.values),
    )
    raise SettingRefusal(error, message, ours)


def refused_setting(
    config: Mapping[str, str], option: FlinkOption, flink_message: str, allowed: str
) -> SettingRefusal:
    """An option that Flink parses and then finds out of range, or incompatible with another."""
    key = key_set(config, option)
    shown_value = f"{option.default} (not set)" if key is None else shorten(config[key])
    location = f"config {key or option.key}"
    ours = TopologyError(ErrorKind.INVALID_OPTION_VALUE, location, shown_value, allowed, "")
    return SettingRefusal(ILLEGAL_ARGUMENT, flink_message, ours)
