"""Disturbed samples: on a modelled device, those that take more than the model charges for their own files.

The claim has the rule before anything is measured (fsage.model.device.DISTURBED), and the rule looks at no other
sample. Such a sample is taken again, a few times at most. Each stays in raw/, and the record counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from fsage.model.typed import Json, JsonView

PHASES = ("write", "read")


def why(record: JsonView) -> str | None:
    """Why a sample is disturbed; None: it is not, or nobody knows."""
    rule = _rule(record)
    charges_s = record.get("model_seconds")
    if not rule or not charges_s or record["status"] != "valid" or record["kind"] in ("traced", "warm_up"):
        return None
    for phase in PHASES:
        seconds = record["metrics"].get(f"{phase}_seconds", 0.0)
        over_percent = 100 * (seconds / charges_s - 1)
        if over_percent > rule["over_percent"]:
            return (
                f"disturbed: {phase} took {seconds:.2f} s, {over_percent:.0f}% over the {charges_s:.2f} s that the "
                "device charges for its extents"
            )
    return None


def again(record: Json, before: Iterable[JsonView]) -> bool:
    """Whether a sample is to be taken again. Notes in its record how many of the cell were disturbed.

    `before`: the records of the attempts before, the last one first.
    """
    rule = _rule(record)
    if not rule or not record.get("model_seconds"):
        return False
    most = rule["again_at_most"] + 1
    disturbed = sum(1 for _ in takewhile(why, before)) % most  # after the last attempt another series begins
    reason = why(record)
    record["disturbed"] = disturbed + bool(reason)
    if reason and record["disturbed"] == most:
        record["warnings"] = [*record["warnings"], f"{reason}, as were the {disturbed} samples before"]
    return bool(reason) and record["disturbed"] < most


def _rule(record: JsonView) -> Json | None:
    rule: Json | None = (record["conditions"].get("device_model") or {}).get("disturbed")
    return rule
