"""Kinds of operators with several inputs."""

from operators.kinds import OPERATOR_KINDS

MULTIPLE_INPUTS = [kind for kind, properties in OPERATOR_KINDS.items() if properties.multiple_inputs]
