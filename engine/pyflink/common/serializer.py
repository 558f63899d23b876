"""Serializers, as pyflink.common.serializer names them."""

from penstock.operators.common.basic_types import TypeSerializer, VoidNamespaceSerializer

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

#: What state without namespace has for its namespace.
void = b""
