"""Formats of files and messages, under the names of PyFlink's pyflink.datastream.formats."""
