"""A target that was claimed: what verbs and steps may do with it, whatever its kind.

The measured commands run as user `run_as` of the target where the agent is root, else as the agent's own user.

`kinds`: what a host does before a target is opened. `opening`: it is verified. `lease`: one run holds it. `claims`:
what is kept of it. `budget`: how much more its files may take.
"""

from __future__ import annotations

import os
import pwd
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from fsage.base import Call, Failure, Json, JsonView, Refusal
from fsage.host import filesystems
from fsage.host.device import loops, models
from fsage.host.device.models import Model
from fsage.host.filesystems import FileSystem, Range
from fsage.host.system import caches, files, kernel, places
from fsage.host.system.fanotify import FileWatch
from fsage.host.system.settings import Holder
from fsage.host.targets import claims, directories
from fsage.host.targets.budget import UNLIMITED, Free, Limits, Wrong, nothing
from fsage.host.targets.kinds import Kind, NoOsts
from fsage.layouts import machine
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.store import Store
from fsage.model import declaration
from fsage.model.answers import Dropped
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.observation import Mounting
from fsage.model.target import Spec


def measuring_user(spec: Spec) -> pwd.struct_passwd | None:
    """The account that root takes for measured commands; None: no other than the present one. Raises Refusal."""
    name = spec["run_as"]
    host = os.uname().nodename
    if name is None:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise Refusal(f"fsage_target.run_as is {name!r}, and {host} has no such user; nothing was touched") from None
    if os.geteuid() not in (0, account.pw_uid):
        raise Refusal(f"fsage_target.run_as is {name!r}, and on {host} user {os.geteuid()} cannot run commands as it")
    if os.geteuid() == 0:
        return account
    return None


def uid_of(spec: Spec) -> int:
    """The numeric user id that measures. Raises Refusal."""
    account = measuring_user(spec)
    if account:
        return account.pw_uid
    return os.geteuid()


class OtherHost(NamedTuple):
    """A host beside the launcher, as what runs there sees it: a client with its target, or a server.

    `kept`: what a call keeps for the next.
    """

    spec: Spec
    target: Target | None
    kept: Json


