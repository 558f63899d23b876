"""Job graphs of whole topologies as flat arrays: what the walks over tasks run over."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plans.arrow_walks import Ints
from plans.vocabulary import ResultPartitionType

Flags = npt.NDArray[np.bool_]
NONE = -1
MUST_BE_PIPELINED = (ResultPartitionType.PIPELINED, ResultPartitionType.PIPELINED_BOUNDED)


class JobGraphArrays(NamedTuple):
    """Vertices of all topologies in one numbering (by topology, then topological order); their input edges.

    A task's place is in the order of vertices, then subtasks.
    """

    topologies: Ints  #: topology_id per vertex
    vertices: Ints  #: vertex per vertex
    first: Ints  #: per vertex the first vertex of its topology
    parallelism: Ints
    slot_sharing_group: Ints
    co_location_group: Ints  #: NONE where there is none
    logical_region: Ints  #: per vertex the first vertex of its logical pipelined region
    sources: Ints  #: per edge, by target and input index
    targets: Ints
    all_to_all: Flags  #: per edge; pointwise otherwise
    pipelined: Flags  #: per edge; must be consumed while it is produced


def sums_before(values: Ints) -> Ints:
    """For each element the sum of the elements before it."""
    return np.cumsum(values) - values


def counts_up(lengths: Ints) -> Ints:
    """0, 1, … for each of `lengths` in turn."""
    return counts_from(np.zeros_like(lengths), lengths)


def counts_from(starts: Ints, lengths: Ints) -> Ints:
    """`lengths` consecutive numbers from each of `starts`, concatenated."""
    numbers: Ints = np.repeat(starts - sums_before(lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers


def bounds_of(owners: Ints, count: int) -> Ints:
    """Elements whose sorted `owners` are i lie between bounds i and i + 1."""
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count))))
