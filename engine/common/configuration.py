"""Options by key, as pyflink.common.configuration names them."""

from operators.common.configuration import Configuration

__all__ = ["Configuration"]
