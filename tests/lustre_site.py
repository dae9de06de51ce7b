"""A Lustre site for tests: fake `lfs`, `lctl` ... on PATH that answer with recorded output and log each command."""

from __future__ import annotations

import json
import marshal
import re
import sys
from pathlib import Path
from typing import Any

import local_targets
import pytest

from fsage.host import claiming, remote
from fsage.host.system import caches, settings
from fsage.studies.lustre.host import space

DATA = Path(__file__).parent / "data" / "lustre"
UNEXPECTED = 99
FINDMNT = "findmnt --json --list --types lustre"
DESTROYS = "lctl get_param -n osp.lustre-OST*.destroys_in_flight"

PROGRAM = """#!{python} -IS
# Built-in modules alone: this starts in 10 ms.
import marshal, sys
command = " ".join([sys.argv[0].rpartition("/")[2], *sys.argv[1:]])
with open({place!r} + "/log", "a") as log:
    log.write(command + "\\n")
book = {place!r} + "/answers"
with open(book, "rb") as file:
    answers = marshal.load(file)
fitting = [one for one in answers if one.endswith("*") and command.startswith(one[:-1])]
waiting = answers.get(command) or (answers[fitting[0]] if fitting else None)
if not waiting:
    print(f"no answer is recorded for: {{command}}", file=sys.stderr)
    sys.exit({code})
answer = waiting[0]
if command in answers and len(waiting) > 1:
    answers[command] = waiting[1:]
    with open(book, "wb") as file:
        marshal.dump(answers, file)
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["rc"])
"""


def recorded(name: str) -> str:
    """A recorded file."""
    return (DATA / name).read_text()


def session(name: str) -> dict[str, list[dict]]:
    """A recorded session: command -> what it answered, time after time; errors are told from output by their look."""
    found: dict[str, list[dict]] = {}
    for command, said, code in re.findall(r"^# (.*)\n((?:.*\n)*?)\[rc=(\d+)\]$", recorded(name), re.M):
        lines = said.splitlines(keepends=True)
        errors = [line for line in lines if line.startswith(("error:", "lfs setstripe:", "lfs getstripe:", "lfs:"))]
        output = [line for line in lines if line not in errors]
        answer = {"stdout": "".join(output), "stderr": "".join(errors), "rc": int(code)}
        found.setdefault(command, []).append(answer)
    return found


class Site:
    """Programs in `place`/bin that answer only what they were told to."""

    def __init__(self, place: Path, programs: tuple[str, ...]) -> None:
        self.place, self.bin = place, place / "bin"
        self.bin.mkdir(parents=True)
        for program in programs:
            path = self.bin / program
            path.write_text(PROGRAM.format(python=sys.executable, place=str(place), code=UNEXPECTED))
            path.chmod(0o755)
        (place / "answers").write_bytes(marshal.dumps({}))
        (place / "log").touch()

    def answer(self, command: str, *stdout: str, stderr: str = "", rc: int = 0) -> None:
        """What `command` prints, time after time, the last for ever; `...*`: one answer to all that begin so."""
        self.answers({command: [{"stdout": text, "stderr": stderr, "rc": rc} for text in stdout or ("",)]})

    def answers(self, more: dict[str, list[dict]]) -> None:
        """The same for many commands, as `session` gives them."""
        (self.place / "answers").write_bytes(marshal.dumps({**self.left(), **more}))

    def commits(self, to_destroy: str = "0\n") -> None:
        """Its servers commit, and have so many objects still to destroy."""
        self.answer("lctl set_param -n osd-*.lustre-*.force_sync=1")
        self.answer(DESTROYS, to_destroy)

    def left(self) -> dict[str, list[dict]]:
        """Answers that are still to be given, by command."""
        return marshal.loads((self.place / "answers").read_bytes())

    def commands(self, program: str = "") -> list[str]:
        """What was run since the last call, of one program or all."""
        log = self.place / "log"
        lines = log.read_text().splitlines()
        log.write_text("")
        return [line for line in lines if line.startswith(program)]


KNOBS = """#!{python} -IS
import fnmatch, json, os, sys
place, words = {place!r}, sys.argv[1:]
with open(place + "/knobs.json") as file:
    book = json.load(file)
known, verb = book["known"], words[0]
asked = [word for word in words[1:] if not word.startswith("-")]
names = [word.partition("=")[0] for word in asked]
found = [[name for name in sorted(known) if fnmatch.fnmatchcase(name, each)] for each in names]
if verb not in ("get_param", "set_param") or (verb == "set_param" or not any(found)) and not all(found):
    if not (verb == "get_param" and all(name.startswith(("osc.", "llite.")) for name in names)):
        os.execv(place + "/recorded/lctl", ["lctl", *words])
with open(place + "/log", "a") as log:
    log.write("lctl " + " ".join(words) + "\\n")
if verb == "get_param":
    for each in sum(found, []):
        print(each + "=" + known[each])
    for name, those in zip(names, found):
        if not those:
            print(f"error: get_param: param_path '{{name}}': No such file or directory", file=sys.stderr)
    sys.exit(0 if all(found) else 2)
for word, those in zip(asked, found):
    for each in those:
        name, _, value = word.partition("=")
        if [each, value] in book["refused"]:
            print(f"error: set_param: setting {{each}}={{value}}: Numerical result out of range", file=sys.stderr)
            sys.exit(34)
        known[each] = book["clipped"].get(each + "=" + value, value)
        with open(place + "/knobs.json", "w") as file:
            json.dump(book, file)
"""


