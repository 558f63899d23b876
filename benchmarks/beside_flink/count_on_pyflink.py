"""Count lines by key on the real PyFlink: the part of `stream_throughput` that its Python executes.

    python count_on_pyflink.py FOLDER SECONDS

Reads the lines of FOLDER/in, makes a checkpoint each second, and writes "key count" to files exactly once.
A line of JSON on standard output for each change of the committed lines: seconds, and their number. Ends
after SECONDS.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from pyflink.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value} {count}"


def main():
    folder, seconds = Path(sys.argv[1]).absolute(), float(sys.argv[2])
    config = Configuration()
    for name, value in {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "python.execution-mode": os.environ["STREAM_MODE"],
        "python.client.executable": sys.executable,
        "python.executable": sys.executable,
    }.items():
        config.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{folder}/in")
    source = source.monitor_continuously(Duration.of_millis(500)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    counts = lines.key_by(lambda line: line, key_type=Types.STRING()).process(Count(), Types.STRING())
    sink = FileSink.for_row_format(f"file://{folder}/out", Encoder.simple_string_encoder())
    sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    counts.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
    job = env.execute_async("count")
    until = time.monotonic() + seconds
    counted, total = set(), 0
    while time.monotonic() < until:
        time.sleep(0.1)
        parts = {part for part in folder.glob("out/*") if not part.name.startswith(".")} - counted
        if parts:
            now = time.monotonic()
            counted |= parts
            total += sum(part.read_bytes().count(b"\n") for part in parts)
            print(json.dumps([now, total]), flush=True)
    job.cancel().result()


if __name__ == "__main__":
    main()
