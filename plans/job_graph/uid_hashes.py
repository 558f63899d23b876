"""murmur3-128 of uids, for a whole column at once."""

from typing import NamedTuple

import mmh3
import numpy as np
import pyarrow as pa

from penstock.plans.frames.arrays import Flags, Halves
from penstock.plans.frames.compiled import is_worth_compiling


class UidHashes(NamedTuple):
    """The hash of each node's uid, if it has one."""

    named: Flags  #: whether there is a uid
    halves: Halves  #: the lower and the upper half, one row per node; no rows if no node has a uid


def uid_hashes(uids: pa.Array) -> UidHashes:
    """Return the hashes of a column of texts or nulls.

    Source: StreamGraphHasherV2.generateUserSpecifiedHash.
    """
    named = np.asarray(uids.is_valid())
    if not named.any():
        return UidHashes(named, np.zeros((0, 2), np.uint64))
    if is_worth_compiling(len(uids)):
        # numba takes long to import.
        from penstock.plans.job_graph.murmur3 import hash_texts

        return UidHashes(named, hash_texts(uids, named))
    digests = (b"" if uid is None else mmh3.mmh3_x64_128_digest(uid.encode(), 0) for uid in uids.to_pylist())
    halves = np.frombuffer(b"".join(digest or bytes(16) for digest in digests), "<u8")
    return UidHashes(named, halves.reshape(-1, 2))
