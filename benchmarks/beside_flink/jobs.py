"""Jobs that `stream_beside_flink` runs on PyFlink and on Penstock: written for PyFlink, unchanged on both.

Each function takes a stream of RECORD with timestamps, and the Variant of the job, and returns the streams of
text that go into its sinks, by name. Results do not depend on when a watermark comes within a file, or on the
order of records of different keys.
"""

import json
from typing import NamedTuple

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    CoFlatMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
)
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)


def record_type():
    """Return the type of records; PyFlink cannot pickle one that a stream has used."""
    return Types.ROW_NAMED(["user", "amount", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])


RECORD = record_type()
TEXT = Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Variant(NamedTuple):
    """What of a job changes between its first files and its last ones."""

    parallelism: int = 1  # of the keyed operators
    uid: object = "job"  # a prefix of uids, or None
    before: bool = False  # a map stands before the keyed operator
    beside: bool = False  # an operator with a state of its own stands beside it
    ahead: bool = False  # it is made before the others, which get other ids unless they have uids
    parameter: int = 0  # added to a number of the job
    max_parallelism: int = 0  # of the keyed operator


def named(stream, variant, name="main"):
    """Give an operator the variant's parallelism and uid."""
    stream.set_parallelism(variant.parallelism)
    if variant.max_parallelism:
        stream.set_max_parallelism(variant.max_parallelism)
    return stream if variant.uid is None else stream.uid(f"{variant.uid}-{name}")


def user_of(record):
    return record[0]


def after_map(records, variant):
    """Add a map, in variants with an operator before."""
    if not variant.before:
        return records
    mapped = records.map(lambda record: record, output_type=RECORD)
    return mapped if variant.uid is None else mapped.uid("before")


def keyed(records, variant):
    return after_map(records, variant).key_by(user_of, key_type=Types.STRING())


def text(*values):
    return json.dumps(values)


def as_text(record):
    return json.dumps([record[0], record[1]])


def added(a, b):
    return Row(b[0], a[1] + b[1], b[2])


class Added(ReduceFunction):
    def reduce(self, value1, value2):
        return Row(value2[0], value1[1] + value2[1], value2[2])


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        amount = value if isinstance(value, int) else value[1]
        return accumulator[0] + amount, accumulator[1] + 1

    def get_result(self, accumulator):
        return f"{accumulator[0]}/{accumulator[1]}"

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


ACCUMULATOR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield text(ctx.get_current_key(), count, value[1])


def companion(streams, records, variant):
    """Add an operator with state of its own, in variants that have it."""
    if variant.beside or variant.ahead:
        counted = records.key_by(user_of, key_type=Types.STRING()).process(Count(), TEXT)
        streams["beside"] = named(counted, variant, "beside")
    return streams


def process(function):
    """Return the job of one keyed process function."""

    def job(records, variant):
        return {"out": named(keyed(records, variant).process(function(variant), TEXT), variant)}

    return job


# Keyed state


def counts(records, variant):
    return process(lambda variant: Count())(records, variant)


class Lists(KeyedProcessFunction):
    def __init__(self, most):
        self.most = most

    def open(self, runtime_context):
        self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", Types.LONG()))

    def process_element(self, value, ctx):
        self.amounts.add(value[1])
        amounts = list(self.amounts.get())
        yield text(value[0], amounts)
        if len(amounts) >= self.most:
            self.amounts.clear()
        elif value[1] == 7:
            self.amounts.update([0, *amounts[1:]])
        elif value[1] == 3:
            self.amounts.add_all([30, 31])


lists = process(lambda variant: Lists(4 + variant.parameter))


class Maps(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = MapStateDescriptor("seen", Types.LONG(), Types.STRING())
        self.seen = runtime_context.get_map_state(descriptor)

    def process_element(self, value, ctx):
        remainder = value[1] % 4
        had = self.seen.contains(remainder)
        self.seen.put(remainder, f"{self.seen.get(remainder) or ''}{value[1]}")
        if value[1] == 9:
            self.seen.remove(1)
        if value[1] == 8 and not self.seen.is_empty():
            self.seen.put_all({5: "five", 6: "six"})
        items = sorted(self.seen.items())
        yield text(value[0], had, items, sorted(self.seen.keys()), sorted(self.seen.values()))
        if len(items) > 5:
            self.seen.clear()


maps = process(lambda variant: Maps())


class Reducing(KeyedProcessFunction):
    def open(self, runtime_context):
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        )

    def process_element(self, value, ctx):
        self.most.add(value[1])
        self.sum.add(value[1])
        yield text(value[0], self.most.get(), self.sum.get())
        if self.sum.get() > 30:
            self.sum.clear()


