"""Count words: penstock run engine/examples/word_count.py [FILE]"""

import sys

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

LINES = ["to be, or not to be,--that is the question:--", "whether 'tis nobler in the mind to suffer"]


def words(line):
    """Yield the words of a line in lower case."""
    for word in line.lower().replace("-", " ").split():
        stripped = word.strip(".,:;'")
        if stripped:
            yield stripped


def main():
    """Print each word with the number of times it occurs."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    if len(sys.argv) > 1:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
        lines = env.from_source(
            source.process_static_file_set().build(), WatermarkStrategy.no_watermarks(), "file"
        )
    else:
        lines = env.from_collection(LINES, Types.STRING())
    counted = (
        lines.flat_map(words, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    counted.print()
    env.execute("word count")


if __name__ == "__main__":
    main()
