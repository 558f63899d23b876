"""When a task may start. Source: pyflink.common.input_dependency_constraint."""

from enum import Enum


class InputDependencyConstraint(Enum):
    """As soon as any of its inputs can be read, or all."""

    ANY = 0
    ALL = 1
