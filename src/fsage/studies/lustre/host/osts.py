"""The OSTs of a target on Lustre, and its servers, as a target uses them; and which OSTs those are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fsage.api.helper import shown
from fsage.api.host import Target, run
from fsage.api.model import ALL_OSTS, MIB, Claim, Json, Refusal, Segment, Spec, Step
from fsage.api.target import Request, ServedOsts, preallocation
from fsage.layouts.servers import Ost

from ..helper import lctl
from ..model import Lustre, LustreSpec, Striping, lustre_of
from . import ldiskfs, servers, space, stripes

OTHERS_SHARE = 0.1
"""Others may change the used space of an OST by so much of what fsage may take there, where nothing is declared."""
SHOWN = 3
# Logs and indices of an OST grow while it serves: so many bytes more than at the claim are no objects left behind.
SLACK_BYTES = 64 * MIB
SLACK_SHARE = 0.005


class LustreOsts(ServedOsts):
    """The OSTs of a target on Lustre, and its servers."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.lustre = lustre_of(target.spec)
        self.listed = bool(self.lustre["osts"])

    def sync(self) -> int | None:
        """Have the servers commit; how many objects they still have to destroy, None where no MDT answers."""
        return servers.sync(self)

    @property
    def usable(self) -> list[int] | None:
        """The numbers of the OSTs that files of the target may lie on, where a pool or a list says so; None: all."""
        return self.target.claim["lustre"].get("usable")

    @property
    def tolerance_bytes(self) -> int:  # type: ignore[override]  # declared here, a constant elsewhere
        """As declared, else a share of what fsage may take of each; none where the file system is fsage's alone."""
        claim = self.target.claim
        if claim["filesystem_state_known"]:
            return 0
        declared_mib = self.lustre["tolerance_mib"]
        if declared_mib is not None:
            return declared_mib * MIB
        return int(OTHERS_SHARE * claim["capacity_bytes"] / Lustre.width(claim))

    def layouts(self, answers: Sequence[Json]) -> list[dict[str, object]]:
        return servers.every(self.target, list(answers))

    def fullness(self) -> dict[str, object]:
        return {"osts": space.fullness(space.read_osts(self.target.mounts[0], ()))}

    def spread(self, folder: Path) -> None:
        everywhere: Striping = {"stripe_count": ALL_OSTS, "stripe_size_mib": 1, "first_ost": stripes.ANY}
        stripes.set_on(folder, everywhere, self.lustre)

    def spread_files(self, folder: Path) -> dict[str, Path]:
        numbers = sorted(self.usable or (lctl.number_of(name) for name in self.target.claim["lustre"]["osts"]))
        count = self.lustre["stripe_count"]
        first = self.lustre["first_ost"]
        if first != stripes.ANY and count != ALL_OSTS and not self.listed:
            numbers = stripes.around(numbers, numbers.index(first), count)
        return stripes.one_on_each(folder, numbers)

    def stripe(self, folder: Path, count: int, stripe_bytes: int) -> None:
        stripes.set_on(folder, _striping(count, stripe_bytes), self.lustre)

    def astray(self, paths: Sequence[Path], count: int, stripe_bytes: int) -> list[str]:
        wanted = _striping(count, stripe_bytes)
        osts = Lustre.width(self.target.claim)
        elsewhere: list[str] = stripes.of_files(paths, wanted, osts, allowed=self.usable or ())["astray"]
        return elsewhere

    def lay_out(self, folder: Path, segments: Sequence[Segment], composite: bool) -> None:
        if composite:
            stripes.compose(folder, segments, self.lustre)
            return
        # Tried once, so that a layout which comes otherwise fails here and not in each cell.
        for place in stripes.cut(folder, segments, self.lustre):
            place.rmdir()

    def preallocated(self, request: Request, earlier: Json) -> Json:
        fsname = self.lustre["fsname"]
        osts = Json()
        for server in request.get("osts", []):
            if not ldiskfs.is_answer(fsname, server):
                raise Refusal(f"a server answered {shown(server)}, which is no preallocation of {fsname}'s OSTs")
            osts.update(server)
        if not osts:
            raise Refusal(
                f"target {self.target.name}: no host of the inventory's group servers serves an ldiskfs OST of it"
            )
        before, now = ({name: osts[name][key] for name in sorted(osts)} for key in ("before", "now"))
        first = earlier.get("before", {})
        return {"before": {name: {**before[name], **first.get(name, {})} for name in before}, "now": now}

    def verify_preallocation(self, step: Step) -> None:
        wanted = step.server_preallocation_bytes()
        if wanted is None:
            return
        noted = preallocation.of(self.target)
        size = preallocation.read(noted["asked"]).size_bytes if noted else None
        words = preallocation.size_words(wanted)
        if not noted or (size != wanted and "table" not in noted["asked"]):
            raise Refusal(
                f"target {self.target.name}: the servers lay out the state's files in extents of {words}, and "
                f"tune_prealloc.yml set {noted['asked'] if noted else 'nothing'}: run it with "
                f"tune_prealloc_size={words} first"
            )
        why = self.untuned()
        if why:
            raise Refusal(f"target {self.target.name}: {why}")

    def untuned(self) -> str | None:
        now = (preallocation.of(self.target) or {}).get("now") or {}
        wanted = {ost: entry[ldiskfs.TABLE] for ost, entry in now.items() if ldiskfs.TABLE in entry}
        if not wanted:
            return None
        tables: dict[str, str] = {}
        for answer in self.ask_servers(do="prealloc").values():
            tables.update(answer["tables"])
        other = [
            f"{ost} has {ldiskfs.TABLE} {tables.get(ost)!r}" for ost in sorted(wanted) if tables.get(ost) != wanted[ost]
        ]
        if not other:
            return None
        if len(other) > SHOWN:
            other[SHOWN:] = [f"{len(other) - SHOWN} more have others"]
        first = next(table for ost, table in sorted(wanted.items()) if tables.get(ost) != table)
        return (
            f"{'; '.join(other)}, and tune_prealloc.yml had set {first!r}: an OST loses its table when it is "
            "mounted anew. Another target's tune_prealloc.yml sets it, too. Without a size it sets the last requested "
            "value again"
        )

    def verify_fillers(self) -> None:
        stripes.verify_fillers(self.target)

    def is_used(self, name: str) -> bool:
        if not lctl.is_ost(self.lustre["fsname"], name):
            return True
        number = lctl.number_of(name)
        if self.usable is not None and number not in self.usable:
            return False
        return stripes.any_on(self.target.mounts[0], number)


