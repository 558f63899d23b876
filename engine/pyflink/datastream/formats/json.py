"""JSON, under PyFlink's names."""

from penstock.operators.formats.json_values import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
