"""How many network buffers a task needs in all, and a slot."""

FIGURES = ("required", "target", "announced")
