"""Options by key, as pyflink.common.configuration names them."""

from penstock.operators.common.configuration import Configuration

__all__ = ["Configuration"]
