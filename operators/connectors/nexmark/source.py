"""The Nexmark source: the events of one kind, as record batches or rows.

Source: com.github.nexmark.flink.generator.NexmarkGenerator and the generators of its models; fields and
proportions are Nexmark's, the random numbers are not.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import RowTypeInfo, Types
from penstock.operators.connectors.nexmark import event_ids as ids
from penstock.operators.connectors.nexmark import texts
from penstock.operators.connectors.source import Source
from penstock.operators.exchange.blocks import values_of_batch
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, StampedBatch

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

_IN_AN_EPOCH = {"person": ids.PERSONS, "auction": ids.AUCTIONS, "bid": ids.BIDS}
_EXTRA = {"person": 120, "auction": 390, "bid": 68}  # average sizes 200, 500 and 100 less what else there is


class NexmarkSource(Source):
    """The persons, auctions or bids (`kind`) among the first `events` events of an auction house.

    Of 50 events, 1 is a person, 3 are auctions and 46 are bids; `events` counts all of them, so that sources
    with the same settings but another kind fit together. An event depends on its number, `seed` and the
    settings only, never on parallelism or on the batch it is made in. Event times start at `base_time`
    (milliseconds since the epoch) and rise with `events_per_second`; records carry them as timestamps.
    Subtasks take blocks of event numbers in turn, so that event time rises in all of them alike; within a
    subtask records come in order of event time. ValueError for another kind, negative numbers of events, or a
    rate that is not positive.
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
            raise ValueError(f"found kind {kind!r}; allowed are {', '.join(TYPES)}")
        if events < 0 or events_per_second <= 0:
            raise ValueError("events must not be negative, events_per_second must be positive")
        self.kind, self.events, self.seed, self.base_time = kind, events, seed, base_time
        self.events_per_second = events_per_second
        self.type_info: RowTypeInfo = TYPES[kind]

    def fingerprint(self) -> str:
        """Its settings, on which every event depends."""
        return f"{self.kind} {self.events} {self.seed} {self.base_time} {self.events_per_second}"

    def splits(self, parallelism: int) -> list[list[tuple[int, int]]]:
        """At most one split per subtask: (its first block, number of blocks to the next one of its own)."""
        blocks = -(-self.events // self._block)
        return [[(subtask, parallelism)] if subtask < blocks else [] for subtask in range(parallelism)]

    def read(self, split: tuple[int, int], context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """The events of the split's blocks: one batch, or one list, per block."""
        block = self._block
        first, step = split
        for start in range(first * block, self.events, step * block):
            events = ids.event_numbers(self.kind, start, min(start + block, self.events))
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
        return CHUNK_VALUES // _IN_AN_EPOCH[self.kind] * ids.EPOCH

    def make(self, events: ids.Longs) -> pa.RecordBatch:
        """The events with these numbers, which must be of this source's kind."""
        dice = ids.Dice(self.seed * 3 + list(TYPES).index(self.kind), events)
        makers: dict[str, Callable[[ids.Longs, ids.Dice], list[pa.Array]]] = {
            "person": self._persons,
            "auction": self._auctions,
            "bid": self._bids,
        }
        columns = makers[self.kind](events, dice)
        columns.append(_some(texts.extra_pool(self.seed, _EXTRA[self.kind]), dice))
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], self.type_info.get_field_names()
        )

    def _persons(self, events: ids.Longs, dice: ids.Dice) -> list[pa.Array]:
        digits = [_some(texts.four_digits(), dice) for _ in range(4)]
        return [
            ids.last_person(events) + ids.FIRST_PERSON_ID,
            _some(texts.people_names(), dice),
            pc.binary_join_element_wise(_some(texts.mailboxes(self.seed), dice), "com", "."),
            pc.binary_join_element_wise(*digits, " "),
            _some(pa.array(texts.CITIES), dice),
            _some(pa.array(texts.STATES), dice),
            self._times(events),
        ]

    def _auctions(self, events: ids.Longs, dice: ids.Dice) -> list[pa.Array]:
        initial_bid = dice.price()
        times = self._times(events)
        length = ids.auction_milliseconds(dice, events, self.base_time, self._nanoseconds)
        hot = dice.below(ids.HOT_SELLERS_RATIO) > 0
        return [
            ids.last_auction(events) + ids.FIRST_AUCTION_ID,
            _some(texts.item_names(self.seed), dice),
            _some(texts.descriptions(self.seed), dice),
            initial_bid,
            initial_bid + dice.price(),
            times,
            times + length,
            np.where(hot, ids.hot_person(events, 0), ids.some_person(dice, events)),
            ids.FIRST_CATEGORY_ID + dice.below(ids.CATEGORIES),
        ]

    def _bids(self, events: ids.Longs, dice: ids.Dice) -> list[pa.Array]:
        hot_auction = dice.below(ids.HOT_AUCTION_RATIO) > 0
        hot_bidder = dice.below(ids.HOT_BIDDERS_RATIO) > 0
        hot_channel = dice.below(2) > 0
        names, urls = texts.channels(self.seed)
        hot_channels = len(texts.HOT_CHANNELS)
        channel = pa.array(
            np.where(hot_channel, dice.below(hot_channels), hot_channels + dice.below(texts.CHANNELS))
        )
        return [
            np.where(hot_auction, ids.hot_auction(events), ids.some_auction(dice, events)),
            np.where(hot_bidder, ids.hot_person(events, 1), ids.some_person(dice, events)),
            dice.price(),
            names.take(channel),
            urls.take(channel),
            self._times(events),
        ]

    @property
    def _nanoseconds(self) -> int:
        return 1_000_000_000 // self.events_per_second

    def _times(self, events: ids.Longs) -> ids.Longs:
        return ids.event_times(events, self.base_time, self._nanoseconds)


def _some(texts_to_take: pa.StringArray, dice: ids.Dice) -> pa.StringArray:
    return texts_to_take.take(pa.array(dice.below(len(texts_to_take))))
