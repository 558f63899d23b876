"""Job graphs of whole topologies as flat arrays, which the walks over tasks run over."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.plans.frames.arrow_walks import Ints

Flags = npt.NDArray[np.bool_]
NO_GROUP = -1


class JobGraphArrays(NamedTuple):
    """Vertices of all topologies in one numbering (by topology, then topological order); their input edges.

    A task's place is in the order of vertices, then subtasks.
    """

    topologies: Ints  #: topology_id per vertex
    vertices: Ints  #: vertex per vertex
    first: Ints  #: per vertex the first vertex of its topology
    parallelism: Ints
    slot_sharing_group: Ints
    co_location_group: Ints  #: NO_GROUP if there is none
    logical_region: Ints  #: per vertex the first vertex of its logical pipelined region
    sources: Ints  #: per edge, by target and input index
    targets: Ints
    all_to_all: Flags  #: per edge; pointwise otherwise
    pipelined: Flags  #: per edge; must be consumed while it is produced


CARRIED = (
    "source_vertex",
    "target_vertex",
    "input_index",
    "output_index",
    "consumer_index",
    "result_partition_type",
)
"""Columns of connected_edges."""