def _striping(count: int, stripe_bytes: int) -> Striping:
    """The striping of files with so many stripes, as a declaration has it."""
    return {"stripe_count": count, "stripe_size_mib": stripe_bytes // MIB, "first_ost": stripes.ANY}


def why_without(osts: Sequence[Ost], spec: Spec, claim: Claim) -> str | None:
    """Which OSTs that files may lie on are not among `osts`, in words; a deactivated one `lfs df` leaves out."""
    noted = claim["lustre"]
    present = {ost.name for ost in osts}
    usable = {space.name_of(lustre_of(spec)["fsname"], number) for number in noted.get("usable", ())} or noted["osts"]
    gone = sorted(set(usable) - present)
    if not gone:
        return None
    return f"target {spec['name']} was claimed with {', '.join(gone)}, which `lfs df` does not name any more"


def above_claim(osts: Sequence[Ost], claim: Claim) -> list[str]:
    """A sentence for each OST that holds more than at the claim, beyond what it needs itself."""
    sentences = []
    for ost in osts:
        then = claim["lustre"]["osts"][ost.name]["used_bytes"]
        if ost.used_bytes > then + max(SLACK_BYTES, SLACK_SHARE * ost.total_bytes):
            sentences.append(
                f"{ost.name} holds {ost.used_bytes / MIB:.0f} MiB after all of fsage's was deleted, and held "
                f"{then / MIB:.0f} MiB when it was claimed"
            )
    return sentences


def declared_numbers(lustre: LustreSpec) -> list[int] | None:
    """The numbers of the OSTs of the declared pool or list; None where neither is declared: then it may be any."""
    if not lustre["pool"]:
        if lustre["osts"]:
            return list(lustre["osts"])
        return None
    ran = run(["lfs", "pool_list", f"{lustre['fsname']}.{lustre['pool']}"], ok=range(256))
    return [int(match[1], 16) for match in re.finditer(r"-OST([0-9a-f]{4})(?:_UUID)?\s*$", ran.stdout, re.MULTILINE)]


def usable_osts(lustre: LustreSpec, osts: list[Ost]) -> list[Ost]:
    """The OSTs of the declared pool or list; else all. Raises Refusal where there are no such."""
    numbers = declared_numbers(lustre)
    if numbers is None:
        return osts
    usable = [ost for ost in osts if ost.number in numbers]
    if lustre["pool"] and not usable:
        pool = f"{lustre['fsname']}.{lustre['pool']}"
        raise Refusal(f"fsage_target.lustre.pool is {lustre['pool']}, and `lfs pool_list {pool}` names no OST of it")
    there = [ost.number for ost in osts]
    missing = sorted(set(lustre["osts"] or ()) - set(there))
    if missing:
        raise Refusal(f"fsage_target.lustre.osts has {missing}, and {lustre['fsname']} has {there}")
    return usable


def usable_bytes(lustre: LustreSpec, osts: list[Ost]) -> int:
    """Bytes that files with the declared striping can take. Raises Refusal where the declared OSTs do not exist."""
    if lustre["osts"]:
        return min(ost.available_bytes for ost in osts) * len(osts)
    count = lustre["stripe_count"]
    first = lustre["first_ost"]
    numbers = [ost.number for ost in osts]
    if count > len(osts):
        raise Refusal(
            f"fsage_target.lustre.stripe_count is {count}, and {lustre['fsname']} has {len(osts)} OSTs: "
            "`lfs setstripe` would take it and give fewer"
        )
    if first != stripes.ANY and first not in numbers:
        raise Refusal(f"fsage_target.lustre.first_ost is {first}, and {lustre['fsname']} has {numbers}")
    if first == stripes.ANY or count == ALL_OSTS:
        return sum(ost.available_bytes for ost in osts)
    used = stripes.around(osts, numbers.index(first), count)
    return min(ost.available_bytes for ost in used) * count
