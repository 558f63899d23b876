"""The order in which Java's HashMap goes through its entries: that of dicts that went through Flink.

Source: java.util.HashMap; org.apache.flink.util.CollectionUtil.newHashMapWithExpectedSize, from which
org.apache.flink.api.common.typeutils.base.MapSerializer takes its maps.
"""

import numpy as np
import numpy.typing as npt

from penstock.operators.common.polynomial_hashes import Hashes


def hash_map_order(hashes: Hashes, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of the entries of many maps, one map after the other, in the order of each map's HashMap.

    `hashes` are the hashCodes of all keys, `sizes` the number of keys of each map.
    """
    # the smallest power of two that holds the size at a load factor of 3/4, and one more up to a size of 2
    capacities = np.where(sizes <= 2, sizes + 1, -(-sizes * 4 // 3))
    tables = 1 << np.ceil(np.log2(np.maximum(capacities, 1))).astype(np.int64)
    spread = hashes ^ (hashes >> np.uint32(16))
    buckets = spread & np.repeat(tables - 1, sizes).astype(np.uint32)
    maps = np.repeat(np.arange(len(sizes)), sizes)
    found: npt.NDArray[np.int64] = np.lexsort((buckets, maps))
    return found
