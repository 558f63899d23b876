"""How Flink computes fractions of managed memory in Java numbers, and what it says where that fails."""

MAX_INT = 2**31 - 1
ARITHMETIC = "ArithmeticException"
LONG_BY_ZERO, BIG_INTEGER_BY_ZERO = "/ by zero", "BigInteger divide by zero"
MAX_LONG_WEIGHT = (2**63 - 1) // 10**16
"""Up to this weight, a fraction of 16 decimals is worked out in a long."""

NOT_A_FRACTION = "managedMemFraction.OPERATOR should be in range [0.0, 1.0], but was: "
SMALLEST_TABLE, LOAD_FACTOR = 4, 0.75
"""Of a Java HashMap: the smallest table has 2^4 places; a table is at most three quarters full."""
