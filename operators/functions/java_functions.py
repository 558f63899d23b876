"""Functions that PyFlink takes from Java. They have a name here, but cannot be made.

Source: pyflink.datastream.functions.
"""

from typing import Any, NoReturn

from penstock.operators.common.no_java import no_java


class JavaFunctionWrapper:
    """A function written in Java. Raises NoJavaError when made."""

    def __init__(self, j_function: Any) -> None:
        no_java(f"{type(self).__name__}({j_function!r})")

    def get_java_function(self) -> NoReturn:
        no_java("JavaFunctionWrapper.get_java_function")


class SourceFunction(JavaFunctionWrapper):
    """A source written in Java. Raises NoJavaError when made."""

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """A sink written in Java. Raises NoJavaError when made."""

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)
