"""Nexmark queries on PyFlink's API: penstock run engine/examples/nexmark.py QUERY [EVENTS | DIR [OUT]]

QUERY is q0, q1, q2, q3, q4, q5, q7 or q8. EVENTS of Penstock's generator, or the CSV files in DIR/person,
DIR/auction and DIR/bid (python -m benchmarks.write_nexmark makes them), from which the real PyFlink reads as
well. Results are printed, or written to files in OUT.
Source of the queries: https://github.com/nexmark/nexmark.
"""

import sys

from pyflink.common import Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.file_system import FileSink, FileSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from pyflink.table import DataTypes

LONG, STRING, TUPLE = Types.LONG, Types.STRING, Types.TUPLE
#: Fields of the events; capitals are strings, all others whole numbers.
FIELDS = {
    "person": "id NAME EMAIL_ADDRESS CREDIT_CARD CITY STATE date_time EXTRA",
    "auction": "id ITEM_NAME DESCRIPTION initial_bid reserve date_time expires seller category EXTRA",
    "bid": "auction bidder price CHANNEL URL date_time EXTRA",
}


class EventTime(TimestampAssigner):
    """The time of an event is its last field."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds since the epoch."""
        return value[-1]


def timed(events, types, fields):
    """Return tuples of the `fields` of events, the last of which is the event's time."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    return events.map(fields, TUPLE(types)).assign_timestamps_and_watermarks(strategy)


def events(env, kind, where):
    """Return the persons, auctions or bids among `where` generated events, or in the folder `where`."""
    if isinstance(where, int):
        from penstock.operators.connectors.nexmark import NexmarkSource

        return env.from_source(NexmarkSource(kind, where), WatermarkStrategy.no_watermarks(), kind)
    schema = CsvSchema.builder()
    for field in FIELDS[kind].split():
        if field.isupper():
            schema.add_string_column(field.lower())
        else:
            schema.add_number_column(field, DataTypes.BIGINT())
    files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema.build()), f"{where}/{kind}")
    return env.from_source(files.build(), WatermarkStrategy.no_watermarks(), kind)


def q0(env, where):
    """Pass through."""
    return events(env, "bid", where).map(
        lambda bid: (bid.auction, bid.bidder, bid.price), TUPLE([LONG(), LONG(), LONG()])
    )


def q1(env, where):
    """Prices in euros."""
    return events(env, "bid", where).map(
        lambda bid: (bid.auction, bid.bidder, int(bid.price * 0.908)), TUPLE([LONG(), LONG(), LONG()])
    )


def q2(env, where):
    """Bids on some auctions."""
    bids = events(env, "bid", where).map(lambda bid: (bid.auction, bid.price), TUPLE([LONG(), LONG()]))
    return bids.filter(lambda bid: bid[0] % 123 == 0)


class SellersOfCategory(KeyedCoProcessFunction):
    """Auctions wait for their seller, sellers for auctions."""

    def open(self, ctx: RuntimeContext):
        """Create the state."""
        self.person = ctx.get_state(ValueStateDescriptor("person", Types.PICKLED_BYTE_ARRAY()))
        self.auctions = ctx.get_list_state(ListStateDescriptor("auctions", LONG()))

    def process_element1(self, value, ctx):
        """An auction."""
        person = self.person.value()
        if person is None:
            self.auctions.add(value[0])
        else:
            yield (*person, value[0])

    def process_element2(self, value, ctx):
        """A person."""
        person = value[1:]
        self.person.update(person)
        for auction in self.auctions.get():
            yield (*person, auction)
        self.auctions.clear()


def q3(env, where):
    """Sellers in category 10, in some states."""
    auctions = events(env, "auction", where).map(
        lambda auction: (auction.id, auction.seller, auction.category), TUPLE([LONG(), LONG(), LONG()])
    )
    persons = events(env, "person", where).map(
        lambda person: (person.id, person.name, person.city, person.state),
        TUPLE([LONG(), STRING(), STRING(), STRING()]),
    )
    chosen = auctions.filter(lambda auction: auction[2] == 10)
    nearby = persons.filter(lambda person: person[3] in ("OR", "ID", "CA"))
    keyed = chosen.connect(nearby).key_by(lambda auction: auction[1], lambda person: person[0], LONG())
    return keyed.process(SellersOfCategory(), TUPLE([STRING(), STRING(), STRING(), LONG()]))


class WinningBids(KeyedCoProcessFunction):
    """The highest price of an auction while it was open, emitted when it ends."""

    def open(self, ctx: RuntimeContext):
        """Create the state."""
        self.auction = ctx.get_state(ValueStateDescriptor("auction", Types.PICKLED_BYTE_ARRAY()))
        self.bids = ctx.get_list_state(ListStateDescriptor("bids", TUPLE([LONG(), LONG()])))

    def process_element1(self, value, ctx):
        """An auction."""
        _, category, expires, opened = value
        self.auction.update((category, opened, expires))
        ctx.timer_service().register_event_time_timer(expires)

    def process_element2(self, value, ctx):
        """A bid."""
        _, price, at = value
        self.bids.add((at, price))

    def on_timer(self, timestamp, ctx):
        """The auction has ended."""
        category, opened, expires = self.auction.value()
        prices = [price for at, price in self.bids.get() if opened <= at <= expires]
        self.bids.clear()
        if prices:
            yield category, max(prices), 1


def q4(env, where):
    """Average of the best prices by category."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    auctions = timed(
        events(env, "auction", where),
        [LONG(), LONG(), LONG(), LONG()],
        lambda auction: (auction.id, auction.category, auction.expires, auction.date_time),
    )
    bids = timed(
        events(env, "bid", where),
        [LONG(), LONG(), LONG()],
        lambda bid: (bid.auction, bid.price, bid.date_time),
    )
    both = auctions.connect(bids).key_by(lambda auction: auction[0], lambda bid: bid[0], LONG())
    best = both.process(WinningBids(), TUPLE([LONG(), LONG(), LONG()]))
    summed = best.key_by(lambda best_price: best_price[0], LONG()).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
    return summed.map(lambda category: (category[0], category[1] / category[2]), TUPLE([LONG(), Types.DOUBLE()]))


