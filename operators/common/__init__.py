"""What PyFlink keeps in pyflink.common and workers need: rows, types, times, keys, columns."""
