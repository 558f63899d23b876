"""The options that decide the number of network buffers of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.plans.errors import ConfigurationError

_MOST_CHANNELS = 1 << 15
_MAX_INT = 2**31 - 1
_MIN_SEGMENT_SIZE = 4096


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Buffers by option; the defaults are Flink 2.3's.

    Flink 2.3 has constants where it says so below; the keys are then those of Flink 1.20.

    Raises ConfigurationError if Flink would refuse a value or count beyond 32 bits.

    Source: NettyShuffleEnvironmentOptions, TaskManagerOptions,
    NettyShuffleEnvironmentConfiguration.fromConfiguration, NettyShuffleMaster.
    """

    buffers_per_channel: int = 2
    """taskmanager.network.memory.buffers-per-channel (constant in 2.3): buffers that an input channel owns,
    and by which a subpartition raises the bound of a bounded result partition."""

    floating_buffers_per_gate: int = 8
    """taskmanager.network.memory.floating-buffers-per-gate (constant in 2.3): buffers that the channels of a
    gate share, and that a bounded result partition gets on top."""

    max_required_buffers_per_gate: int | None = None
    """taskmanager.network.memory.read-buffer.required-per-gate.max: of what a gate wants, as much is required
    and the rest optional. None, the default: 1000 for BLOCKING, BLOCKING_PERSISTENT and
    PIPELINED_APPROXIMATE, no limit for the others."""

    sort_shuffle_min_parallelism: int = 1
    """taskmanager.network.sort-shuffle.min-parallelism (constant in 2.3): a blocking result partition of
    that many subpartitions is written by sort-shuffle, one of fewer by hash-shuffle."""

    sort_shuffle_min_buffers: int = 512
    """taskmanager.network.sort-shuffle.min-buffers: what a result partition of a sort-shuffle requires."""

    max_overdraft_buffers_per_gate: int = 20
    """taskmanager.network.memory.max-overdraft-buffers-per-gate (constant in 2.3): what a pipelined result
    partition may take above its bound, so that a record which has been started can be finished."""

    segment_size_bytes: int = 32 * 2**10
    """taskmanager.memory.segment-size: bytes of a buffer."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError."""
        least = {
            "buffers_per_channel": 0,
            "floating_buffers_per_gate": 1,
            "max_required_buffers_per_gate": 1,
            "sort_shuffle_min_parallelism": 1,
            "sort_shuffle_min_buffers": 1,
            "max_overdraft_buffers_per_gate": 0,
            "segment_size_bytes": _MIN_SEGMENT_SIZE,
        }
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= _MAX_INT:
                raise ConfigurationError(f"{name}: found {value}, allowed {lowest} to {_MAX_INT}")
        if self.segment_size_bytes & (self.segment_size_bytes - 1):
            raise ConfigurationError(
                f"segment_size_bytes: found {self.segment_size_bytes}, allowed powers of two",
                "32768 is Flink's default",
            )
        if _MOST_CHANNELS * self.buffers_per_channel + self.floating_buffers_per_gate > _MAX_INT:
            raise ConfigurationError(
                f"found {self.buffers_per_channel} buffers_per_channel and {self.floating_buffers_per_gate} "
                f"floating_buffers_per_gate: with {_MOST_CHANNELS} channels, more than a gate can count",
                "Flink's defaults are 2 and 8",
            )


FLINK_2_3 = NetworkOptions()
"""Flink 2.3.0 without configuration."""

FLINK_1_20 = replace(FLINK_2_3, max_overdraft_buffers_per_gate=5)
"""Flink 1.20.0 without configuration."""

PROFILES: Mapping[str, NetworkOptions] = {"flink-2.3": FLINK_2_3, "flink-1.20": FLINK_1_20}
"""Name to the defaults of that version."""
