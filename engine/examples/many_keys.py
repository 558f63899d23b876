"""Count many keys, each of which occurs twice: penstock run -p 1 engine/examples/many_keys.py KEYS

`--conf spark.driver.memory=1g` leaves Python half of the memory of a worker with 2 GB.
"""

import sys

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

if len(sys.argv) != 2:
    sys.exit("usage: many_keys.py KEYS")
KEYS = int(sys.argv[1])


class Count(KeyedProcessFunction):
    """Counts records of a key; for some keys, emits the second count."""

    def open(self, ctx):
        """Create the state."""
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        """Count one record."""
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        if seen == 2 and value % 1_000_000 == 0:
            yield value, seen


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(
    NumberSequenceSource(0, 2 * KEYS - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
)
keyed = numbers.key_by(lambda value: value % KEYS, Types.LONG())
keyed.process(Count(), Types.TUPLE([Types.LONG(), Types.LONG()])).print()
env.execute("many keys")
