"""What a claim froze of a target's declaration. An edit of it is applied or refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fsage.model import kinds
from fsage.model.claim import Claim, utc_now
from fsage.model.errors import Refusal
from fsage.model.target import BLOCKS, CLAIMED, MADE, NOTED, Spec, edits
from fsage.model.typed import JsonView


def decided(key: str) -> str:
    """How a change of one key is treated; an unknown key is refused."""
    return edits().get(key, CLAIMED)


def flat(spec: JsonView) -> dict[str, object]:
    """A complete declaration, with the keys of its blocks in the form scale.tasks."""
    settings = {}
    for key, value in spec.items():
        if key in BLOCKS:
            settings.update({f"{key}.{name}": inner for name, inner in (value or {}).items()})
        else:
            settings[key] = value
    return settings


def declared(spec: Mapping[str, object]) -> dict[str, object]:
    """What a claim keeps of a complete declaration, to tell later what was edited."""
    kept = {key: value for key, value in flat(spec).items() if decided(key) in (CLAIMED, MADE)}
    return {key: value for key, value in kept.items() if key not in kinds.named(spec["kind"]).meaningless}


def refuse(claim: JsonView, spec: Mapping[str, object]) -> None:
    """`Refusal` where the declaration differs from what was claimed in what cannot change without a new claim."""
    now = flat(spec)
    for key, value in claim.get("declared", {}).items():
        if now.get(key) != value:
            raise Refusal(
                f"target {claim['target']} was claimed with {key} {_said(value)}, and {_said(now.get(key))} is "
                f"declared now; nothing was touched. Declare {_said(value)} again, or {decided(key)}"
            )


def as_declared(claim: Claim, spec: Spec) -> Claim:
    """The claim with what may change as it is declared now; the same one where nothing of that differs."""
    now = {key: value for key, value in flat(spec).items() if decided(key) == NOTED}
    edits = [
        {"when": utc_now(), "key": key, "from": claim.get(key), "to": value}
        for key, value in now.items()
        if claim.get(key, value) != value
    ]
    if edits:
        return cast(Claim, {**claim, **now, "edits": [*claim.get("edits", []), *edits]})
    return claim


def launch(claim: Mapping[str, object]) -> dict[str, object]:
    """How tasks are started, for conditions."""
    return {key: claim.get(key) for key in ("launcher", "launcher_options", "tasks")}


def _said(value: object) -> str:
    if value is None:
        return "nothing"
    return str(value)
