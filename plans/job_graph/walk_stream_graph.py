"""The ids of data sets."""

from penstock.plans.frames.arrays import Ints
from penstock.plans.job_graph.java_hashes import Hashes


def data_set_ids(lower: Ints, upper: Ints, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return both halves of data set ids, from the halves of the vertex ids and the hashes of the edge ids.

    Source: IntermediateDataSetID adds the hash to both halves of the vertex id and swaps them.
    """
    return upper + hashes, lower + hashes