class Counted(AggregateFunction):
    """Count records."""

    def create_accumulator(self):
        """None yet."""
        return 0

    def add(self, value, accumulator):
        """One more."""
        return accumulator + 1

    def get_result(self, accumulator):
        """The number."""
        return accumulator

    def merge(self, a, b):
        """Both numbers."""
        return a + b


class WithWindow(ProcessWindowFunction):
    """Add the end of the window and the key to the only result."""

    def process(self, key, context, elements):
        """Emit one record per window."""
        for element in elements:
            yield context.window().end, key, element


class Hottest(ProcessWindowFunction):
    """The auctions with the largest count in one window."""

    def process(self, key, context, elements):
        """The hottest auctions."""
        counted = list(elements)
        most = max(number for _, _, number in counted)
        for end, auction, number in counted:
            if number == most:
                yield end, auction, number


def q5(env, where):
    """The auctions with most bids in the last 10 seconds, every 2 seconds."""
    triple = TUPLE([LONG(), LONG(), LONG()])
    bids = timed(events(env, "bid", where), [LONG(), LONG()], lambda bid: (bid.auction, bid.date_time))
    counted = (
        bids.key_by(lambda bid: bid[0], LONG())
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate(Counted(), window_function=WithWindow(), accumulator_type=LONG(), output_type=triple)
    )
    keyed = counted.key_by(lambda count: count[0], LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Hottest(), triple)


class Highest(ProcessWindowFunction):
    """All bids of the highest price in a window."""

    def process(self, key, context, elements):
        """The highest bids."""
        bids = list(elements)
        highest = max(price for _, _, price, _ in bids)
        for auction, bidder, price, _ in bids:
            if price == highest:
                yield context.window().end, auction, bidder, price


def q7(env, where):
    """The highest bids of every 10 seconds."""
    bids = timed(
        events(env, "bid", where),
        [LONG(), LONG(), LONG(), LONG()],
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time),
    )
    windowed = bids.key_by(lambda bid: 0, LONG()).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windowed.process(Highest(), TUPLE([LONG(), LONG(), LONG(), LONG()]))


class NewSellers(ProcessWindowFunction):
    """Persons that arrived and sold in the same window."""

    def process(self, key, context, elements):
        """Emit at most one record per person and window."""
        names = [name for _, name, _ in elements]
        came = [name for name in names if name]
        if came and len(came) < len(names):
            yield key, came[0], context.window().start


def q8(env, where):
    """Persons that arrived and opened an auction within the same 10 seconds."""
    types = [LONG(), STRING(), LONG()]
    persons = timed(
        events(env, "person", where), types, lambda person: (person.id, person.name, person.date_time)
    )
    sellers = timed(
        events(env, "auction", where), types, lambda auction: (auction.seller, "", auction.date_time)
    )
    keyed = persons.union(sellers).key_by(lambda event: event[0], LONG())
    windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windowed.process(NewSellers(), TUPLE([LONG(), STRING(), LONG()]))


QUERIES = {"q0": q0, "q1": q1, "q2": q2, "q3": q3, "q4": q4, "q5": q5, "q7": q7, "q8": q8}


def main():
    """Print the results of one query."""
    if len(sys.argv) < 2 or sys.argv[1] not in QUERIES:
        sys.exit(f"usage: nexmark.py {'|'.join(QUERIES)} [EVENTS | DIR [OUT]]")
    name = sys.argv[1]
    where = sys.argv[2] if len(sys.argv) > 2 else "10000"
    out = sys.argv[3] if len(sys.argv) > 3 else None
    env = StreamExecutionEnvironment.get_execution_environment()
    results = QUERIES[name](env, int(where) if where.isdigit() else where)
    if out is None:
        results.print()
    else:
        results.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build())
    env.execute(f"nexmark {name}")


if __name__ == "__main__":
    main()
