"""The figures of network buffers that add up over a task."""

FIGURES = ("required", "target", "announced")
