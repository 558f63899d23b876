"""Boxes of one column: as near as possible to where they would like to be, in order and without overlap."""

from collections.abc import Sequence


def place_in_line(wanted: Sequence[float], sizes: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Centres of boxes in the given order, whose squared distances from `wanted` are the least in sum.

    `gaps[i]` is the least free space between box i and the next one. Neighbours that would overlap become a
    block, which goes where its members want to be on average (pool adjacent violators).
    """
    offsets, at = [], 0.0
    for place, size in enumerate(sizes):
        if place:
            at += (sizes[place - 1] + size) / 2 + gaps[place - 1]
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # mean of what they want, how many
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
