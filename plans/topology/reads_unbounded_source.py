"""Whether an operator of a topology reads an unbounded source, also through virtual transformations."""

from collections.abc import Iterable, Sequence

from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind


def reads_unbounded_source(transformations: Iterable[tuple[str, Sequence[int]]]) -> bool:
    """`transformations` are (kind, inputs) with ids 1..n in order; a `legacy_source` is unbounded.

    Sources and virtual transformations count only where an operator reads them, since only those become part
    of the graph (StreamGraphGenerator.existsUnboundedSource).
    """
    unbounded = [False]
    for kind, inputs in transformations:
        from_inputs = any(unbounded[i] for i in inputs)
        if from_inputs and kind not in VIRTUAL_KINDS and kind not in SOURCE_KINDS:
            return True
        unbounded.append(from_inputs or kind == Kind.LEGACY_SOURCE)
    return False
