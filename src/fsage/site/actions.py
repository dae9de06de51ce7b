"""What a run will do at a site, for its owner: on which host, how often at most, with which programs, and where.

If a run does anything that is not named here, that is a bug. tests/test_site_actions.py compares the list with what a
run really started and wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath

from fsage.base import MIB, Json
from fsage.base.sizes import duration, round_size
from fsage.model import limits, plugins, tools
from fsage.model.caches import SERVERS_KEPT
from fsage.model.declaration import EVERY_S, tasks_of, usual_home
from fsage.model.structure import Step
from fsage.model.target import Limits
from fsage.plan import Plan
from fsage.plan.target import Target
from fsage.run import progress
from fsage.site.inspect import Site
from fsage.study import StudyError
from fsage.study.cells import Cell

DROPS_A_PHASE = 102
"""Two, and a kernel that keeps a name is told again for 2 s, every 20 ms (fsage.host.system.caches)."""
OWN_FILES = 16
"""Token, lease, mark, probe: files of fsage on the target, made anew whenever they change."""
OWN_NOTES_BYTES = MIB
PHASES = ("write", "read")
LONGEST_S = 900.0
"""A phase may take so long, and longer only by its estimate (fsage.host.cells.observed)."""


@dataclass(frozen=True)
class Act:
    """One kind of act. `most`: how often at most, None where nothing counts it.

    `programs` it starts, and `places` below which it makes, changes or removes files.
    """

    hosts: str
    what: str
    undone: str
    most: int | None = None
    programs: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[str, ...]:
        """Its row on the page."""
        if self.most is None:
            how_often = "\u2013"
        else:
            how_often = f"{self.most:,}"
        return (self.hosts, self.what, how_often, ", ".join((*self.programs, *self.places)) or "\u2013", self.undone)


COLUMNS = ("host", "what is done", "times at most", "with, and where", "undone by")


def acts(site: Site, target: Target, plans: Sequence[Plan]) -> list[Act]:
    """All that a run of these studies does, from claim to release.

    What is done with one kind of target alone says `acts` of the module `site` in the folder that has its name.
    """
    clients = names_of(site, "clients")
    phases = sum(len(cell.params.get("phases", PHASES)) for cell in missing_cells(plans))
    spec = target.spec
    tree = _told(site, "directory", spec["directory"])
    home = _told(site, "home", f"{spec['home']}/{spec['name']}")
    places: tuple[str, ...] = (tree,)
    if target.of_kind.own_stores:
        places = (spec["image_dir"] or home, spec["mount_dir"])
    listed = [
        Act(
            clients,
            "versions of tools, memory, mounts and the clock are read. Before and after each phase the kernel's log "
            "and the counters of network and NFS are read",
            "nothing is changed",
            programs=(*tools.names(), "apptainer"),
        ),
        Act(clients, "claim, lease, journal and answers are kept", "release", places=(home, "/run/fsage")),
        Act(
            clients,
            "the folder of these is removed with the last target",
            "the next claim",
            places=(str(PurePath(home).parent),),
        ),
        _dropped(site, clients, phases),
        Act(
            clients,
            f"files are written, read and deleted, as {spec['run_as'] or user_words(site)}",
            "release deletes them",
            programs=("fio", "mpirun", "srun", "ior", "mdtest", "blastn", "env", "python3", "setpriv"),
            places=places,
        ),
        *_tunables(site, plans),
        Act(
            clients,
            "a file beside the target shows, when it is made or claimed, whether direct I/O works there",
            "it is removed at once",
            places=(f"{PurePath(places[0]).parent}/.fsage-direct-*",),
        ),
    ]
    if target.of_kind.own_stores:
        listed.append(_mounted(clients))
    listed += _for_others(site, target, clients, tree)
    if spec["kind"] in plugins.having("site"):
        listed += plugins.of_study(spec["kind"], "site").acts(site, target, plans, phases)
    return listed


def _mounted(clients: str) -> Act:
    """What is done with images, which fsage makes."""
    return Act(
        clients,
        "images are made, formatted, and mounted where only fsage's commands see them, anew before each phase. "
        "A device model needs a control group",
        "release and local_target.yml with state absent",
        programs=("mkfs.*", "wipefs", "mount", "dumpe2fs", "e2freefrag", "xfs_db", "btrfs", "udevadm"),
        places=("/dev", "/sys/block", "/sys/fs/cgroup", "/sys/fs/ext4", "/tmp/fsage-attempt-*"),
    )


def _for_others(site: Site, target: Target, clients: str, tree: str) -> Iterator[Act]:
    """What is done for the sake of others: the bytes of a day are limited, and a probe watches what they suffer."""
    if _allowed(site, target)["gib_a_day"]:
        note = f"{_told(site, 'notes', str(usual_home()))}/written.*"
        yield Act(clients, "the bytes of the day are noted", "release, once the day is over", places=(note,))
    stop_if = target.spec["stop_if"]
    if stop_if:
        what = (
            "a probe beside states, calibration and cells looks up a name, and reads and writes 64 KiB on each OST "
            f"that is used, every {EVERY_S:g} s at least; stop_if: {_words(stop_if)}"
        )
        undone = "release removes its files, 1 MiB each"
        yield Act(clients, what, undone, programs=("env", "python", "python3"), places=(f"{tree}/.fsage/probe",))


def missing_cells(plans: Iterable[Plan]) -> list[Cell]:
    """The cells that are still to be measured."""
    missing: list[Cell] = []
    for plan in plans:
        for cells in plan.missing.values():
            missing += cells
    return missing


def changes_server_cache(plans: Iterable[Plan]) -> bool:
    """Whether a cell needs another cache of the servers than they have."""
    return any(cell.params.get("server_cache", SERVERS_KEPT) != SERVERS_KEPT for cell in missing_cells(plans))


def user_words(site: Site) -> str:
    """Who the agent on the clients is."""
    named = _told(site, "user", "the user of ssh")
    if any(answer["root"] for answer in site.answers("clients")) and "(uid 0)" not in named:
        return f"{named}, by the helper where root is needed"
    return named


def may_be_root(site: Site) -> bool:
    """Whether the agent on a client is root or has the helper; where a host has not answered that is assumed."""
    clients = site.in_group("clients")
    return not clients or any(host.answer is None or host.answer["root"] for host in clients)


def _told(site: Site, key: str, otherwise: str) -> str:
    """What the clients answered under a key: the launcher of this page may have another user, and home."""
    values = {str(answer[key]) for answer in site.answers("clients") if answer.get(key)}
    return " or ".join(sorted(values)) or otherwise


def _dropped(site: Site, clients: str, phases: int) -> Act:
    """What is dropped of the clients' caches before each phase."""
    if may_be_root(site):
        return Act(
            clients,
            "page cache, names and inodes of the whole host are dropped before each phase, usually twice: others' too",
            "the kernel reads again what is used",
            phases * DROPS_A_PHASE,
            places=("/proc/sys/vm/drop_caches",),
        )
    what = "pages of the measured files alone are dropped before each phase (posix_fadvise); nobody else's, and no lock"
    return Act(clients, what, "they are read again", phases)


