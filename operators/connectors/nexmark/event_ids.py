"""The kind of each Nexmark event and the ids that exist by then, computed over arrays of event numbers.

In every 50 consecutive events, the first is a person, the next three are auctions, the other 46 are bids.

Source: org.apache.beam.sdk.nexmark.sources.generator.GeneratorConfig and .model.{PersonGenerator,
AuctionGenerator,BidGenerator}, which com.github.nexmark.flink.generator follows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
ID_LEAD = 10  #: ids that events may name a little before they exist

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def event_numbers(kind: str, first: int, after: int) -> Longs:
    """The numbers of the events of a kind in [first, after); `first` is a multiple of EPOCH."""
    start, count = {
        "person": (0, PERSONS),
        "auction": (PERSONS, AUCTIONS),
        "bid": (PERSONS + AUCTIONS, BIDS),
    }[kind]
    epochs = np.arange(first, after, EPOCH, dtype=np.int64)
    numbers = (epochs[:, None] + np.arange(start, start + count, dtype=np.int64)).ravel()
    return numbers[numbers < after]


def last_person(events: Longs) -> Longs:
    """Number, from 0, of the newest person when each event happens."""
    return events // EPOCH  # every epoch starts with its one person


def last_auction(events: Longs) -> Longs:
    """Number, from 0, of the newest auction when each event happens; -1 before the first."""
    offset = np.minimum(events % EPOCH - PERSONS, AUCTIONS - 1)
    return events // EPOCH * AUCTIONS + offset


class Dice:
    """Random numbers that depend on nothing but the seed, the event's number and the number of the throw."""

    def __init__(self, seed: int, events: Longs) -> None:
        start = mix(np.array([seed & (2**64 - 1)], np.uint64))
        self._states = mix(events.view(np.uint64) * _GAMMA ^ start)
        self._throws = 0

    def bits(self) -> Draws:
        """64 bits per event."""
        self._throws += 1
        return mix(self._states + np.uint64(self._throws * int(_GAMMA) & (2**64 - 1)))

    def below(self, limit: Any) -> Longs:
        """From 0 to `limit` - 1, which is one number or one per event, each below 2**31."""
        high = self.bits() >> np.uint64(32)
        return (high * np.asarray(limit, np.uint64) >> np.uint64(32)).view(np.int64)

    def fraction(self) -> NDArray[np.float64]:
        """From 0 to 1, without 1."""
        return (self.bits() >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def price(self) -> Longs:
        """In cents: 100 to 100 million, evenly over its logarithm."""
        return np.rint(10.0 ** (self.fraction() * 6.0) * 100.0).astype(np.int64)


def mix(states: Draws) -> Draws:
    """The output function of SplitMix64."""
    states = (states ^ (states >> np.uint64(30))) * _MIX1
    states = (states ^ (states >> np.uint64(27))) * _MIX2
    return states ^ (states >> np.uint64(31))


def some_person(dice: Dice, events: Longs) -> Longs:
    """Id of one of the people who were active lately, or will be soon."""
    people = last_person(events) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + dice.below(active + ID_LEAD) + FIRST_PERSON_ID


def some_auction(dice: Dice, events: Longs) -> Longs:
    """Id of one of the auctions that are in flight, or will be soon."""
    newest = last_auction(events)
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    return oldest + dice.below(newest - oldest + 1 + ID_LEAD) + FIRST_AUCTION_ID


def hot_auction(events: Longs) -> Longs:
    """Id of the auction that many bid on."""
    return last_auction(events) // HOT_GROUP * HOT_GROUP + FIRST_AUCTION_ID


def hot_person(events: Longs, beside: int) -> Longs:
    """Id of the person who sells (`beside` 0) or bids (`beside` 1) much."""
    return last_person(events) // HOT_GROUP * HOT_GROUP + beside + FIRST_PERSON_ID


def auction_milliseconds(dice: Dice, events: Longs, base_time: int, nanoseconds_between: int) -> Longs:
    """How long an auction runs: up to twice the time in which as many start as are in flight."""
    later = events + AUCTIONS_IN_FLIGHT * EPOCH // AUCTIONS
    horizon = event_times(later, base_time, nanoseconds_between) - event_times(
        events, base_time, nanoseconds_between
    )
    return 1 + dice.below(np.maximum(horizon * 2, 1))


def event_times(events: Longs, base_time: int, nanoseconds_between: int) -> Longs:
    """Event time, milliseconds since the epoch."""
    return base_time + events * nanoseconds_between // 1_000_000
