"""The ids of data sets, computed the same way by both planners."""

from penstock.plans.frames.counts import Ints
from penstock.plans.job_graph.java_hashes import Hashes


def data_set_ids(lower: Ints, upper: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Both halves of the ids of data sets, from those of the vertices and the hashes of the edge ids.

    Source: IntermediateDataSetID adds the hash to both halves of the vertex id and swaps them.
    """
    return upper + hashes, lower + hashes
