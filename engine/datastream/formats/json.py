"""JSON, under PyFlink's names."""

from operators.formats.json_schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
