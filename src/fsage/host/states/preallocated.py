"""Whether the servers have the preallocation that a step relies on."""

from __future__ import annotations

from fsage.host.lustre.prealloc import NOTE, read, size_words, unavailable_because
from fsage.host.system import files
from fsage.host.targets.target import Target
from fsage.model.errors import Refusal
from fsage.model.structure import Step


def verify_step(target: Target, step: Step) -> None:
    """`Refusal` unless the servers preallocate as much as the step needs to lay out its files."""
    wanted = step.server_preallocation_bytes()
    if not target.has_osts or wanted is None:
        return
    noted = (files.read_json(target.home / "tunables.json") or {}).get(NOTE)
    size = read(noted["asked"]).size_bytes if noted else None
    if not noted or (size != wanted and "table" not in noted["asked"]):
        raise Refusal(
            f"target {target.name}: the servers lay out the state's files in extents of {size_words(wanted)}, and "
            f"tune_prealloc.yml set {noted['asked'] if noted else 'nothing'}: run it with "
            f"tune_prealloc_size={size_words(wanted)} first"
        )
    if why := unavailable_because(target, noted):
        raise Refusal(f"target {target.name}: {why}")
