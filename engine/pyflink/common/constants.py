"""Numbers that PyFlink names. Source: pyflink.common.constants."""

MAX_LONG_VALUE = 2**63 - 1
MIN_LONG_VALUE = -(2**63)

#: Tag of what goes to no side output.
DEFAULT_OUTPUT_TAG = ""