reducing = process(lambda variant: Reducing())


class Aggregating(KeyedProcessFunction):
    def open(self, runtime_context):
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), ACCUMULATOR)
        )

    def process_element(self, value, ctx):
        self.mean.add(value[1])
        yield text(value[0], self.mean.get())
        if value[1] == 9:
            self.mean.clear()


aggregating = process(lambda variant: Aggregating())


class ManyTypes(KeyedProcessFunction):
    KINDS = (
        ("row", Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])),
        ("pair", Types.TUPLE([Types.STRING(), Types.DOUBLE()])),
        ("list", Types.LIST(Types.LONG())),
        ("map", Types.MAP(Types.STRING(), Types.LONG())),
        ("flag", Types.BOOLEAN()),
        ("object", Types.PICKLED_BYTE_ARRAY()),
    )

    def open(self, runtime_context):
        self.states = {
            name: runtime_context.get_state(ValueStateDescriptor(name, kind)) for name, kind in self.KINDS
        }

    def process_element(self, value, ctx):
        before = {name: state.value() for name, state in self.states.items()}
        if before["row"] is not None:
            before["row"] = [before["row"].a, before["row"].b]
        if before["object"] is not None:
            before["object"] = sorted(before["object"])
        yield json.dumps([value[0], before], sort_keys=True)
        amount = value[1]
        self.states["row"].update(Row(a=amount, b="é" * (amount % 3)))
        self.states["pair"].update((f"p{amount}", amount / 8))
        self.states["list"].update([amount] * (amount % 4))
        self.states["map"].update({"k": amount, f"k{amount}": 1})
        self.states["flag"].update(amount % 2 == 0)
        self.states["object"].update({amount, amount + 1})
        if amount == 5:
            self.states["flag"].clear()


many_types = process(lambda variant: ManyTypes())


def lasting(descriptor, milliseconds, on_read=False):
    """Give a state a time to live."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(milliseconds))
    if on_read:
        builder.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
    builder.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


class Lasting(KeyedProcessFunction):
    """State with a time to live that is over by the next file, or lasts for all of them."""

    def __init__(self, milliseconds, on_read=False):
        self.milliseconds = milliseconds
        self.on_read = on_read

    def open(self, runtime_context):
        last, on_read = self.milliseconds, self.on_read
        get = runtime_context
        self.count = get.get_state(lasting(ValueStateDescriptor("count", Types.LONG()), last, on_read))
        self.amounts = get.get_list_state(lasting(ListStateDescriptor("list", Types.LONG()), last, on_read))
        self.seen = get.get_map_state(
            lasting(MapStateDescriptor("map", Types.LONG(), Types.LONG()), last, on_read)
        )
        self.all = get.get_state(ValueStateDescriptor("all", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        total = (self.all.value() or 0) + 1
        self.all.update(total)
        before = list(self.amounts.get() or ())
        self.amounts.add(value[1])
        keys = sorted(self.seen.keys())
        self.seen.put(value[1], 1)
        yield text(value[0], count, before, keys, total)


ttl_long = process(lambda variant: Lasting(3_600_000 + 1000 * variant.parameter))
ttl_on_read = process(lambda variant: Lasting(3_600_000, on_read=True))
ttl_short = process(lambda variant: Lasting(20))  # a key comes once in a file


class CountedMap(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + value[1])
        return text("map", value[0], self.count.value())


class EachSecond(FilterFunction):
    def open(self, runtime_context):
        self.passed = runtime_context.get_state(ValueStateDescriptor("passed", Types.BOOLEAN()))

    def filter(self, value):
        self.passed.update(not self.passed.value())
        return self.passed.value()


class Differences(FlatMapFunction):
    def open(self, runtime_context):
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.LONG()))

    def flat_map(self, value):
        before = self.before.value()
        self.before.update(value[1])
        if before is not None:
            yield text("flat", value[0], value[1] - before)


def rich_functions(records, variant):
    stream = keyed(records, variant)
    mapped = named(stream.map(CountedMap(), output_type=TEXT), variant, "map")
    flat = named(stream.flat_map(Differences(), output_type=TEXT), variant, "flat")
    kept = named(stream.filter(EachSecond()), variant, "filter")
    return {"map": mapped, "flat": flat, "kept": kept.map(as_text, output_type=TEXT)}


def rolling_reduce(records, variant):
    reduced = named(keyed(records, variant).reduce(added), variant)
    return {"out": reduced.map(as_text, output_type=TEXT)}


def rolling_functions(records, variant):
    stream = keyed(records, variant)
    total = named(stream.sum(1), variant, "sum").map(as_text, output_type=TEXT)
    most = named(stream.max_by(1), variant, "max").map(as_text, output_type=TEXT)
    least = named(stream.min(1), variant, "min").map(as_text, output_type=TEXT)
    return {"sum": total, "max": most, "min": least}


# Timers


class Reminders(KeyedProcessFunction):
    """Timers of event time, of which some are deleted again."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[2] + 3_007)
        timers.register_event_time_timer(value[2] + 3_007)
        if value[1] % 2:
            timers.register_event_time_timer(value[2] + 20_011)
        if value[1] % 3 == 0:
            timers.register_event_time_timer(value[2] - 5_003)
            timers.register_event_time_timer(value[2] + 40_000)
            timers.delete_event_time_timer(value[2] + 40_000)

    def on_timer(self, timestamp, ctx):
        yield text(ctx.get_current_key(), timestamp)


