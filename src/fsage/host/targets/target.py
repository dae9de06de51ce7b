"""A target: what its kind is asked before there is one, and an opened one, which is the one that was claimed."""

from __future__ import annotations

import os
import pwd
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fsage.host.device import models, queue
from fsage.host.device.model import Model
from fsage.host.system import files
from fsage.host.system.fanotify import FileWatch
from fsage.host.targets import directories, run_as
from fsage.host.targets.free import Free, Wrong, nothing
from fsage.host.targets.kinds import Kind
from fsage.host.targets.limits import Limits
from fsage.model import declaration
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.counting import ONCE, Counting
from fsage.model.evidence.store import Store
from fsage.model.hosts import Host
from fsage.model.target import Spec


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
        self.notes: list[str] = []  # what opening it had to do
        self.servers: list[Host] = []  # of Lustre, as the request has them: they are made to free what went
        self.watch: FileWatch | None = None  # of a visit, where the kernel can tell what others do
        self.inputs: dict[str, str] = {}  # what steps need beside what they say, as the request has it, by its name

    @property
    def capacity_bytes(self) -> int:
        """Free bytes of the empty target, as the claim has them."""
        return int(self.claim["capacity_bytes"])

    @property
    def uid(self) -> int:
        """Who runs what is measured. Raises Refusal."""
        return run_as.uid(self.spec)

    @property
    def _user(self) -> pwd.struct_passwd | None:
        return run_as.user(self.spec)

    def as_user(self) -> list[str]:
        """The front of a command that is measured as `run_as`; empty where that is who we are. Raises Refusal."""
        if not (user := self._user):
            return []
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
        return [*words, "env", f"HOME={user.pw_dir}", f"USER={user.pw_name}", f"LOGNAME={user.pw_name}"]

    def take(self, place: Path) -> None:
        """Take such a directory back, which lies in one of ours: what is in it is then nobody else's to change."""
        if self._user:
            directories.take(place)

    def give(self, place: Path) -> None:
        """Let whoever runs what is measured make files in this directory. Raises Refusal."""
        if not (user := self._user):
            return
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # it may lie in one that is his
        try:
            if os.fstat(descriptor).st_uid != user.pw_uid:
                os.fchown(descriptor, user.pw_uid, user.pw_gid)
        finally:
            os.close(descriptor)

    @property
    def model(self) -> Model:
        """The device model as the claim has it."""
        return models.claimed(self.home, self.name, self.claim)

    @property
    def preallocation_bytes(self) -> int:
        """What the file system is to give a file at a time, as tune_prealloc.yml noted it; 0: as it likes."""
        noted = files.read_json(self.home / "tunables.json") or {}
        return int(noted.get("preallocation", {}).get("bytes", 0))

    @property
    def allocator_reset(self) -> str:
        """`remount` or `none`: what starts the allocator from its beginning before each cell."""
        return "none"

    def mount_options(self) -> list[str]:
        """Options of every mount, as the kernel has them."""
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        return [line[3] for mount in self.mounts for line in lines if line[1] == str(mount)]

    def queues(self) -> list[Path]:
        """The block queues' tunables in sysfs, one folder a store."""
        return [Path("/sys/block") / Path(device).name / "queue" for device in self.devices]

    def charged(self) -> AbstractContextManager[None]:
        """What is started while the block runs is measured under the device model: in its group. Raises Failure."""
        return self.model.charged()

    def front(self, argv: Sequence[str] = ()) -> list[str]:
        """What stands before a command that is measured as `run_as`.

        What reads the device itself, past the file system, stays who we are. Raises Refusal.
        """
        bare = any(device in word for device in self.devices for word in argv)
        return [] if bare else self.as_user()

    def model_in_place(self) -> dict[str, object] | None:
        """The device model as read back, put in place before if it was not; or None."""
        return self.model.put(self.devices)

    def save(self) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", self.claim)

    def stores(self) -> list[tuple[ClaimedStore, str, Path]]:
        """Claim entry, device and mount point of each store that has a device. Raises Failure."""
        return []

    @abstractmethod
    def open(self) -> None:
        """Verify that it is what was claimed, and have it ready for use. Raises Refusal, Failure."""

    @abstractmethod
    def format(self) -> None:
        """Make it empty. Raises Refusal, Failure."""

    def restore(self, image: Path, digest: str, check_lease: Callable[[], None]) -> dict[str, object]:
        """Put the file system of a metadata image in the place of its own; notes of that. Raises Failure."""
        raise Failure(f"target {self.name} is of kind {self.kind}: an image is restored onto one of kind loop alone")

    def remount(self) -> None:
        """Start the allocator from its beginning again, where that can be done."""
        return

    @property
    def why_unwatched(self) -> str | None:
        """Why the kernel cannot tell what others do to its file systems, all of it and nothing else; None: it can."""
        return "its file system is others' too"

    def settle(self, wrong: Wrong = nothing) -> None:
        """Wait until what was deleted is free; on Lustre until `wrong` has nothing to say. Raises Failure."""
        return

    @abstractmethod
    def limits(self) -> Limits:
        """What it may still be given."""

    @abstractmethod
    def free(self, mount: Path) -> Free:
        """What is free on a store."""

    @property
    def tolerance_bytes(self) -> int:
        """By how much others may change the used space of each OST."""
        return 0

    def sync_servers(self) -> int | None:
        """Have the servers commit; how many objects they have still to destroy, None where none can be asked."""
        return None

    @abstractmethod
    def free_space(self, number: int, counting: Counting = ONCE) -> Store:
        """How the free space of a store lies; what cannot be told is absent, with the reason."""

    @property
    def layout_unavailable_because(self) -> str | None:
        """Why free space cannot be laid out on it block by block; None: it can."""
        return (
            f"target {self.name} is of kind {self.kind}: a layout is copied onto one file system of fsage's own (kind "
            "loop, stores: 1), or onto one OST (kind lustre, docs/background/replica.md)"
        )

    def laid_space(self, counting: Counting = ONCE) -> Store:
        """How free space lies on the one store where it can be laid out. Raises Failure."""
        raise Failure(str(self.layout_unavailable_because))

    @property
    def frees_parts(self) -> bool:
        """Whether a hole that is punched into a file frees its blocks, whatever else the file still has."""
        return True

    def why_no_extents(self, error: OSError) -> str:
        """Why its file system does not say where its files lie."""
        return f"FIEMAP: {error.strerror}"

    def osts(self, answers: Sequence[object]) -> list[dict[str, object]]:
        """Its OSTs, as servers' `answers` have them (the verb `osts`): stores before those that are mounted."""
        return []

    def fullness(self) -> dict[str, object]:
        """What evidence says beside the layout: {"osts": how full each is}, where there are such."""
        return {}

    def tune(self, wanted: Mapping[str, object], noted: dict[str, Any], check: bool) -> tuple[bool, list[str]]:
        """Set tunables and note them in `noted`; whether something changed, and a sentence for each."""
        changed, proof = False, []
        for name, value in sorted(wanted.items()):
            entry, now, sentence = queue.tune(self.queues(), name, value, noted.get(name, {}).get("before"), check)
            proof.append(f"{name}: {sentence}")
            changed = changed or now or noted.get(name) != entry
            noted[name] = entry
        return changed, proof

    def untune(self, path: Path, kept: str, check: bool) -> list[str]:
        """Put back the tunables that are noted at `path`, but for what is noted under `kept`; a sentence for each."""
        noted, proof = files.read_json(path) or {}, list[str]()
        for name in sorted(set(noted) - {kept}):
            proof += queue.put_back(self.queues(), name, noted[name].get("before", ()), check)
        if not check:
            left = {name: entry for name, entry in noted.items() if name == kept}
            files.write_json(path, left) if left else files.remove(path)
        return proof

    def spread(self, folder: Path) -> None:
        """Have files that are made in a directory lie on all OSTs."""
        return

    def make_folders(self, notes: Mapping[str, dict[str, object]]) -> None:
        """Make the directories that a cell's files need in a state, by its notes. Raises Failure."""
        return

    def placement(self, files: list[Path], notes: Mapping[str, dict[str, object]]) -> dict[str, Any] | None:
        """On which OSTs a cell's files were put (stripes.placement); None where there are none. Raises Failure."""
        return None

    def verify_fillers(self) -> None:
        """`Failure` where files of the structure lie on other OSTs than declared."""
        return

    def stamp(self, index: int) -> None:
        """Name target and store on the store itself; a stamp of another claim is refused."""
        path = self.mounts[index] / ".fsage/claim.json"
        mark = {"target": self.name, "id": self.claim["id"], "store": index}
        mark_now = files.read_json(path)
        if mark_now is None:
            files.write_json(path, mark)
        elif mark_now != mark:
            raise Refusal(f"{path} names {mark_now}, not {mark}: somebody else's file system; nothing was touched")
