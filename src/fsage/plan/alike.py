"""Whether several targets are alike in what their rates depend on, by what was declared and what was claimed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from fsage.plan.plan import Plan
from fsage.study.study import StudyError

DECLARED = ("kind", "filesystem", "stores", "scale", "allocator_reset", "launcher", "launcher_options", "device_model")
CLAIMED = ("kernel", "tasks", "amount_mib", "tools", "images")
CAPACITY_WITHIN = 0.01
"""Capacities that differ by more are unlike: AA% of them are other sizes."""


def unlike(plans: Sequence[Plan]) -> list[str]:
    """Return in what targets differ, each in words: 'filesystem: ext4 on ssu1, xfs on ssu2'."""
    sentences: list[str] = []
    for key in DECLARED:
        values = {plan.target.name: _text(getattr(plan.target, key)) for plan in plans}
        sentences += _differing(key, values)
    claims = {plan.target.name: plan.claim for plan in plans if plan.claim}
    for key in CLAIMED:
        sentences += _differing(key, {name: _text(claim.get(key)) for name, claim in claims.items()})
    sizes = {name: claim["capacity_bytes"] for name, claim in claims.items() if "capacity_bytes" in claim}
    if sizes and max(sizes.values()) > (1 + CAPACITY_WITHIN) * min(sizes.values()):
        sentences += _differing("capacity", {name: f"{size / 2**30:.4g} GiB" for name, size in sizes.items()})
    return sentences


def refuse_same(plans: Sequence[Plan]) -> None:
    """Raise StudyError where two targets are one: a state that a run builds on one would be destroyed by the other."""
    owners: dict[str, str] = {}
    for plan in plans:
        for identity in set(_identities(plan)):
            other = owners.setdefault(identity, plan.target.name)
            if other != plan.target.name:
                raise StudyError(
                    f"targets {other} and {plan.target.name} are two names of one: both have {identity}; "
                    "name one of them"
                )


def _identities(plan: Plan) -> Iterator[str]:
    """What a target is told by, in words."""
    spec, claim = plan.target, plan.claim
    if spec.lustre:
        yield f"directory {spec.directory} of Lustre file system {spec.lustre.fsname} of {spec.lustre.mgs}"
    if claim is None:
        return
    for store in claim["stores"]:
        if "image_id" in store:
            of = store["image_id"]
            yield f"image {of['dev']}:{of['ino']} on machine {claim.get('machine', claim.get('host'))}"
        for uuid in store.get("uuids", ()):
            yield f"a file system of UUID {uuid}"
        if "directory_id" in store:
            yield f"directory {_text(store['directory_id'])}"


def _differing(what: str, values: dict[str, str]) -> Iterable[str]:
    if len(set(values.values())) < 2:
        return []
    return [f"{what.replace('_', ' ')}: " + ", ".join(f"{value} on {name}" for name, value in values.items())]


def _text(value: object) -> str:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
