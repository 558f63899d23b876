"""JSON, under PyFlink's names."""

from penstock.operators.formats.json_schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
