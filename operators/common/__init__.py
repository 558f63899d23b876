"""The part of pyflink.common that workers need: rows, types, times, keys, columns."""