def _tunables(site: Site, plans: Iterable[Plan]) -> list[Act]:
    """A row for each tunable that a study sets, with its value now."""
    wanted: set[tuple[str, object]] = set()
    for plan in plans:
        wanted.update(plan.study.tuning.items())
    clients = names_of(site, "clients")
    if wanted and not may_be_root(site):
        names = ", ".join(sorted(name for name, _ in wanted))
        what = f"tunables ({names}) are not set: that needs root or its helper"
        return [Act(clients, what, "nothing is changed")]
    set_to = []
    for name, value in sorted(wanted, key=str):
        now = {str(answer.get("tunables", {}).get(name, "not known")) for answer in site.answers("clients")}
        known = " or ".join(sorted(now)) or "not known"
        what = f"tunable {name} is set to {value}; now it is {known}. The old value is noted before, for the host"
        undone = "restored at the end of each run, of a killed one by the next command there"
        set_to.append(Act(clients, what, undone, programs=("lctl",), places=("/sys/block",)))
    return set_to


def names_of(site: Site, group: str) -> str:
    """The hosts of a group, in words."""
    return ", ".join(host.name for host in site.in_group(group)) or f"{group}, of which the inventory names none"


def bounds(site: Site, target: Target, plans: Sequence[Plan]) -> list[tuple[str, str]]:
    """How much at most: bytes (by OST), files, hours, limits. Before the claim they come from what is declared."""
    capacity_bytes = _capacity_bytes(site, target, plans)
    steps = list(chain.from_iterable(by_state(plans)))
    rows = []
    if capacity_bytes is None:
        rows.append(("space in use at a time", target.of_kind.unlimited(target.spec)))
        rows.append(("bytes, files", "known when the host that launches has answered"))
    else:
        written = sum(_of_cells(plan, target, capacity_bytes) for plan in plans)
        files = OWN_FILES + sum(_files_of(cell, target) for cell in missing_cells(plans))
        for step in steps:
            written += step.writes_bytes(capacity_bytes)
            files += step.calls(capacity_bytes) + OWN_FILES
        rows += [
            ("space in use at a time", f"at most {round_size(capacity_bytes)}"),
            ("bytes written in all", f"at most {round_size(written + OWN_NOTES_BYTES)}"),
            *target.of_kind.on_each(target.spec, [plan.claim for plan in plans if plan.claim], written, files),
            (
                "files and directories made",
                f"at most {files:,}; each is deleted before another structure, or by release",
            ),
        ]
    unclaimed = any(plan.claim is None for plan in plans)
    if unclaimed and not target.spec["amount_mib"]:
        rows.append(("how sure", "what a cell writes is found at the claim: until then it may be all that has room"))
    rows.append(("time", "; ".join(map(hours, plans)) or "no study was named"))
    rows.append(
        (
            "limits",
            _words(dict(_allowed(site, target)))
            or f"none is declared (fsage_target.limits), and no host has {limits.FILE}",
        )
    )
    stop_if = target.spec["stop_if"]
    if stop_if:
        rows.append(("for others", f"a cell is stopped by stop_if: {_words(stop_if)}"))
    return rows


