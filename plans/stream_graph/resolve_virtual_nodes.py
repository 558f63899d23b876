"""Kinds of operators with several inputs, and kinds that may be keyed."""

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.vocabulary import Kind

MULTIPLE_INPUTS = [kind for kind, properties in OPERATOR_KINDS.items() if properties.multiple_inputs]
KEYED_BEHIND_HASH = (Kind.ONE_INPUT, Kind.WRITER, Kind.COMMITTER)
"""Kinds that are keyed right after a hash partition: KeyedStream.doTransform makes their operators."""
