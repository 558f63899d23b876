"""Divides the partitions of a POINTWISE edge's producers among its consumers.

All passes that need this call these functions. Partition `i` is that of producing subtask `i`. Arguments are
arrays, or single numbers; 32 bits hold all products, as no parallelism is above MAX_PARALLELISM.

Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise, EdgeManagerBuildUtil.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Subtasks = TypeVar("Subtasks", bound=npt.NDArray[np.signedinteger[Any]])


def partitions_of_subtask(
    subtask: Subtasks, producers: Subtasks, consumers: Subtasks
) -> tuple[Subtasks, Subtasks]:
    """The partitions that a consuming subtask reads: the first, and the one after the last."""
    first: Any = subtask * producers // consumers
    return first, np.maximum(first + 1, (subtask + 1) * producers // consumers)


def subtasks_of_partition(
    partition: Subtasks, producers: Subtasks, consumers: Subtasks
) -> tuple[Subtasks, Subtasks]:
    """The consuming subtasks that read a partition: the first, and the one after the last."""
    end: Any = _rounded_up((partition + 1) * consumers, producers)
    # With more producers than consumers a partition has one reader: the last whose range starts before it.
    return np.minimum(_rounded_up(partition * consumers, producers), end - 1), end


def most_subtasks_of_partition(producers: Any, consumers: Any) -> Any:
    """The most consuming subtasks that read one partition; of arrays or expressions."""
    return _rounded_up(consumers, producers)


def _rounded_up(dividend: Any, divisor: Any) -> Any:
    return (dividend + divisor - 1) // divisor
