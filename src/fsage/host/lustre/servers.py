"""The counters of the object storage servers that `lustre.oss` names, read over SSH from the launcher.

`brw_stats` are histograms of the reads and writes that an OST has done since it was started.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.host.evidence import ext4
from fsage.host.lustre import params, space
from fsage.host.system import privilege
from fsage.host.system.shell import SSH, run
from fsage.host.targets.limits import Ost
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Store
from fsage.model.message import shown
from fsage.model.target import LustreSpec
from fsage.model.typed import Json

# One connection stays open between cells: a cell must not wait for a handshake with every server.
PLACE = "/run" if os.geteuid() == 0 else "~/.ssh"
KEPT = (*SSH, "-o", "ControlMaster=auto", "-o", f"ControlPath={PLACE}/fsage-ssh-%C", "-o", "ControlPersist=600")
ANSWER_S = 60
NONE_DECLARED = "fsage_target.lustre.oss names no servers to ask"
HEADING = re.compile(r"(\S.*?)\s{2,}\S+\s+% cum % \|")
ROW = re.compile(r"(\d+[KMG]?):\s+(\d{1,19})\s+\d+\s+\d+\s+\|\s+(\d{1,19})\s+\d+\s+\d+")
Stats = dict[str, dict[str, list[int]]]  # histogram -> bucket as printed (from that on) -> [reads, writes]
Counted = dict[str, Stats]  # by OST


def stats(lustre: LustreSpec) -> Counted:
    """brw_stats of every OST that the declared servers serve, of ldiskfs and of ZFS. Raises Failure."""
    fsname = lustre["fsname"]
    line = _shell_line("lustre-counters", fsname, f"lctl get_param 'osd-*.{fsname}-OST*.brw_stats'")
    with ThreadPoolExecutor(max(1, len(lustre["oss"]))) as pool:
        texts = pool.map(lambda host: _answer_of(host, [*KEPT, host, line]), lustre["oss"])
    return {
        name.split(".")[1]: parse_stats(counters) for text in texts for name, counters in params.parse(text).items()
    }


def sync(fsname: str, hosts: Sequence[Mapping[str, object]]) -> int | None:
    """Have every target on these servers commit now; how many objects their MDTs still have to destroy.

    None where no MDT is among them. An MDT counts objects only after it has committed the unlinks. Raises Failure.
    """
    if not hosts:
        return None
    with ThreadPoolExecutor(len(hosts)) as pool:
        counts = [count for counted in pool.map(lambda host: _sync(fsname, host), hosts) for count in counted]
    return sum(counts) if counts else None


def _sync(fsname: str, host: Json) -> list[int]:
    """The objects that each MDT of this host still has to destroy on each OST; an OSS has none."""
    line = _shell_line(
        "lustre-sync",
        fsname,
        f"lctl set_param -n 'osd-*.{fsname}-*.force_sync=1' && "
        f"lctl get_param -n 'osp.{fsname}-OST*.destroys_in_flight' 2>/dev/null; true",
    )
    text = _answer_of(host["name"], ["sh", "-c", line] if host.get("local") else [*KEPT, host["name"], line])
    if not all(re.fullmatch(r"\d{1,19}", word) for word in text.split()):
        raise Failure(f"{host['name']}: destroys_in_flight is {shown(text.strip())}, and numbers are wanted")
    return [int(word) for word in text.split()]


def _shell_line(verb: str, fsname: str, as_root: str) -> str:
    """The shell line for a server: as root, or for a user by the helper of that server."""
    if os.geteuid() == 0:
        return as_root
    return f"printf %s {shlex.quote(json.dumps({'fsname': fsname}))} | {shlex.join(privilege.command(verb))}"


def _answer_of(host: str, command: Sequence[str]) -> str:
    """The output of a command for a server. Raises Failure."""
    text = run(command, timeout=ANSWER_S, **({} if os.geteuid() == 0 else {"ok": (0, 1, 2)})).stdout
    return text if os.geteuid() == 0 else str(privilege.value(text, "", f"{host}: its helper"))


def free_space(lustre: LustreSpec, ost: str, counting: Counting = ONCE) -> Store:
    """The free space of an ldiskfs OST, by dumpe2fs on the declared server that serves it. Raises Failure.

    The name of the device never leaves that server.
    """
    if os.geteuid():
        raise Failure(f"the free space of {ost} is read on its server, for which the agent must be root")
    serves = shlex.quote(f"osd-ldiskfs.{ost}.mntdev")
    for host in lustre["oss"]:
        if not run([*KEPT, host, f"lctl get_param -n {serves} 2>/dev/null; true"], timeout=ANSWER_S).stdout.strip():
            continue
        line = f'dumpe2fs "$(lctl get_param -n {serves})"'
        return ext4.of_command([*KEPT, host, line], f"dumpe2fs on {host} of {ost}", counting)
    raise Failure(f"none of {', '.join(lustre['oss'])} serves {ost} with ldiskfs")


def hang_up(hosts: Iterable[str]) -> list[str]:
    """Close the kept connections to these hosts; a sentence for each."""
    ended = [host for host in sorted(hosts) if run([*KEPT, "-O", "exit", host], ok=(0, 255)).returncode == 0]
    return [f"the connection to {host} is closed" for host in ended]


def reach(lustre: LustreSpec, osts: Iterable[Ost]) -> None:
    """Raise Refusal where a declared server does not answer, or none of them serves an OST."""
    if not lustre["oss"]:
        return
    try:
        counters = stats(lustre)
    except Failure as why:
        raise Refusal(f"fsage_target.lustre.oss: {why}; nothing was touched") from why
    if missing := [ost.name for ost in osts if ost.name not in counters]:
        raise Refusal(
            f"fsage_target.lustre.oss names {', '.join(lustre['oss'])}, and none of them serves {params.names(missing)}"
        )


class Watch:
    """The OSTs before and after a cell. What cannot be had never disturbs what is measured: the reason is noted."""

    def __init__(self, mount: Path, lustre: LustreSpec) -> None:
        self.mount, self.lustre = mount, lustre
        self.absent: dict[str, str] = {} if lustre["oss"] else {"brw_stats": NONE_DECLARED}
        self.fullness = self._fullness()
        self.counted = self._stats()

    def ended(self) -> dict[str, object]:
        """{"fullness": {"before", "after"} by OST, "brw_stats": what each counted in between, "absent": reasons}."""
        counted = {}
        for ost, after in self._stats().items():
            if (counts := between(self.counted.get(ost, {}), after)) is None:
                self.absent[f"brw_stats of {ost}"] = "it counts from zero since the cell began"
            else:
                counted[ost] = counts
        return {
            "fullness": {"before": self.fullness, "after": self._fullness()},
            "brw_stats": counted if "brw_stats" not in self.absent else None,
            "absent": self.absent,
        }

    def _fullness(self) -> Json | None:
        try:
            return space.fullness(space.osts(self.mount))
        except Failure as why:
            self.absent["fullness"] = str(why)
            return None

    def _stats(self) -> Counted:
        try:
            return stats(self.lustre) if "brw_stats" not in self.absent else {}
        except Failure as why:
            self.absent["brw_stats"] = str(why)
            return {}


def parse_stats(text: str) -> Stats:
    """The histograms of one OST, counts only: the percentages follow from them. Raises Failure."""
    stats: Stats = {}
    rows: dict[str, list[int]] = {}
    for line in text.splitlines():
        if match := HEADING.match(line):
            rows = stats[match[1]] = {}
        elif match := ROW.match(line):
            rows[match[1]] = [int(match[2]), int(match[3])]
    if not stats:
        raise Failure(f"brw_stats begins {text[:60]!r}: no histogram in it")
    return stats


def between(before: Stats, after: Stats) -> Stats | None:
    """What was counted in between, empty buckets left out; None if the OST counts from zero since."""
    counted: Stats = {}
    for histogram, rows in after.items():
        counted[histogram] = {}
        for bucket, (reads, writes) in rows.items():
            first = before.get(histogram, {}).get(bucket, [0, 0])
            pair = [reads - first[0], writes - first[1]]
            if min(pair) < 0:
                return None
            if any(pair):
                counted[histogram][bucket] = pair
    return counted