class Knobs:
    """Tunables of a client of Lustre that hold what is set: `lctl` asks them first, and what was recorded then."""

    def __init__(self, site: Site, **known: str) -> None:
        """`known`: values of each name at both OSTs' connections, or at the mount's llite; on two mounts."""
        self.site, self.path = site, site.place / "knobs.json"
        (site.place / "recorded").mkdir()
        (site.bin / "lctl").rename(site.place / "recorded" / "lctl")
        (site.bin / "lctl").write_text(KNOBS.format(python=sys.executable, place=str(site.place)))
        (site.bin / "lctl").chmod(0o755)
        every = {
            full: value
            for name, value in known.items()
            for instance in (INSTANCE, NEIGHBOUR)
            for full in (
                [f"llite.lustre-{instance}.{name}"]
                if "read_ahead" in name
                else [f"osc.lustre-OST000{number}-osc-{instance}.{name}" for number in (0, 1)]
            )
        }
        self.path.write_text(json.dumps({"known": every, "refused": [], "clipped": {}}))

    def change(self, **what: Any) -> None:
        """Change what there is: `known`, `refused` ([name, value]) or `clipped` ("name=value": what it becomes)."""
        book = json.loads(self.path.read_text())
        for key, more in what.items():
            book[key] = book[key] + more if isinstance(more, list) else {**book[key], **more}
        self.path.write_text(json.dumps(book))

    def now(self, name: str, instance: str = "") -> set[str]:
        """The values of a tunable at a mount (usual: the target's)."""
        known = json.loads(self.path.read_text())["known"]
        return {value for full, value in known.items() if full.endswith(f".{name}") and (instance or INSTANCE) in full}


def site_in(place: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> Site:
    """A site whose programs are found first, with less patience, and where dropping caches leaves this machine's be.

    How fast a target is, the first claim of the session has found out.
    """
    monkeypatch.setattr(claiming, "_pair", local_targets.remembered)
    site = Site(place / "site", programs)
    monkeypatch.setenv("PATH", f"{site.bin}:/usr/bin:/bin:/usr/sbin:/sbin")
    for patience in ("LOOK_EVERY_S", "STILL_S", "UNSEEN_S"):
        monkeypatch.setattr(space, patience, 0.01)
    (place / "drop_caches").touch()  # other tests measure on this machine
    monkeypatch.setattr(caches, "DROP", place / "drop_caches")
    note = place / "lib" / "settings.json"
    monkeypatch.setattr(settings, "NOTE", note)
    elsewhere = f"import pathlib; from fsage.host.system import settings; settings.NOTE = pathlib.Path({str(note)!r}); "
    monkeypatch.setattr(remote, "START_AGENT", remote.START_AGENT.replace(remote.BOOT, remote.BOOT + elsewhere))
    monkeypatch.setattr(caches, "known", lambda files: [])  # so names stay
    return site


INSTANCE = "ff11000110ffb000"
"""What the recorded client's mount is called by, among others."""
NEIGHBOUR = "ff494a3e32884000"
"""A mount of somebody else on the same client."""
SERVERS = "lctl get_param osc.lustre-OST*.ost_server_uuid mdc.lustre-MDT*.mds_server_uuid"


def lustre_target(place: Path, site: Site, **more: object) -> dict:
    """The declaration of a Lustre target whose mount is a directory of this machine; `site` answers as recorded.

    It may fill a part of the file system only: on this machine others write beside it.
    """
    mount = place / "mnt" / "lustre"
    directory = mount / "fsage"
    directory.mkdir(parents=True)
    site.answer(FINDMNT, recorded("findmnt_lustre.json").replace("/mnt/lustre", str(mount)))
    for asked in (mount, directory):
        site.answer(f"lfs df {asked}", recorded("lfs_df.txt"))
    site.answer(f"lfs path2fid {directory}", recorded("lfs_path2fid.txt"))
    site.answer(SERVERS, recorded("lctl_server_uuid.txt").replace("DISCONN", "FULL"))
    site.answer(f"lfs getname {mount}", f"lustre-{INSTANCE} {mount}\n")
    site.answer(f"lfs getname {directory}", f"lustre-{INSTANCE} {mount}\n")
    site.answer("lctl get_param -n version", "2.17.57_62_gc881f8ebcb\n")
    site.answer("lfs quota -q*", "    /mnt/lustre       0       0       0       -       0       0       0       - \n")
    site.answer("lfs project -d*", "    0 - /mnt/lustre\n")
    for tree in ("filler", "measured"):
        site.answer(f"lfs setstripe -c 1 -S 1M -i -1 {directory / tree}")
        site.answer(
            f"lfs getstripe -y -d {directory / tree}", recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0]
        )
    site.answer(f"lfs getstripe -y {directory}/filler/g1/*", recorded("lfs_getstripe_y_plain_f1.txt"))
    lustre = {"fsname": "lustre", "mgs": "10.0.2.15@tcp", "capacity_gib": 4, "free_percent": 100, **more}
    return {
        "name": "scratch",
        "kind": "lustre",
        "lustre": lustre,
        "directory": str(directory),
        "home": str(place / "home"),
        "scale": {"file_size": 0.125, "tasks": 1},
        "amount_mib": 1,
    }


OST_STATS = "osd-ldiskfs.lustre-OST0000.brw_stats"


def brw_stats(ios: int) -> str:
    """Recorded brw_stats of both OSTs after `ios` disk I/Os in one piece."""
    text = recorded("lctl_brw_stats.txt").replace("|   25  96  96", f"| {ios:4}  96  96")
    return text + text.replace(OST_STATS, OST_STATS.replace("OST0000", "OST0001"))


def at_servers(*names: str) -> dict:
    """Of a request the hosts: servers that this machine plays, so their agents find the programs of the site."""
    return {"hosts": {"servers": [{"name": name, "python": sys.executable, "local": True} for name in names]}}