class Target(Kind):
    """A claimed target. Made by `open_target`, or by `claim` while it is being claimed."""

    def __init__(self, spec: Spec, claim: Claim) -> None:
        self.spec = spec
        self.claim = claim
        self.name: str = spec["name"]
        self.filesystem: str | None = claim["stores"][0]["filesystem"]
        self.state_known: bool = claim["filesystem_state_known"]
        self.home: Path = declaration.home_of(spec)
        self.mounts: list[Path] = [Path(store["mount"]) for store in claim["stores"]]
        self.devices: list[str] = []
        self.notes: list[str] = []  # what opening the target changed, a sentence each
        self.osts = NoOsts()
        self.pace = UNLIMITED  # the pace of what fsage itself writes, makes and deletes
        self.watch: FileWatch | None = None  # of a session, where the kernel can report what others do
        self.inputs: dict[str, str] = {}  # texts that steps need, such as layouts, from the request, by name

    @property
    def capacity_bytes(self) -> int:
        """Free bytes of the empty target, from the claim."""
        return int(self.claim["capacity_bytes"])

    @property
    def system(self) -> FileSystem | None:
        """Its local file system; None where it is on another one."""
        return filesystems.get(self.filesystem)

    @property
    def uid(self) -> int:
        """The user id that runs the measured commands. Raises Refusal."""
        return uid_of(self.spec)

    @property
    def _user(self) -> pwd.struct_passwd | None:
        return measuring_user(self.spec)

    def as_user(self) -> list[str]:
        """The words before a command that `run_as` runs; none where that is the present user. Raises Refusal."""
        user = self._user
        if not user:
            return []
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
        return [*words, "env", f"HOME={user.pw_dir}", f"USER={user.pw_name}", f"LOGNAME={user.pw_name}"]

    def take(self, place: Path) -> None:
        """Make root the owner of a directory that was given (`give`), so that nobody else can change it."""
        if self._user:
            directories.take(place)

    def give(self, place: Path) -> None:
        """Let the user that runs the measured commands make files in this directory. Raises Refusal."""
        user = self._user
        if not user:
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # he may own the directory above
        with kernel.opened(place, flags) as descriptor:
            if os.fstat(descriptor).st_uid != user.pw_uid:
                os.fchown(descriptor, user.pw_uid, user.pw_gid)

    def made_once(self, made_of: Json, make: Callable[[Path], Json]) -> tuple[Path, Json]:
        """A folder outside the target with what `make` made in it once, and notes: `made_of`, and what it returned.

        It is kept until the target is released, and made anew where it was made of something else. Raises Failure.
        """
        place = self.home / claims.KEPT
        noted: Json | None = files.read_json(place / "made.json")
        if not noted or not noted.items() >= made_of.items():
            places.remove(place)
            places.make(place)
            noted = {**made_of, **make(place)}
            files.write_json(place / "made.json", noted)
        return place, noted

    @property
    def model(self) -> Model:
        """The device model of the claim."""
        return models.claimed(self.home, self.name, self.claim)

    @property
    def allocator_reset(self) -> str:
        """How the allocator is reset before each phase: `remount`, `cold` (then no bitmap is read) or `none`."""
        return "none"

    def mount_options(self) -> list[str]:
        """The options of every mount, read from the kernel."""
        options = []
        table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        lines = [line.split(" ") for line in table.split("\n")[:-1]]
        for mount in map(str, self.mounts):
            options += [line[3] for line in lines if machine.plain(line[1]) == mount]
        return options

    def queues(self) -> list[Path]:
        """The folder of each store's block queue in sysfs."""
        return list(map(loops.queue_of, self.devices))

    def disks(self) -> list[Json]:
        """What decides in each store how ext4 looks for blocks; None: this kernel or file system has it not."""

        def number(path: Path) -> int | None:
            try:
                return int(path.read_text())
            except (OSError, ValueError):
                return None

        return [
            {
                "rotational": number(queue / "rotational"),
                "mb_max_linear_groups": number(Path("/sys/fs/ext4") / queue.parent.name / "mb_max_linear_groups"),
            }
            for queue in self.queues()
        ]

    def charged(self) -> AbstractContextManager[None]:
        """Put processes that start while the block runs into the device model's control group. Raises Failure."""
        return self.model.charged()

    def front(self, argv: Sequence[str] = ()) -> list[str]:
        """The words before a measured command (`as_user`); none where it reads a device itself, which root must.

        Raises Refusal.
        """
        command = " ".join(argv)
        if any(device in command for device in self.devices):
            return []
        return self.as_user()

    def model_in_place(self) -> Json | None:
        """Put the device model in place if it is not; what reads back, or None."""
        return self.model.put(self.devices)

    def save(self) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", self.claim)

    def stores(self) -> list[tuple[ClaimedStore, str, Path]]:
        """Claim entry, device and mount point of each store that has a device. Raises Failure."""
        return []

    @abstractmethod
    def open(self) -> None:
        """Verify that the target is what was claimed, and make it ready for use. Raises Refusal, Failure."""

    @abstractmethod
    def format(self, mkfs_options: str = "") -> None:
        """Empty the target. `mkfs_options`: its file system is made with these too. Raises Refusal, Failure."""

    def refuse_unmounted(self) -> None:
        """Raise Failure where a file system of its own is not mounted: what is written then lies below its mount."""
        return

    def restore(self, image: Path, digest: str, check_lease: Call) -> Json:
        """Replace the file system by that of a metadata image; notes of that. Raises Failure."""
        raise Failure(f"target {self.name} is of kind {self.kind}: an image is restored only onto one of kind loop")

    @property
    def takes_blocks(self) -> bool:
        """Whether blocks of its one store can be taken out of use and into use while it is not mounted."""
        return False

    def change_unmounted(self, name: str | None, change: Callable[[str], None]) -> bool:
        """Unmount the one store and have `change` write to its file system; whether a kept copy was taken instead.

        `name`, a digest, is what the result is kept as, if it is. Raises Failure, OSError.
        """
        raise Failure(f"target {self.name} is of kind {self.kind}: its blocks are not written to while it is unmounted")

    def note_kept(self, name: str, notes: Json | None) -> None:
        """Note what is known of what is kept under a name (`change_unmounted`), if it is; None: it is kept no more."""
        return

    def kept(self, name: str) -> Json | None:
        """What was noted of what is kept under a name; None where nothing is."""
        return None

    def drop_caches(self, files: list[Path]) -> Dropped:
        """Drop this client's caches of these files, and of the target."""
        return caches.drop(files)

    def remount(self, more: str = "", warm: bool | None = None) -> Mounting | None:
        """Reset the allocator, where the kind of target can; what that took.

        `more`: further mount options; `warm`: see FileSystem.mounted.
        """
        return None

    @property
    def why_unwatched(self) -> str | None:
        """Why the kernel cannot report exactly what others do to the target's file systems; None where it can."""
        return "others use its file system too"

    def settle(self, wrong: Wrong = nothing) -> None:
        """Wait until deleted files have freed their blocks; on Lustre until `wrong` finds nothing. Raises Failure."""
        return

    def room_below(self) -> int | None:
        """Bytes that may still be written for the first time on a sparse target; None: all blocks are there."""
        return None

    def taken_below(self) -> int:
        """Bytes that sparse images take; 0 where no image is sparse."""
        return 0

    def give_back_below(self, ranges: Mapping[Path, Collection[Range]] | None) -> None:
        """Give back free blocks below sparse images: in these ranges of each store, or all. Raises Failure."""

    @abstractmethod
    def limits(self) -> Limits:
        """How much more its files may take."""

    @abstractmethod
    def free(self, mount: Path) -> Free:
        """The free space of a store."""

    @abstractmethod
    def free_space(self, number: int, counting: Counting = ONCE) -> Store:
        """The layout of a store's free space; what cannot be read is absent, with the reason."""

    @property
    def layout_unavailable_because(self) -> str | None:
        """Why free space cannot be laid out on the target block by block; None: it can."""
        return (
            f"target {self.name} is of kind {self.kind}. A layout is copied onto one file system that fsage made (kind "
            "loop, stores: 1) or onto one OST (kind lustre); see docs/background/replica.md"
        )

    def laid_space(self, counting: Counting = ONCE) -> Store:
        """The free space of the one store on which a layout can be laid out. Raises Failure."""
        raise Failure(str(self.layout_unavailable_because))

    @property
    def frees_parts(self) -> bool:
        """Whether a hole that is punched into a file frees its blocks at once."""
        return True

    def why_no_extents(self, error: OSError) -> str:
        """Why the extents of its files cannot be read."""
        return f"FIEMAP: {error.strerror}"

    def tune(self, wanted: JsonView, holder: Holder, check: bool) -> tuple[bool, list[str], Json]:
        """Set `wanted` and no other tunable; whether something changed, a sentence for each, and what is to be noted.

        Each is noted before it is set. What was set before and is not wanted any more goes back.
        """
        noted = claims.read_tunables(self.home)
        entries: Json = {}
        changed = False
        proof = self._undo_queues({name: entry for name, entry in noted.items() if name not in wanted}, check)
        for name, value in sorted(wanted.items()):
            before = noted.get(name, {}).get("before") or loops.values(self.queues(), name)
            if before and not check:
                claims.note_tunables(self.home, {**noted, **entries, name: {"asked": value, "before": before}})
            entries[name], now, sentence = loops.tune(self.queues(), name, value, before, check)
            proof.append(f"{name}: {sentence}")
            changed = changed or now
        return changed, proof, entries

    def astray(self, tuning: JsonView) -> list[str]:
        """A sentence for each tunable that is not as a study's `tuning` says, and for each that it does not name."""
        unnamed = []
        other = []
        for name, entry in sorted(claims.read_tunables(self.home).items()):
            if "unsupported" in entry:
                continue
            now = loops.values(self.queues(), name)
            present = f"{name} of {self.name}'s queue is {', '.join(now)}, and the study"
            if name not in tuning:
                if now != entry["before"]:
                    unnamed.append(f"{present} does not name it: an earlier one did")
            elif set(now) != {str(tuning[name])}:
                other.append(f"{present} names {tuning[name]}: tune_clients.yml sets it")
        return unnamed + other

    def untune(self, holder: Holder, check: bool) -> list[str]:
        """Restore what was set by `tune`; a sentence for each tunable that changes."""
        return self._undo_queues(claims.read_tunables(self.home), check)

    def _undo_queues(self, noted: Json, check: bool) -> list[str]:
        back: list[str] = []
        for name, entry in sorted(noted.items()):
            back += loops.undo(self.queues(), name, entry.get("before", ()), check)
        return back

    def stamp(self, index: int) -> None:
        """Write target, claim and store into a mark on the store. Raises Refusal where another claim's mark is."""
        path = self.mounts[index] / ".fsage/claim.json"
        mark = {"target": self.name, "id": self.claim["id"], "store": index}
        mark_now = files.read_json(path)
        if mark_now is None:
            files.write_json(path, {**mark, **self.more_of_mark()})
        elif {key: mark_now.get(key) for key in mark} != mark:
            raise Refusal(f"{path} names {mark_now}, not {mark}: another claim's file system; nothing was touched")

    def more_of_mark(self) -> Json:
        """What a mark says beside the claim's id, for a host that has lost its note of the claim."""
        return {}