def _allowed(site: Site, target: Target) -> Limits:
    """The limits that keep to those of the target and of all hosts."""
    of_hosts = [answer["limits"] for answer in site.answers() if "limits" in answer]
    return limits.stricter(target.spec["limits"], *of_hosts)


def _words(block: Json) -> str:
    return ", ".join(f"{key} {value}" for key, value in block.items() if value is not None)


def by_state(plans: Iterable[Plan]) -> Iterator[list[Step]]:
    """The steps of each state that is still to be measured, each built from empty."""
    for plan in plans:
        yield from map(plan.estimates.steps, plan.missing)


def _files_of(cell: Cell, target: Target) -> int:
    """Files and directories that a cell makes at most: each task its own, and fsage's."""
    operations = cell.params.get("operations", PHASES)
    each = cell.params.get("files_per_task", 0) + 2
    return OWN_FILES + int(each) * len(operations) * tasks_of(target.spec)


def _capacity_bytes(site: Site, target: Target, plans: Sequence[Plan]) -> int | None:
    """What the target may hold: of its claim, else what a claim could take now, else as declared; None: not known."""
    claimed = [plan.claim["capacity_bytes"] for plan in plans if plan.claim and "capacity_bytes" in plan.claim]
    if claimed:
        return max(claimed)
    offered = [answer["capacity_bytes"] for answer in site.answers() if "capacity_bytes" in answer]
    if offered and not target.of_kind.own_stores:
        return int(max(offered))
    return target.of_kind.most_bytes(target.spec)


def _of_cells(plan: Plan, target: Target, capacity_bytes: int) -> int:
    """Bytes that cells write: as their workloads tell; before the claim the declared amount, or what has room.

    A claim calibrates with as much as one more cell.
    """
    known = plan.bytes_written()
    if known is not None:
        return known
    amount_mib = target.spec["amount_mib"]
    if amount_mib:
        each = amount_mib * MIB * tasks_of(target.spec)
    else:
        each = capacity_bytes
    return min(each, capacity_bytes) * (1 + plan.missing_count)


def hours(plan: Plan) -> str:
    """How long a study takes, and by what that is known: cells that were measured here, or the claim's calibration.

    How fast a shared file system is, nobody knows before the claim.
    """
    try:
        if not plan.claim and not plan.target.of_kind.own_stores:
            return (
                f"{plan.study.name}: not known before the claim, which measures how fast the target is; "
                f"{plan.missing_count} cells, of which each phase ends after {duration(LONGEST_S)}, or ten times its "
                "estimate"
            )
        outlook = plan.outlook()
        pace = progress.known_pace(plan, outlook)
        whole_s = 0.0
        for state in outlook.values():
            if state.left:
                whole_s += state.left_s * pace.cells + pace.reach_seconds(state)
        if plan.results.records("").exists():
            why = f"by what its last cells took, {pace.cells:.2g} times the estimate"
        elif plan.claim:
            why = "by the claim's calibration"
        else:
            why = "a guess before the claim"
        return f"{plan.study.name} about {duration(whole_s)}, {why}"
    except StudyError as why_not:
        return f"{plan.study.name} cannot be: {why_not}"


def endings(target: Target) -> list[str]:
    """How it is ended and undone, by whom."""
    inventory = f"-i inventories/{target.name}"
    return [
        "Who runs it: Ctrl-C. What runs is ended within seconds, and nothing measured is lost.",
        "Anybody with root on the launcher host: kill the process python3 that runs fsage's agent. Its commands end "
        "with it, and the servers' settings are restored when its connections close.",
        "Root, or who may write to the directory above the target: rename the target's directory. The next check "
        "refuses the target.",
        f"./run ansible-playbook {inventory} playbooks/release.yml undoes all: files, claim, tunables, connections.",
    ]
