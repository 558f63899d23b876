"""java.lang.String.hashCode for a whole column at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def java_string_hashes(strings: pa.Array) -> npt.NDArray[np.int32]:
    """s[0]*31^(n-1) + … + s[n-1] over UTF-16 code units, in 32-bit arithmetic; null counts as empty.

    Horner's rule over columns of characters would follow the longest string; instead every code unit is
    weighted by its power of 31 and the weighted units are summed per string.
    """
    texts = strings.to_pylist()
    if all(text is None or text.isascii() for text in texts):
        encoded = [b"" if text is None else text.encode("ascii") for text in texts]
        units = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.uint32)
        lengths = np.fromiter((len(text) for text in encoded), dtype=np.int64, count=len(encoded))
    else:
        encoded = [b"" if text is None else text.encode("utf-16-le", "surrogatepass") for text in texts]
        units = np.frombuffer(b"".join(encoded), dtype="<u2").astype(np.uint32)
        lengths = np.fromiter((len(text) // 2 for text in encoded), dtype=np.int64, count=len(encoded))
    if len(units) == 0:
        return np.zeros(len(texts), dtype=np.int32)
    ends = np.cumsum(lengths)
    from_end = np.repeat(ends, lengths) - np.arange(len(units)) - 1
    powers = np.ones(int(lengths.max()) + 1, dtype=np.uint32)
    np.multiply.accumulate(np.full(len(powers) - 1, 31, dtype=np.uint32), out=powers[1:])
    running = np.concatenate(([np.uint32(0)], np.cumsum(units * powers[from_end], dtype=np.uint32)))
    hashes: npt.NDArray[np.uint32] = running[ends] - running[ends - lengths]
    return hashes.view(np.int32)
