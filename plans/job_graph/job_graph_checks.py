"""Messages for topologies whose JobGraph Flink refuses, and the order of its checks."""

from penstock.plans.topology.job_settings import SettingStep

(
    LOCAL_RECOVERY,
    CHECKPOINTING,
    CHAINING,
    COLLISION,
    FORCE_UNALIGNED,
    UNALIGNED,
    PAUSED_SOURCES,
    CHAINED_SOURCE,
    EMPTY_NAME,
    FORWARD_GROUP,
    CONNECT,
    HYBRID_JOB,
    HYBRID_GROUP,
    CO_LOCATION,
    MEMORY_FRACTION,
    OVERRIDES,
    OVERRIDE,
) = range(17)
SETTING_STEPS = {
    SettingStep.APPROXIMATE_LOCAL_RECOVERY: LOCAL_RECOVERY,
    SettingStep.CHECKPOINTING: CHECKPOINTING,
    SettingStep.OPERATOR_CHAINING: CHAINING,
    SettingStep.FORCE_UNALIGNED: FORCE_UNALIGNED,
    SettingStep.PAUSE_SOURCES: PAUSED_SOURCES,
    SettingStep.PARALLELISM_OVERRIDES: OVERRIDES,
}
"""The check at which Flink reads each setting that every JobGraph needs."""
COLLIDING_UID = (
    'Hash collision on user-specified ID "',
    '". Most likely cause is a non-unique ID. Please check that all IDs specified via `uid(String)` '
    "are unique.",
)
UNALIGNED_CUSTOM_PARTITIONER = (
    "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is not "
    "guaranteed to work correctly.\nThe user can force Unaligned Checkpoints by using "
    "'execution.checkpointing.unaligned.forced'"
)
EMPTY_STRING = ("Empty string operator ", " is not allowed")
TOO_SMALL_MAX = (
    "There is a job vertex in the forward group whose maximum parallelism is smaller than the "
    "group's parallelism"
)
INCOMPATIBLE = {
    "distribution": "Incompatible distribution pattern.",
    "broadcast": "Incompatible broadcast type.",
    "forward": "Incompatible forward type.",
}
"""Columns in which all consumers of a data set must agree, and the message if they differ."""
BUFFER_TIMEOUT = (
    "only canBePipelinedConsumed partition support buffer timeout ",
    " for src operator in edge (",
    " -> ",
    ", typeNumber=",
    ", outputPartitioner=",
    ", exchangeMode=",
    ", bufferTimeout=",
    ", outputTag=",
    ", uniqueId=",
    "). \nPlease either disable buffer timeout (via -1) or use the canBePipelinedConsumed partition.",
)
"""The text before, between and after the values in the message."""
OUTPUT_TAG = ("OutputTag(Long, ", ")")
NO_OUTPUT_TAG = "null"
HYBRID_IN_STREAMING = (
    "hybrid shuffle mode only supports batch job, please set execution.runtime-mode to BATCH"
)
HYBRID_BESIDE_GROUP = "hybrid shuffle mode currently does not support setting non-default slot sharing group."
NOT_AN_INTEGER = ('For input string: "', '"')
BELOW_ONE = "The parallelism must be at least one, or -1 (unset)."
"""Messages of Integer.parseInt and JobVertex.setParallelism for an override."""
SPLIT_CO_LOCATION = "Cannot co-locate operators from different slot sharing groups"


MAX_INT = 2**31 - 1
ARITHMETIC = "ArithmeticException"
LONG_BY_ZERO, BIG_INTEGER_BY_ZERO = "/ by zero", "BigInteger divide by zero"
MAX_LONG_WEIGHT = (2**63 - 1) // 10**16
"""Up to this weight, a fraction of 16 decimals is computed in a long."""

NOT_A_FRACTION = "managedMemFraction.OPERATOR should be in range [0.0, 1.0], but was: "
SMALLEST_TABLE, LOAD_FACTOR = 4, 0.75
"""A Java HashMap has 2^4 places or more, and is at most three quarters full."""
