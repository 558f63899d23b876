"""Places in a chain, as Flink numbers them: the head is 1, a source that runs inside of it 0, and those after are higher."""

CHAINED_SOURCE, HEAD = 0, 1
