"""Formats that sources read. Source: pyflink.common.io."""

from typing import Any

from penstock.operators.common.no_java import no_java


class InputFormat:
    """A format that a source reads. Penstock's formats are its subclasses.

    Raises NoJavaError if it is constructed from a Java object.
    """

    def __init__(self, j_input_format: Any = None) -> None:
        if j_input_format is not None:
            no_java("InputFormat")
