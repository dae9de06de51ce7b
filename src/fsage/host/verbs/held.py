"""What a machine holds for fsage, whichever clone made it: claimed targets, images, directories with a lost claim."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from fsage.base import GIB, Failure, Json, Refusal, in_words
from fsage.host.system import files
from fsage.host.targets import claims, kinds
from fsage.model import declaration
from fsage.model.answers import HeldTarget
from fsage.model.target import Spec


def held(homes: Sequence[Path], declared: Sequence[Spec]) -> list[HeldTarget]:
    """The targets that these homes note, and declared ones that have a claim's mark and no note. Changes nothing."""
    found = [target for home in homes for target in _noted(home)]
    known = {target.home for target in found}
    for spec in declared:
        home = declaration.home_of(spec)
        with contextlib.suppress(Refusal, Failure, OSError):  # another file system, or none: nothing of ours is known
            if home not in known and (left := kinds.named(spec["kind"]).left_behind(spec)):
                place = left["stores"][0]["mount"]
                what = f"{place}, claimed {left.get('created', 'once')}, whose note is lost"
                found.append(HeldTarget(spec["name"], spec["kind"], home, what, None, left["id"]))
    return found


def _noted(home: Path) -> list[HeldTarget]:
    try:
        names = sorted(os.listdir(home))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [HeldTarget(str(home), "", home, f"which cannot be read ({error.strerror})", None)]
    found = []
    for name in names:
        place = home / name
        if not place.is_dir():
            continue
        try:
            claim = files.read_json(place / "claim.json")
            images = files.read_json(place / "images.json")
        except (Refusal, Failure, OSError) as why:
            found.append(HeldTarget(name, "", place, f"whose note cannot be read ({in_words(why)})", None))
            continue
        if claim or images:
            inventory = place / claims.INVENTORY
            kind = claim["kind"] if claim else "loop"
            what = _words(claim, images)
            found.append(HeldTarget(name, kind, place, what, inventory if inventory.exists() else None))
    return found


def _words(claim: Json | None, images: Json | None) -> str:
    """Since when it is held, and where."""
    if claim:
        since = f"{claim['status']} {claim['created']} on {claim['host']}"
    else:
        since = "made, not claimed"
    if images:
        if "below" in images:
            on_disk = [images["below"]]
        else:
            on_disk = images["images"]
        where = f"{_taken(on_disk)} in {Path(on_disk[0]['image']).parent}"
    else:
        if claim:
            where = str(claim["stores"][0]["mount"])
        else:
            where = "nowhere"
    return f"{since}, {where}"


def _taken(images: Sequence[Json]) -> str:
    """What images take on the disk; nothing where one is gone."""
    taken_bytes = 0
    for image in images:
        try:
            taken_bytes += os.stat(image["image"]).st_blocks * 512
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"images whose size cannot be read ({error.strerror})"
    return f"{taken_bytes / GIB:.1f} GiB"
