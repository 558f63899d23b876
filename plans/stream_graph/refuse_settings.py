"""At which point of translating the StreamGraph Flink reads each setting."""

from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.topology.setting_refusals import SettingStep

MAX_PARALLELISM, BEFORE_INPUTS, INPUT_COUNT, EDGES, TIMEOUT, UID, MEMORY = range(7)
"""The steps of the translation of one operator; its inputs are translated before the third."""

AFTER_ALL = 2**31 - 1
"""Precedence of what Flink reads once all operators are translated, where others have an operator's id."""

CACHED_FILES, CHAINING, CHAINED_MAX_PARALLELISM = range(3)
STEP_OF_OPERATOR = {
    SettingStep.MAX_PARALLELISM: MAX_PARALLELISM,
    SettingStep.BUFFER_TIMEOUT: TIMEOUT,
    SettingStep.AUTO_GENERATE_UIDS: UID,
}
CHAINING_UNREAD = (NotChainableReason.SEVERAL_INPUTS,)
"""Reasons for which Flink does not look whether chaining is enabled."""

MAX_PARALLELISM_UNREAD = (
    NotChainableReason.CHAINING_DISABLED,
    NotChainableReason.DIFFERENT_SLOT_SHARING_GROUP,
    NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE,
)
"""Reasons for which Flink does not look whether operators of different max parallelism may chain."""
