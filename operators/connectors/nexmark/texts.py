"""Names and filler of Nexmark's events, as Arrow string arrays to take from.

Nexmark makes each text letter by letter. Here a text is one of POOL that are made once per subtask, which the
benchmark's queries cannot tell: lengths, alphabet and, for what queries select on, the values are Nexmark's.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.connectors.nexmark.event_ids import Dice

POOL = 4096

FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]

HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000  #: that are not hot

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


def text_pool(seed: int, shortest: int, longest: int, size: int = POOL) -> pa.StringArray:
    """`size` texts of small letters, `shortest` to `longest` of them."""
    dice = Dice(seed, np.arange(size, dtype=np.int64))
    lengths = shortest + dice.below(longest - shortest + 1)
    letters = np.stack([_LETTERS[dice.below(len(_LETTERS))] for _ in range(longest)], axis=1)
    kept = letters[np.arange(longest) < lengths[:, None]]
    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.StringArray.from_buffers(size, pa.py_buffer(ends), pa.py_buffer(kept.tobytes()))


@cache
def extra_pool(seed: int, average: int) -> pa.StringArray:
    """Filler that brings an event to its average size: `average` letters, a fifth more or less."""
    spread = round(average * 0.2)
    return text_pool(seed, average - spread, average + spread)


@cache
def item_names(seed: int) -> pa.StringArray:
    """Up to 20 letters."""
    return text_pool(seed + 1, 3, 20)


@cache
def descriptions(seed: int) -> pa.StringArray:
    """Up to 100 letters."""
    return text_pool(seed + 2, 3, 100)


@cache
def mailboxes(seed: int) -> pa.StringArray:
    """`abcdefg@abcde.com`."""
    return pc.binary_join_element_wise(text_pool(seed + 3, 3, 7), text_pool(seed + 4, 3, 5), "@").cast(
        pa.string()
    )


@cache
def people_names() -> pa.StringArray:
    """First and last names, each with each."""
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@cache
def four_digits() -> pa.StringArray:
    """0000 to 9999."""
    return pa.array([f"{number:04d}" for number in range(10_000)])


@cache
def channels(seed: int) -> tuple[pa.StringArray, pa.StringArray]:
    """Channels and a parallel array of their URLs: the hot ones first, then CHANNELS others."""
    count = len(HOT_CHANNELS) + CHANNELS
    dice = Dice(seed + 5, np.arange(count, dtype=np.int64))
    folders = [text_pool(seed + 6 + place, 5, 5, count).to_pylist() for place in range(3)]
    marked = (dice.below(10) > 0).tolist()  # a tenth of the urls do not say which channel
    names = HOT_CHANNELS + [f"channel-{number}" for number in range(CHANNELS)]
    urls = []
    for place, (first, second, third) in enumerate(zip(*folders, strict=True)):
        url = f"https://www.nexmark.com/{first}/{second}/{third}/item.htm?query=1"
        number = place - len(HOT_CHANNELS)
        urls.append(f"{url}&channel_id={_reversed_bits(number)}" if number >= 0 and marked[place] else url)
    return pa.array(names), pa.array(urls)


def _reversed_bits(number: int) -> int:
    """The absolute value of the int whose 32 bits are those of `number` in reverse."""
    bits = int(f"{number:032b}"[::-1], 2)
    return abs(bits - (1 << 32)) if bits >= 1 << 31 else bits
