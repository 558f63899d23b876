"""Finds what an author has set on operators that PyFlink fuses away, and so forgets.

Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.createChainedTransformation, which keeps
the first operator's uid and hash.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.runtime.lowered_transformation import LostSetting, LoweredTransformation


def lost_settings(transformations: Iterable[LoweredTransformation]) -> tuple[LostSetting, ...]:
    """The uids, hashes and names of operators that have become a part of another one, but its first."""
    return tuple(
        LostSetting(
            setting=setting,
            value=str(value),
            name=step.name,
            fused_into=one.name,
            line=step.call.set_at.get(setting),
        )
        for one in transformations
        for step in one.steps[1:]
        if step.call is not None
        for setting in ("uid", "uid_hash", "name")
        if (value := getattr(step.call, setting)) is not None
        and (setting != "name" or setting in step.call.set_at)
    )
