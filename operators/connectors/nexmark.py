"""The Nexmark source of the events of one kind, as record batches or rows.

Source: com.github.nexmark.flink.generator.NexmarkGenerator and the generators of its models; fields and
proportions are Nexmark's, the random numbers are not.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import RowTypeInfo, Types
from penstock.operators.connectors.source import Source
from penstock.operators.exchange.blocks import values_of_batch
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, StampedBatch

# The kind of each Nexmark event and the ids that exist by then, computed over arrays of event numbers
#
# In every 50 consecutive events, the first is a person, the next three are auctions, the other 46 are bids.
#
# Source: org.apache.beam.sdk.nexmark.sources.generator.GeneratorConfig and .model.{PersonGenerator,
# AuctionGenerator,BidGenerator}, which com.github.nexmark.flink.generator follows.


Longs = NDArray[np.int64]
Draws = NDArray[np.uint64]

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS

FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID, CATEGORIES = 10, 5

HOT_AUCTION_RATIO, HOT_SELLERS_RATIO, HOT_BIDDERS_RATIO = 2, 4, 4
HOT_GROUP = 100  #: one of this many ids is hot
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PEOPLE = 1000
ID_LEAD = 10  #: ids that events may name shortly before they exist

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def event_numbers(kind: str, first: int, after: int) -> Longs:
    """Return the numbers of the events of a kind in [first, after); `first` is a multiple of EPOCH."""
    start, count = {
        "person": (0, PERSONS),
        "auction": (PERSONS, AUCTIONS),
        "bid": (PERSONS + AUCTIONS, BIDS),
    }[kind]
    epochs = np.arange(first, after, EPOCH, dtype=np.int64)
    numbers = (epochs[:, None] + np.arange(start, start + count, dtype=np.int64)).ravel()
    return numbers[numbers < after]


def last_person(events: Longs) -> Longs:
    """Return the number, from 0, of the newest person at each event."""
    return events // EPOCH  # every epoch starts with its one person


def last_auction(events: Longs) -> Longs:
    """Return the number, from 0, of the newest auction at each event; -1 before the first."""
    offset = np.minimum(events % EPOCH - PERSONS, AUCTIONS - 1)
    return events // EPOCH * AUCTIONS + offset


class Dice:
    """Random numbers that depend only on the seed, the event's number and the number of the throw."""

    def __init__(self, seed: int, events: Longs) -> None:
        start = mix(np.array([seed & (2**64 - 1)], np.uint64))
        self._states = mix(events.view(np.uint64) * _GAMMA ^ start)
        self._throws = 0

    def bits(self) -> Draws:
        """Return 64 bits per event."""
        self._throws += 1
        return mix(self._states + np.uint64(self._throws * int(_GAMMA) & (2**64 - 1)))

    def below(self, limit: Any) -> Longs:
        """Return numbers from 0 to `limit` - 1; `limit` is one number or one per event, each below 2**31."""
        high = self.bits() >> np.uint64(32)
        return (high * np.asarray(limit, np.uint64) >> np.uint64(32)).view(np.int64)

    def fraction(self) -> NDArray[np.float64]:
        """Return numbers from 0 to below 1."""
        return (self.bits() >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def price(self) -> Longs:
        """Return prices of 100 to 100 million cents, uniform in their logarithm."""
        return np.rint(10.0 ** (self.fraction() * 6.0) * 100.0).astype(np.int64)


def mix(states: Draws) -> Draws:
    """Apply the output function of SplitMix64."""
    states = (states ^ (states >> np.uint64(30))) * _MIX1
    states = (states ^ (states >> np.uint64(27))) * _MIX2
    return states ^ (states >> np.uint64(31))


def some_person(dice: Dice, events: Longs) -> Longs:
    """Return the id of a person who was active recently, or will be soon."""
    people = last_person(events) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + dice.below(active + ID_LEAD) + FIRST_PERSON_ID


def some_auction(dice: Dice, events: Longs) -> Longs:
    """Return the id of an auction that is in flight, or will be soon."""
    newest = last_auction(events)
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    return oldest + dice.below(newest - oldest + 1 + ID_LEAD) + FIRST_AUCTION_ID


def hot_auction_id(events: Longs) -> Longs:
    """Return the id of the auction with most bids."""
    return last_auction(events) // HOT_GROUP * HOT_GROUP + FIRST_AUCTION_ID


def hot_person(events: Longs, offset: int) -> Longs:
    """Return the id of the person who sells (`offset` 0) or bids (`offset` 1) most."""
    return last_person(events) // HOT_GROUP * HOT_GROUP + offset + FIRST_PERSON_ID


def auction_milliseconds(dice: Dice, events: Longs, base_time: int, nanoseconds_between: int) -> Longs:
    """Return the duration of an auction, up to twice the time in which AUCTIONS_IN_FLIGHT auctions start."""
    later = events + AUCTIONS_IN_FLIGHT * EPOCH // AUCTIONS
    horizon = event_times(later, base_time, nanoseconds_between) - event_times(
        events, base_time, nanoseconds_between
    )
    return 1 + dice.below(np.maximum(horizon * 2, 1))


def event_times(events: Longs, base_time: int, nanoseconds_between: int) -> Longs:
    """Return event times, in milliseconds since the epoch."""
    return base_time + events * nanoseconds_between // 1_000_000


# Names and filler of Nexmark's events, as Arrow string arrays to take from
#
# Nexmark makes each text letter by letter. Here a text is one of POOL texts that are made once per subtask.
# The benchmark's queries cannot notice: lengths, alphabet and the values that queries select are Nexmark's.


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
CHANNELS = 10_000  #: number of channels that are not hot

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


def text_pool(seed: int, shortest: int, longest: int, size: int = POOL) -> pa.StringArray:
    """Return `size` texts of lower-case letters, `shortest` to `longest` long."""
    dice = Dice(seed, np.arange(size, dtype=np.int64))
    lengths = shortest + dice.below(longest - shortest + 1)
    letters = np.stack([_LETTERS[dice.below(len(_LETTERS))] for _ in range(longest)], axis=1)
    used_letters = letters[np.arange(longest) < lengths[:, None]]
    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.StringArray.from_buffers(size, pa.py_buffer(ends), pa.py_buffer(used_letters.tobytes()))


@cache
def extra_pool(seed: int, average: int) -> pa.StringArray:
    """Return filler of `average` letters, plus or minus a fifth, which fills an event to its average size."""
    spread = round(average * 0.2)
    return text_pool(seed, average - spread, average + spread)


@cache
def item_names(seed: int) -> pa.StringArray:
    """Return texts of up to 20 letters."""
    return text_pool(seed + 1, 3, 20)


@cache
def descriptions(seed: int) -> pa.StringArray:
    """Return texts of up to 100 letters."""
    return text_pool(seed + 2, 3, 100)


@cache
def mailboxes(seed: int) -> pa.StringArray:
    """Return texts of the form `abcdefg@abcde.com`."""
    return pc.binary_join_element_wise(text_pool(seed + 3, 3, 7), text_pool(seed + 4, 3, 5), "@").cast(
        pa.string()
    )


@cache
def people_names() -> pa.StringArray:
    """Return all pairs of first and last names."""
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@cache
def four_digits() -> pa.StringArray:
    """Return 0000 to 9999."""
    return pa.array([f"{number:04d}" for number in range(10_000)])


@cache
def channels(seed: int) -> tuple[pa.StringArray, pa.StringArray]:
    """Return channels and a parallel array of their URLs, the hot ones first, then CHANNELS others."""
    count = len(HOT_CHANNELS) + CHANNELS
    dice = Dice(seed + 5, np.arange(count, dtype=np.int64))
    folders = [text_pool(seed + 6 + place, 5, 5, count).to_pylist() for place in range(3)]
    marked = (dice.below(10) > 0).tolist()  # a tenth of the URLs do not name the channel
    names = HOT_CHANNELS + [f"channel-{number}" for number in range(CHANNELS)]
    urls = []
    for place, (first, second, third) in enumerate(zip(*folders, strict=True)):
        url = f"https://www.nexmark.com/{first}/{second}/{third}/item.htm?query=1"
        number = place - len(HOT_CHANNELS)
        urls.append(f"{url}&channel_id={_reversed_bits(number)}" if number >= 0 and marked[place] else url)
    return pa.array(names), pa.array(urls)


def _reversed_bits(number: int) -> int:
    """Return the absolute value of the int with the 32 bits of `number` in reverse."""
    bits = int(f"{number:032b}"[::-1], 2)
    return abs(bits - (1 << 32)) if bits >= 1 << 31 else bits


_L, _S = Types.LONG, Types.STRING

#: Fields of each kind, in order; `date_time` and `expires` are milliseconds since the epoch.
TYPES = {
    "person": Types.ROW_NAMED(
        ["id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra"],
        [_L(), _S(), _S(), _S(), _S(), _S(), _L(), _S()],
    ),
    "auction": Types.ROW_NAMED(
        [
            "id",
            "item_name",
            "description",
            "initial_bid",
            "reserve",
            "date_time",
            "expires",
            "seller",
            "category",
            "extra",
        ],
        [_L(), _S(), _S(), _L(), _L(), _L(), _L(), _L(), _L(), _S()],
    ),
    "bid": Types.ROW_NAMED(
        ["auction", "bidder", "price", "channel", "url", "date_time", "extra"],
        [_L(), _L(), _L(), _S(), _S(), _L(), _S()],
    ),
}

_EVENTS_PER_EPOCH = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}
_EXTRA = {"person": 120, "auction": 390, "bid": 68}  # average sizes 200, 500 and 100 minus the other fields


