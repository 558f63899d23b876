"""Places in a chain, as Flink numbers them.

The head is 1, a source that runs inside of it 0, and the operators after it are higher.
"""

CHAINED_SOURCE, HEAD = 0, 1
