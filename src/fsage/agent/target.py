"""A target: what its kind is asked before there is one, and an opened one, which is the one that was claimed."""

from __future__ import annotations

import os
import pwd
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fsage.agent import claims, declaration, directories, files, frozen, kinds, run_as
from fsage.agent.claims import Claim
from fsage.agent.declaration import Spec
from fsage.agent.device import models, queue
from fsage.agent.device.model import Model
from fsage.agent.errors import Refusal
from fsage.agent.evidence.freespace import ONCE, Counting
from fsage.agent.evidence.store import Store
from fsage.agent.limits import Limits
from fsage.agent.lustre import space
from fsage.agent.request import Host, Request
from fsage.agent.token import Token

Result = dict[str, Any]
"""What a verb answers: changed, msg, and more."""


class Lacking(NamedTuple):
    """What a host lacks for a kind of target, a sentence each, and what room it has: bytes by directory."""

    missing: list[str]
    room_bytes: dict[str, int]


class Free(NamedTuple):
    """The free space of a store: what of it repeats exactly while nobody writes, and of Lustre used bytes by OST."""

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


class Target(ABC):
    """A claimed target. Made by `open_target`, or by `claim` while it is being claimed."""

    kind: ClassVar[str]
    own_stores: ClassVar[bool] = False
    """Whether its stores are devices and file systems of its own: the kernel keeps it in bounds, all state is known."""
    of_one_host: ClassVar[bool] = False
    """Whether it is one host's: what is noted of it is believed there alone, and it is mounted where fsage's are."""
    has_osts: ClassVar[bool] = False
    """Whether it has Lustre's servers and OSTs, and stripes files over them."""
    meaningless: ClassVar[tuple[str, ...]] = ()
    """Keys of a declaration that mean nothing for it, and which a claim does not keep."""
    how_shared: ClassVar[str] = ""
    """What is said to a host that does not know of the claim, beside how to claim it."""

    # Of the kind, before there is a target.

    @classmethod
    def complete(cls, spec: dict[str, Any]) -> None:
        """Complete and check what a declaration has for this kind alone. Raises Refusal."""
        if spec["lustre"] is not None:
            raise Refusal(f"fsage_target.lustre is for kind lustre; kind is {spec['kind']!r}")

    @classmethod
    @abstractmethod
    def lacking(cls, spec: Spec) -> Lacking:
        """What this host lacks to hold such a target; changes nothing."""

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        """`Refusal` where it cannot be made, before other hosts are asked; `claimed`: this host knows of a claim."""
        return

    @classmethod
    @abstractmethod
    def create(cls, spec: Spec, request: Request, check: bool) -> Result:
        """Make what is claimed then; idempotent. Raises Refusal, Failure."""

    @classmethod
    @abstractmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        """Delete what `create` made, and only that, of a target that was `released` just now."""

    @classmethod
    @abstractmethod
    def claim_new(cls, spec: Spec, hosts: list[str], check: bool) -> Result:
        """Claim what was created, for these clients. Raises Refusal, Failure."""

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim as the target itself has it, for hosts on which `claim` was not run."""
        return None

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        """Whether something is to be taken back although there is no claim."""
        return False

    @classmethod
    @abstractmethod
    def take_back(cls, spec: Spec, known: Claim | None) -> list[str]:
        """Remove what is fsage's from the target; a sentence for each thing that is proved to be gone."""

    @classmethod
    @abstractmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        """What claiming and measuring it overwrites or deletes, in words."""

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        """In which way two targets of this kind would change each other's state; None when they would not."""
        return None

    # Opened.

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

    def model_in_place(self) -> dict[str, Any] | None:
        """The device model as read back, put in place before if it was not; or None."""
        return self.model.put(self.devices)

    def save(self) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", self.claim)

    def stores(self) -> list[tuple[claims.Store, str, Path]]:
        """Claim entry, device and mount point of each store that has a device. Raises Failure."""
        return []

    @abstractmethod
    def open(self) -> None:
        """Verify that it is what was claimed, and have it ready for use. Raises Refusal, Failure."""

    @abstractmethod
    def format(self) -> None:
        """Make it empty. Raises Refusal, Failure."""

    def remount(self) -> None:
        """Start the allocator from its beginning again, where that can be done."""
        return

    def settle(self, wrong: space.Wrong = space.nothing) -> None:
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

    def why_no_extents(self, error: OSError) -> str:
        """Why its file system does not say where its files lie."""
        return f"FIEMAP: {error.strerror}"

    def osts(self, answers: Sequence[Any]) -> list[dict[str, Any]]:
        """Its OSTs, as servers' `answers` have them (the verb `osts`): stores before those that are mounted."""
        return []

    def fullness(self) -> dict[str, Any]:
        """What evidence says beside the layout: {"osts": how full each is}, where there are such."""
        return {}

    def tune(self, wanted: Mapping[str, Any], noted: dict[str, Any], check: bool) -> tuple[bool, list[str]]:
        """Set tunables and note them in `noted`; whether something changed, and a sentence for each."""
        changed, proof = False, []
        for name, value in sorted(wanted.items()):
            entry, now, said = queue.tune(self.queues(), name, value, noted.get(name, {}).get("before"), check)
            proof.append(f"{name}: {said}")
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

    def make_folders(self, state: Token) -> None:
        """Make the directories that a cell's files need in a state (its token). Raises Failure."""
        return

    def placement(self, files: list[Path], state: Token) -> dict[str, Any] | None:
        """On which OSTs a cell's files were put (stripes.placement); None where there are none. Raises Failure."""
        return None

    def verify_fillers(self) -> None:
        """`Failure` where files of the structure lie on other OSTs than declared."""
        return

    def stamp(self, index: int) -> None:
        """Name target and store on the store itself; a stamp of another claim is refused."""
        path = self.mounts[index] / ".fsage/claim.json"
        mark = {"target": self.name, "id": self.claim["id"], "store": index}
        found = files.read_json(path)
        if found is None:
            files.write_json(path, mark)
        elif found != mark:
            raise Refusal(f"{path} names {found}, not {mark}: somebody else's file system; nothing was touched")


def open_target(declared: Mapping[str, Any]) -> Target:
    """The claimed target, its devices attached, mounted, and verified with the kernel by identity and UUID.

    What a killed command left is finished or undone first. Anything that is not exactly what was claimed is a
    `Refusal`, and nothing has been touched then.
    """
    spec = declaration.complete(declared)
    home, kind = declaration.home_of(spec), kinds.of(spec["kind"])
    claim = claims.read(home) or kind.claimed_elsewhere(spec)
    where = f"on {os.uname().nodename}"
    if claim is None:
        raise Refusal(
            f"target {spec['name']} has not been claimed {where} (no {home}/claim.json); claim it first: "
            f"ansible-playbook claim.yml{kind.how_shared}"
        )
    if claim["status"] != "claimed":
        raise Refusal(
            f"target {spec['name']} is half {'claimed' if claim['status'] == 'claiming' else 'released'} "
            f"{where}: its command was interrupted; run that command again"
        )
    frozen.refuse(claim, spec)
    applied = frozen.as_declared(claim, spec)
    if applied is not claim and (home / "claim.json").exists():
        files.write_json(home / "claim.json", applied)
    target = kind(spec, applied)
    with files.locked(home / "open.lock"):
        target.open()
    return target
