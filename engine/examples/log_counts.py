"""Count errors in a log by service and minute: penstock run engine/examples/log_counts.py [LINES]"""

import sys

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import TumblingEventTimeWindows

SERVICES = ("cart", "login", "search", "stock")
LEVELS = ("INFO", "INFO", "WARN", "INFO", "ERROR", "INFO", "INFO")
ENTRY = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])


class LoggedAt(TimestampAssigner):
    """The time in a log entry."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds since the epoch."""
        return value[2]


class Count(ProcessWindowFunction):
    """Add the start of the minute to a count."""

    def process(self, key, context, elements):
        """Emit one record per service and minute."""
        (total,) = elements
        yield key, context.window().start, total[1]


def entry(number):
    """Parse a generated log line; there are four per second."""
    line = f"{number * 250} {SERVICES[number * 7 % 4]} {LEVELS[number % 7]} request {number}"
    at, service, level, *_ = line.split()
    return service, level, int(at)


def main():
    """Print the number of errors of each service in each minute."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "log", Types.LONG()
    )
    errors = (
        numbers.map(entry, ENTRY)
        .filter(lambda logged: logged[1] == "ERROR")
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LoggedAt())
        )
        .map(lambda logged: (logged[0], 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .reduce(
            lambda a, b: (a[0], a[1] + b[1]),
            window_function=Count(),
            output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]),
        )
    )
    errors.print()
    env.execute("log counts")


if __name__ == "__main__":
    main()
