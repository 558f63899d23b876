"""What PyFlink fuses to one operator, what it does not, and what is lost by it.

Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.
"""

from typing import Any

from penstock.engine.runtime.lowered_transformation import LostSetting, LoweredJob

_LOST = {
    "uid": "state saved under it is not found: the fused operator has the uid of its first one, or none",
    "uid_hash": "state saved under it is not found: the fused operator has the hash of its first one",
    "name": "it is a part of the fused operator's name; metrics are by that one",
}


def lost_setting_text(lost: LostSetting) -> str:
    """A setting that PyFlink forgets, as a sentence."""
    where = f" ({lost.line})" if lost.line else ""
    return (
        f"{lost.setting} {lost.value!r}{where} of {lost.name!r} is lost, because PyFlink fuses the operator "
        f"into {lost.fused_into!r}; {_LOST[lost.setting]}"
    )


def explain_fusing(lowered: LoweredJob) -> dict[str, Any]:
    """Fused operators, pairs that are not fused with the reasons, and what is lost; for `--json`, too.

    In process mode each boundary between two Python operators costs a Python process in each subtask, and the
    second operator's records are serialised into it and out of it.
    """
    fused = [one for one in lowered.submitted.physical.values() if len(one.steps) > 1 and one.python]
    names = {one.id: one.name for one in lowered.submitted.physical.values()}
    return {
        "fused": [{"node": one.id, "operators": [step.name for step in one.steps]} for one in fused],
        "not_fused": [
            {
                "source": {"node": one.source, "name": names[one.source]},
                "target": {"node": one.target, "name": names[one.target]},
                "reasons": list(one.reasons),
            }
            for one in lowered.not_fused
            if one.source in names and one.target in names
        ],
        "boundaries_saved": sum(len(one.steps) - 1 for one in fused),
        "lost_settings": [
            {
                "setting": lost.setting,
                "value": lost.value,
                "operator": lost.name,
                "fused_into": lost.fused_into,
                "line": lost.line,
            }
            for lost in lowered.lost_settings
        ],
    }
