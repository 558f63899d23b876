"""The key of a topology without Spark."""

import xxhash

XXHASH64_SEED = 42
"""Spark's; the hash of null is the seed itself."""


def topology_id(name: str) -> int:
    """Spark's xxhash64(name)."""
    digest = xxhash.xxh64_intdigest(name.encode(), seed=XXHASH64_SEED)
    return digest - 2**64 if digest >= 2**63 else digest
