"""The order in which Java's HashMap goes through its entries: by the place of a key's hash in its table.

Source: java.util.HashMap; org.apache.flink.util.CollectionUtil.newHashMapWithExpectedSize, from which
org.apache.flink.api.common.typeutils.base.MapSerializer takes its maps. Planners on tables say the same in
`set_managed_memory_fractions`.
"""

import numpy as np
import numpy.typing as npt

from penstock.operators.common.polynomial_hashes import Hashes

DEFAULT_TABLE = 16
"""Places of a HashMap that was made without a size."""


def hash_map_order(hashes: Hashes, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of the entries of many maps, one map after the other, in the order of each map's HashMap.

    `hashes` are the hashCodes of all keys, `sizes` the number of keys of each map, for which it was made.
    """
    maps = np.repeat(np.arange(len(sizes)), sizes)
    order: npt.NDArray[np.int64] = np.lexsort(
        (_places(hashes, np.repeat(expected_tables(sizes), sizes)), maps)
    )
    return order


def order_in_table(hashes: Hashes, table: int) -> npt.NDArray[np.int64]:
    """Positions of the keys of one map, which began with `table` places and doubled at three quarters."""
    while len(hashes) * 4 > table * 3:
        table *= 2
    return np.argsort(_places(hashes, np.int64(table)), kind="stable")


def expected_tables(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places of maps made for that number of entries: the least power of two filled to three quarters.

    Up to a size of 2, Flink adds one.
    """
    capacities = np.where(sizes <= 2, sizes + 1, -(-sizes * 4 // 3))
    tables: npt.NDArray[np.int64] = 1 << np.ceil(np.log2(np.maximum(capacities, 1))).astype(np.int64)
    return tables


def _places(hashes: Hashes, tables: npt.NDArray[np.int64] | np.int64) -> npt.NDArray[np.uint32]:
    spread = hashes ^ (hashes >> np.uint32(16))
    places: npt.NDArray[np.uint32] = spread & (tables - 1).astype(np.uint32)
    return places
