"""Plan a giant in blocks: one topology that is too large for one worker.

A block has the transformations of a range of ids, later the vertices of a range of numbers. A stage is a
function of a block and of the messages that other blocks sent it; it calls the columnar planner's functions,
which define every column. Two walks, over operators and over vertices, see the whole giant, as integers.
"""