reminders = process(lambda variant: Reminders())


class Summaries(KeyedProcessFunction):
    """Timers that read and clear state, and register further timers; for files with ticks."""

    def __init__(self, after):
        self.after = after

    def open(self, runtime_context):
        self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", Types.LONG()))
        self.rounds = runtime_context.get_state(ValueStateDescriptor("rounds", Types.INT()))

    def process_element(self, value, ctx):
        self.amounts.add(value[1])
        # one timer in the minute of the record, one in each of the next two
        ctx.timer_service().register_event_time_timer(value[2] // 60_000 * 60_000 + self.after)

    def on_timer(self, timestamp, ctx):
        rounds = (self.rounds.value() or 0) + 1
        self.rounds.update(rounds)
        yield text(ctx.get_current_key(), timestamp, sorted(self.amounts.get()), rounds)
        if rounds % 3:
            ctx.timer_service().register_event_time_timer(timestamp + 60_000)
        else:
            self.amounts.clear()


summaries = process(lambda variant: Summaries(15_007 + 1_000 * variant.parameter))


class InProcessingTime(KeyedProcessFunction):
    """Timers of processing time: of the past, which fire once, and of a far future."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(value[2])
        ctx.timer_service().register_processing_time_timer(4_000_000_000_000)
        yield text(value[0], self.count.value())

    def on_timer(self, timestamp, ctx):
        yield text("timer", ctx.get_current_key(), timestamp)


processing_time = process(lambda variant: InProcessingTime())


# Windows


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        amounts = sorted(element[1] for element in elements)
        yield text(key, window.start, window.end, amounts)


class Named(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        for element in elements:
            yield text(key, window.start, window.end, element if isinstance(element, str) else element[1])


class States(ProcessWindowFunction):
    """State of each window, and of all windows of a key."""

    def process(self, key, context, elements):
        descriptor = ValueStateDescriptor("fired", Types.LONG())
        fired = context.window_state().get_state(descriptor)
        fired.update((fired.value() or 0) + 1)
        windows = context.global_state().get_state(ValueStateDescriptor("all", Types.LONG()))
        windows.update((windows.value() or 0) + 1)
        window = context.window()
        amounts = sorted(element[1] for element in elements)
        yield text(key, window.start, window.end, amounts, fired.value(), windows.value())

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired", Types.LONG())).clear()


def windowed(assigner, how, lateness=0, side=False, trigger=None):
    """Return the job of one window."""

    def job(records, variant):
        windows = keyed(records, variant).window(assigner(variant))
        if trigger is not None:
            windows = windows.trigger(trigger(variant))
        if lateness:
            windows = windows.allowed_lateness(lateness)
        late = OutputTag("late", record_type())
        if side:
            windows = windows.side_output_late_data(late)
        result = named(how(windows), variant)
        streams = {"out": result}
        if side:
            streams["late"] = result.get_side_output(late).map(as_text, output_type=TEXT)
        return streams

    return job


def by_process(function=Contents):
    return lambda windows: windows.process(function(), TEXT)


def by_reduce(windows):
    return windows.reduce(Added(), window_function=Named(), output_type=TEXT)


def by_plain_reduce(windows):
    return windows.reduce(added)


def by_aggregate(windows):
    return windows.aggregate(Mean(), window_function=Named(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def tumbling(variant):
    return TumblingEventTimeWindows.of(Time.seconds(10 + 5 * variant.parameter))


def tumbling_with_offset(variant):
    return TumblingEventTimeWindows.of(Time.seconds(10), Time.seconds(3))


def sliding(variant):
    return SlidingEventTimeWindows.of(Time.seconds(12), Time.seconds(4 + 2 * variant.parameter))


def sessions(variant):
    return EventTimeSessionWindows.with_gap(Time.milliseconds(3_501 + 1_000 * variant.parameter))


class GapOfAmount(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 1_501 + 500 * element[1]


def dynamic_sessions(variant):
    return EventTimeSessionWindows.with_dynamic_gap(GapOfAmount())


def global_windows(variant):
    return GlobalWindows.create()


def minutes(variant):
    return TumblingEventTimeWindows.of(Time.minutes(2))


class EachLarge(Trigger):
    """Fires for each third record, and purges for a large one."""

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.counted())
        count.add(1)
        if element[1] == 9:
            count.clear()
            return TriggerResult.FIRE_AND_PURGE
        if count.get() >= 3:
            count.clear()
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.counted())
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.counted()).clear()
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def counted():
        return ReducingStateDescriptor("trigger count", lambda a, b: a + b, Types.LONG())


def rows_of(job):
    """Return a job whose first stream is of records."""

    def with_text(records, variant):
        streams = job(records, variant)
        return {**streams, "out": streams["out"].map(as_text, output_type=TEXT)}

    return with_text


def count_windows(records, variant):
    stream = keyed(records, variant)
    tumbled = named(stream.count_window(3).process(CountContents(), TEXT), variant, "three")
    slid = named(stream.count_window(4, 2).reduce(added), variant, "four")
    return {"tumbling": tumbled, "sliding": slid.map(as_text, output_type=TEXT)}


class CountContents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield text(key, [element[1] for element in elements])


def windows_of_all(records, variant):
    windows = after_map(records, variant).window_all(TumblingEventTimeWindows.of(Time.seconds(7)))
    total = windows.aggregate(Mean(), accumulator_type=ACCUMULATOR, output_type=TEXT)
    return {"out": named(total, variant._replace(parallelism=1, max_parallelism=0))}


# Several operators


class WithSides(KeyedProcessFunction):
    def __init__(self):
        self.large = OutputTag("large", Types.TUPLE([Types.STRING(), Types.LONG()]))
        self.first = OutputTag("first", Types.STRING())

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value, ctx):
        if not self.seen.value():
            yield self.first, text("first", value[0], value[1])
            self.seen.update(True)
        if value[1] > 6:
            yield self.large, (value[0], value[1])
        yield text(value[0], value[1])


def sides(records, variant):
    function = WithSides()
    main = named(keyed(records, variant).process(function, TEXT), variant)
    large = main.get_side_output(function.large)
    large = large.key_by(user_of, key_type=Types.STRING()).reduce(lambda a, b: (b[0], a[1] + b[1]))
    large = named(large, variant, "large").map(as_text, output_type=TEXT)
    return {"out": main, "first": main.get_side_output(function.first), "large": large}


class Both(KeyedCoProcessFunction):
    """Keeps both inputs apart until a timer, for files with ticks."""

    def open(self, runtime_context):
        self.small = runtime_context.get_list_state(ListStateDescriptor("small", Types.LONG()))
        self.large = runtime_context.get_state(ValueStateDescriptor("large", Types.LONG()))

    def process_element1(self, value, ctx):
        self.small.add(value[1])
        ctx.timer_service().register_event_time_timer(value[2] // 60_000 * 60_000 + 30_007)

    def process_element2(self, value, ctx):
        self.large.update((self.large.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(value[2] // 60_000 * 60_000 + 30_007)

    def on_timer(self, timestamp, ctx):
        small = sorted(self.small.get())
        yield text(ctx.get_current_key(), timestamp, small, self.large.value())
        if len(small) > 3:
            self.small.clear()


def is_small(record):
    return record[1] < 5


def is_large(record):
    return record[1] >= 5


def connected(records, variant):
    small = keyed(records.filter(is_small), variant)
    large = records.filter(is_large).key_by(user_of, key_type=Types.STRING())
    return {"out": named(small.connect(large).process(Both(), TEXT), variant)}


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Rules(KeyedBroadcastProcessFunction):
    """Counts with the number of rules so far; for files with ticks, which are the rules."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield text(value[0], self.count.value(), ctx.get_broadcast_state(RULES).get("rules"))

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        rules.put("rules", (rules.get("rules") or 0) + 1)


def is_tick(record):
    return record[2] % 60_000 == 8_000


def is_user(record):
    return record[0] != "~"


def broadcast(records, variant):
    rules = records.filter(is_tick).broadcast(RULES)
    users = keyed(records.filter(is_user), variant)
    return {"out": named(users.connect(rules).process(Rules(), TEXT), variant)}


class EachSide(CoFlatMapFunction):
    def open(self, runtime_context):
        self.counts = [
            runtime_context.get_state(ValueStateDescriptor(name, Types.LONG())) for name in ("one", "two")
        ]

    def counted(self, side, value):
        count = (self.counts[side].value() or 0) + 1
        self.counts[side].update(count)
        return text(side, value[0], count, value[1])

    def flat_map1(self, value):
        yield self.counted(0, value)

    def flat_map2(self, value):
        yield self.counted(1, value)


def connected_flat_map(records, variant):
    small = keyed(records.filter(is_small), variant)
    large = records.filter(is_large).key_by(user_of, key_type=Types.STRING())
    return {"out": named(small.connect(large).flat_map(EachSide(), TEXT), variant)}


def union(records, variant):
    doubled = records.filter(is_small).map(
        lambda record: Row(record[0], record[1] * 2, record[2]), output_type=RECORD
    )
    both = keyed(records.filter(is_large).union(doubled), variant)
    windows = both.window(TumblingEventTimeWindows.of(Time.seconds(8))).process(Contents(), TEXT)
    return {"out": named(windows, variant)}


class Parity(KeyedProcessFunction):
    """Counts, whatever the order of its records."""

    def open(self, runtime_context):
        self.count = runtime_context.get_map_state(MapStateDescriptor("count", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        name = value[0]
        self.count.put(name, (self.count.get(name) or 0) + 1)
        yield text(ctx.get_current_key(), name, self.count.get(name))


class CountPair(Count):
    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def parity_of(pair):
    return pair[1] % 2


def keyed_in_a_row(records, variant):
    counted = named(keyed(records, variant).process(CountPair(), PAIR), variant, "count")
    parity = counted.key_by(parity_of, key_type=Types.LONG()).process(Parity(), TEXT)
    return {"out": named(parity, variant, "parity")}


class WindowPair(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, sum(element[1] for element in elements)


class WindowEnd(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield text(key, context.window().end, sorted(element[1] for element in elements))


def windows_of_windows(records, variant):
    short = keyed(records, variant).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    short = named(short.process(WindowPair(), PAIR), variant, "short")
    long = short.key_by(user_of, key_type=Types.STRING())
    long = long.window(TumblingEventTimeWindows.of(Time.seconds(20 + 10 * variant.parameter)))
    return {"out": named(long.process(WindowEnd(), TEXT), variant, "long")}


class CountOfWindows(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5_000)
        yield text(value[0], ctx.timestamp(), self.total.value())

    def on_timer(self, timestamp, ctx):
        yield text("timer", ctx.get_current_key(), timestamp)


def process_of_windows(records, variant):
    short = keyed(records, variant).window(TumblingEventTimeWindows.of(Time.seconds(6)))
    short = named(short.process(WindowPair(), PAIR), variant, "short")
    counted = short.key_by(user_of, key_type=Types.STRING()).process(CountOfWindows(), TEXT)
    return {"out": named(counted, variant, "count")}


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def own_watermarks(records, variant):
    """Watermarks of a strategy of the job itself."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2_000))
    stamped = records.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(At()))
    windows = keyed(stamped, variant).window(tumbling(variant)).process(Contents(), TEXT)
    return {"out": named(windows, variant)}


#: Each job: its function, and its files (plain, late, ticks, once).
SHAPES = {
    "counts": (counts, "plain"),
    "counts with late records": (counts, "late"),
    "lists": (lists, "plain"),
    "maps": (maps, "plain"),
    "reducing state": (reducing, "plain"),
    "aggregating state": (aggregating, "plain"),
    "many types": (many_types, "plain"),
    "TTL of an hour": (ttl_long, "plain"),
    "TTL, updated by reads": (ttl_on_read, "late"),
    "TTL of 20 ms": (ttl_short, "once"),
    "rich functions": (rich_functions, "plain"),
    "reduce": (rolling_reduce, "late"),
    "sum, max_by, min": (rolling_functions, "plain"),
    "event-time timers": (reminders, "plain"),
    "timers of late records": (reminders, "late"),
    "timers that read state": (summaries, "ticks"),
    "processing-time timers": (processing_time, "plain"),
    "tumbling, process": (windowed(tumbling, by_process()), "plain"),
    "tumbling, reduce": (windowed(tumbling_with_offset, by_reduce), "plain"),
    "tumbling, plain reduce": (rows_of(windowed(tumbling, by_plain_reduce)), "plain"),
    "tumbling, aggregate": (windowed(tumbling, by_aggregate), "late"),
    "sliding, process": (windowed(sliding, by_process()), "plain"),
    "sliding, aggregate": (windowed(sliding, by_aggregate), "late"),
    "sessions, process": (windowed(sessions, by_process()), "plain"),
    "sessions, reduce": (windowed(sessions, by_reduce), "late"),
    "sessions, dynamic gap": (windowed(dynamic_sessions, by_aggregate), "plain"),
    "lateness and late side": (windowed(tumbling, by_process(), 6_000, side=True), "late"),
    "sliding, lateness, late side": (windowed(sliding, by_reduce, 5_000, side=True), "late"),
    "sessions, lateness, late side": (windowed(sessions, by_process(), 4_000, side=True), "late"),
    "late side without lateness": (windowed(tumbling, by_aggregate, side=True), "late"),
    "window and global state": (windowed(tumbling, by_process(States), 6_000), "late"),
    "count trigger": (windowed(minutes, by_process(), trigger=lambda variant: CountTrigger.of(2)), "plain"),
    "purging count trigger": (
        windowed(
            global_windows,
            by_process(CountContents),
            trigger=lambda variant: PurgingTrigger.of(CountTrigger.of(3)),
        ),
        "plain",
    ),
    "continuous trigger": (
        windowed(
            minutes, by_process(), trigger=lambda variant: ContinuousEventTimeTrigger.of(Time.seconds(45))
        ),
        "ticks",
    ),
    "custom trigger": (windowed(tumbling, by_process(), trigger=lambda variant: EachLarge()), "plain"),
    "custom trigger of sessions": (
        windowed(sessions, by_process(), trigger=lambda variant: EachLarge()),
        "plain",
    ),
    "count windows": (count_windows, "plain"),
    "windows of all": (windows_of_all, "plain"),
    "side outputs": (sides, "plain"),
    "connected streams": (connected, "ticks"),
    "connected flat_map": (connected_flat_map, "plain"),
    "union": (union, "plain"),
    "broadcast state": (broadcast, "ticks"),
    "keyed operators in a row": (keyed_in_a_row, "plain"),
    "windows of windows": (windows_of_windows, "plain"),
    "timers of windows": (process_of_windows, "plain"),
    "own watermarks": (own_watermarks, "late"),
}


def build(name, records, variant):
    """Return the streams of text of a job, by the names of their sinks."""
    job, _ = SHAPES[name]
    if variant.ahead:
        return {**companion({}, records, variant), **job(records, variant)}
    return companion(job(records, variant), records, variant)