class NexmarkSource(Source):
    """Generates the persons, auctions or bids of Nexmark's auction house.

    Of 50 events, 1 is a person, 3 are auctions and 46 are bids; sources with the same settings and other
    kinds fit together. An event follows from its number, the seed and the settings alone. Event time rises
    alike in all subtasks, and in the order of records in each.

    Args:
        kind: "person", "auction" or "bid".
        events: Number of events of all kinds, 0 or more.
        seed: Any integer.
        base_time: Event time of the first event, milliseconds since the epoch.
        events_per_second: Rate of event time, above 0.

    Raises:
        ValueError: An argument is out of range.
    """

    has_batches = True

    def __init__(
        self,
        kind: str,
        events: int,
        *,
        seed: int = 0,
        base_time: int = 1_436_918_400_000,
        events_per_second: int = 10_000,
    ) -> None:
        super().__init__()
        if kind not in TYPES:
            raise ValueError(f"kind must be one of {', '.join(TYPES)}, got {kind!r}")
        if events < 0 or events_per_second <= 0:
            raise ValueError("events must not be negative, events_per_second must be positive")
        self.kind, self.events, self.seed, self.base_time = kind, events, seed, base_time
        self.events_per_second = events_per_second
        self.type_info: RowTypeInfo = TYPES[kind]

    def fingerprint(self) -> str:
        return f"{self.kind} {self.events} {self.seed} {self.base_time} {self.events_per_second}"

    def splits(self, parallelism: int) -> list[list[tuple[int, int]]]:
        blocks = -(-self.events // self._block)
        # at most one split per subtask: its first block, and the number of blocks to its next one
        return [[(subtask, parallelism)] if subtask < blocks else [] for subtask in range(parallelism)]

    def read(self, split: tuple[int, int], context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        block = self._block
        first, step = split
        for start in range(first * block, self.events, step * block):
            events = event_numbers(self.kind, start, min(start + block, self.events))
            if not len(events):
                continue
            batch = self.make(events)
            stamps = batch.column("date_time")
            if self.columnar:
                yield StampedBatch(batch, stamps)
            else:
                yield Chunk(values_of_batch(batch, self.type_info), stamps.to_pylist())

    @property
    def _block(self) -> int:
        return CHUNK_VALUES // _EVENTS_PER_EPOCH[self.kind] * EPOCH

    def make(self, events: Longs) -> pa.RecordBatch:
        """Generate events by their numbers.

        Args:
            events: Int64 array of event numbers, from 0; all must be numbers of this source's kind of event.

        Returns:
            pyarrow.RecordBatch: One row per number, with the fields of `type_info`.
        """
        dice = Dice(self.seed * 3 + list(TYPES).index(self.kind), events)
        makers: dict[str, Callable[[Longs, Dice], list[pa.Array]]] = {
            "person": self._persons,
            "auction": self._auctions,
            "bid": self._bids,
        }
        columns = makers[self.kind](events, dice)
        columns.append(_some(extra_pool(self.seed, _EXTRA[self.kind]), dice))
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], self.type_info.get_field_names()
        )

    def _persons(self, events: Longs, dice: Dice) -> list[pa.Array]:
        digits = [_some(four_digits(), dice) for _ in range(4)]
        return [
            last_person(events) + FIRST_PERSON_ID,
            _some(people_names(), dice),
            pc.binary_join_element_wise(_some(mailboxes(self.seed), dice), "com", "."),
            pc.binary_join_element_wise(*digits, " "),
            _some(pa.array(CITIES), dice),
            _some(pa.array(STATES), dice),
            self._times(events),
        ]

    def _auctions(self, events: Longs, dice: Dice) -> list[pa.Array]:
        initial_bid = dice.price()
        times = self._times(events)
        length = auction_milliseconds(dice, events, self.base_time, self._nanoseconds)
        hot = dice.below(HOT_SELLERS_RATIO) > 0
        return [
            last_auction(events) + FIRST_AUCTION_ID,
            _some(item_names(self.seed), dice),
            _some(descriptions(self.seed), dice),
            initial_bid,
            initial_bid + dice.price(),
            times,
            times + length,
            np.where(hot, hot_person(events, 0), some_person(dice, events)),
            FIRST_CATEGORY_ID + dice.below(CATEGORIES),
        ]

    def _bids(self, events: Longs, dice: Dice) -> list[pa.Array]:
        hot_auction = dice.below(HOT_AUCTION_RATIO) > 0
        hot_bidder = dice.below(HOT_BIDDERS_RATIO) > 0
        hot_channel = dice.below(2) > 0
        names, urls = channels(self.seed)
        hot_channels = len(HOT_CHANNELS)
        channel = pa.array(
            np.where(hot_channel, dice.below(hot_channels), hot_channels + dice.below(CHANNELS))
        )
        return [
            np.where(hot_auction, hot_auction_id(events), some_auction(dice, events)),
            np.where(hot_bidder, hot_person(events, 1), some_person(dice, events)),
            dice.price(),
            names.take(channel),
            urls.take(channel),
            self._times(events),
        ]

    @property
    def _nanoseconds(self) -> int:
        return 1_000_000_000 // self.events_per_second

    def _times(self, events: Longs) -> Longs:
        return event_times(events, self.base_time, self._nanoseconds)


def _some(texts_to_take: pa.StringArray, dice: Dice) -> pa.StringArray:
    return texts_to_take.take(pa.array(dice.below(len(texts_to_take))))
