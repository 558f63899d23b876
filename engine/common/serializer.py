"""Serializers, as pyflink.common.serializer names them."""

from operators.common.serializer import TypeSerializer, VoidNamespaceSerializer

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]
