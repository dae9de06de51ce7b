"""What results disclose of people and machines, and the same results with stand-ins in its place.

Found are host names, users, NIDs and other addresses, UUIDs and ids of machines, paths, and what a site added to its
kernel's version. One name has one stand-in wherever it stands: in records, evidence, raw output, the study. Kept are
the names of study, target and states, sizes, versions of tools, options of commands, all numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml

from fsage.archive.crate import CrateError
from fsage.plan import results
from fsage.plan.plan import Plan, load_plan
from fsage.text import untrusted, yaml_text

HOSTS_FILES = ("hosts.yml", "hosts.yaml", "hosts")
NO_NAMES = {"localhost", "all", "root", "nobody", "none", "null", "true", "false", ""}
UUID = r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])"
MAC = r"(?<![\w:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?![\w:])"
NID = r"(?<![\w.@-])[\w.-]+@(?:tcp|o2ib|gni|kfi|ptlf|lo)\d*(?!\w)"
IPV4 = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)"
IPV6 = r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:%\w+)?(?![\w:.])"
ACCOUNT = r"(?<![\w.@/-])([a-z_][a-z0-9_-]{0,31})@(?!(?:tcp|o2ib|gni|kfi|ptlf|lo)\d*\b)([A-Za-z][\w.-]*\w)"
HOME = r"(?<![\w.])/(?:home|users|u)/([A-Za-z_][\w.-]*)"
PATH = r"(?<![\w./~])/(?:[\w.+@%=,~#-]+/?)+"
SHAPES = re.compile("|".join((UUID, MAC, NID, IPV4, IPV6, PATH)))
NOTHING = re.compile(r"(?!)")
KERNEL = re.compile(r"(\d+(?:\.\d+)+)([-+_].*)")
PLAIN_PATHS = re.compile(
    r"/(?:proc|sys|usr|bin|sbin|lib|lib64)(?:/|$)|/run/fsage(?:/|$)|/dev/(?:(?:loop|ram|sd|vd|nvme|md|fuse|null|zero|shm)\w*/?)?$"
)
"""The same on every machine."""
OF_HOSTS = {"host", "hosts", "hostname", "nodename", "nodes", "clients", "servers", "oss", "name_of_host"}
"""Keys whose texts are names of hosts."""
OF_IDS = {"machine", "machine_id", "serial", "wwn", "wwid"}
OF_USERS = {"user", "owner", "run_as", "login"}
SAID = (r"Machine\s*:\s*\w+ (\S+)", r"^<([\w.-]+)> ", r"on (?:host|node) ([\w.-]+)", r"hostname=([\w.-]+)")
"""Where IOR, fio and mpirun name a host in their output."""
WORDS = {"hosts": "host", "users": "user", "addresses": "nid", "ids": "id", "places": "place", "kernels": "kernel"}
TITLES = {
    "hosts": "host names",
    "users": "user names",
    "addresses": "NIDs and addresses",
    "ids": "UUIDs and ids of machines and file systems",
    "places": "paths",
    "kernels": "kernels",
}
SHOWN = 3


@dataclass
class StandIns:
    """What was found, by kind, and the stand-in of each: the order of finding numbers them."""

    found: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in WORDS})
    kept: set[str] = field(default_factory=set)
    """Names that are never replaced: of the target, the study, its states."""
    chosen: list[str] = field(default_factory=list)
    """Folders that the site chose, below which all names are ours."""
    used: set[str] = field(default_factory=set)
    """What `text` met."""

    def learn(self, kind: str, name: str) -> None:
        """Note one name of that kind."""
        if name.lower() in NO_NAMES or name in self.kept or name in self.found[kind] or name.isdigit():
            return
        number = len(self.found[kind]) + 1
        match kind:
            case "addresses":
                network = name.partition("@")[2]
                stand_in = f"nid{number}@{network}" if network else f"address{number}"
            case "ids":
                stand_in = f"00000000-0000-4000-8000-{number:012d}"
            case "places":
                stand_in = f"/place{number}"
            case "kernels":
                stand_in = f"{name[: KERNEL.fullmatch(name).end(1)]}-kernel{number}"  # type: ignore[union-attr]  # found by this pattern
            case _:
                stand_in = f"{WORDS[kind]}{number}"
        self.found[kind][name] = stand_in

    def collect(self, value: Any, key: str = "") -> None:
        """Learn from a value of JSON or YAML; `key` says under which it stands."""
        if isinstance(value, dict):
            for name, one in value.items():
                self.collect(one, str(name))
            if key in OF_HOSTS and all(isinstance(one, int | dict) for one in value.values()):
                for name in value:
                    self._host(str(name))
        elif isinstance(value, list):
            for one in value:
                self.collect(one, key)
        elif isinstance(value, str):
            self._look_at(value, key)

    def _look_at(self, text: str, key: str) -> None:
        if key in OF_HOSTS:
            self._host(text)
        elif key in OF_IDS:
            self.learn("ids", text)
        elif key in OF_USERS:
            self.learn("users", text)
        elif key == "kernel" and KERNEL.fullmatch(text):
            self.learn("kernels", text)
        self._look_into(text)

    def _host(self, name: str) -> None:
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            self.learn("hosts", name)
            short = name.partition(".")[0]
            if not short.isdigit():
                self.learn("hosts", short)

    def _look_into(self, text: str) -> None:
        for pattern in (UUID, MAC):
            for match in re.finditer(pattern, text):
                self.learn("ids", match[0])
        for match in re.finditer(NID, text):
            self.learn("addresses", match[0])
        for pattern in (IPV4, IPV6):
            for match in re.finditer(pattern, text):
                if _is_address(match[0]):
                    self.learn("addresses", match[0])
        for match in re.finditer(HOME, text):
            self.learn("users", match[1])
        for match in re.finditer(ACCOUNT, text):
            self.learn("users", match[1])
            self._host(match[2])
        for pattern in SAID:
            for match in re.finditer(pattern, text, re.M):
                self._host(match[1])
        for match in re.finditer(PATH, text):
            if not PLAIN_PATHS.match(match[0]) and not self._chosen(match[0]):
                self.learn("places", match[0].rstrip("/"))

    def choose(self, places: Iterable[str]) -> None:
        """Learn folders that the site chose."""
        for place in places:
            self.learn("places", place)
            self.chosen.append(place)

    def _chosen(self, path: str) -> str | None:
        """The longest chosen folder that a path lies in."""
        return max((one for one in self.chosen if f"{path}/".startswith(f"{one}/")), key=len, default=None)

    def text(self, text: str) -> str:
        """The text with a stand-in for each name that is known."""
        return self._words.sub(self._of_word, SHAPES.sub(self._of_shape, text))

    def _of_shape(self, match: re.Match[str]) -> str:
        """A path, an address or an id: told by its shape, looked up whole."""
        name = match[0]
        for kind in ("places", "addresses", "ids"):
            if stand_in := self.found[kind].get(name if kind != "places" else name.rstrip("/")):
                self.used.add(name.rstrip("/"))
                return stand_in
        if name.startswith("/") and (place := self._chosen(name)):
            self.used.add(place)
            return self.found["places"][place] + name[len(place) :]
        return name

    def _of_word(self, match: re.Match[str]) -> str:
        self.used.add(match[0])
        return self._by_word[match[0]]

    def freeze(self) -> StandIns:
        """Make what `text` replaces words by; nothing is learned from here on."""
        for kind in ("hosts", "users", "kernels", "ids"):
            self._by_word |= self.found[kind]
        self._by_word |= {place: self.found["places"][place] for place in self.chosen if place in self.found["places"]}
        # The longest first, so that none is cut by another.
        names = "|".join(re.escape(name) for name in sorted(self._by_word, key=lambda name: (-len(name), name)))
        self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])") if names else NOTHING
        return self

    _by_word: dict[str, str] = field(default_factory=dict)
    _words: re.Pattern[str] = NOTHING

    def value(self, value: Any) -> Any:
        """The same of JSON, keys too."""
        if isinstance(value, dict):
            return {self.text(name): self.value(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return self.text(value) if isinstance(value, str) else value


def _is_address(text: str) -> bool:
    try:
        return len(text) > 4 and not ip_address(text.partition("%")[0]).is_unspecified
    except ValueError:
        return False


def stand_ins(plan: Plan, study_file: Path, inventory: Path) -> StandIns:
    """All that the results of a study disclose, with its stand-ins."""
    found = StandIns(kept={plan.target.name, plan.study.name, *plan.states})
    for name in _machines(inventory):
        found._host(name)
    for name in {os.environ.get("SUDO_USER", ""), *(one.pw_name for one in pwd.getpwall() if one.pw_uid >= 1000)}:
        found.learn("users", name)
    found.choose(_places(plan))
    for path in _files(plan, study_file, inventory):
        found.collect(_read(path))
    return found.freeze()


def disclosed(plan: Plan, study_file: Path, inventory: Path) -> list[str]:
    """What a crate of the study tells of people and machines: a line for each kind, with the first of its names."""
    found = stand_ins(plan, study_file, inventory)
    for path in _files(plan, study_file, inventory):
        content = _read(path)
        found.text(content) if isinstance(content, str) else found.value(content)
    said = []
    for kind, known in found.found.items():
        if names := sorted(found.used & known.keys()):
            said.append(f"{TITLES[kind]}: {len(names)} ({', '.join(names[:SHOWN])}{', …' if names[SHOWN:] else ''})")
    return [*said, "command lines, versions of tools and kernels, and the study's own words"]


def copy(plan: Plan, study_file: Path, inventory: Path, to: Path) -> tuple[Plan, Path, Path]:
    """A copy of all that the study was made from and what came out, with stand-ins: plan, study's file, inventory.

    Raises CrateError where a name cannot be replaced because it is a word that records use for something else.
    """
    root, found = plan.results.root, stand_ins(plan, study_file, inventory)
    places = {study_file.parent: to / "config", inventory: to / "inventories" / inventory.name, root: to / "results"}
    for path in _files(plan, study_file, inventory):
        parent = next(one for one in places if path.is_relative_to(one))
        place = places[parent] / path.relative_to(parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        content = _read(path)
        if isinstance(content, str):
            place.write_text(found.text(content), encoding="utf-8")
        else:
            results.write(place, _checked(content, found.value(content), path))
    for path in sorted((to / "results" / "records").rglob("*.json")):
        _sum_again(path, to / "results")
    study = to / "config" / study_file.name
    where = to / "inventories" / inventory.name
    anonymous = load_plan(study, where, to / "results")
    if list(anonymous.states) != list(plan.states):
        raise CrateError("a host, user or place has a name that the study's states use: --anonymous cannot replace it")
    return anonymous, study, where


def _sum_again(path: Path, root: Path) -> None:
    """The digest of a record's raw output is that of the output with stand-ins, where this is there."""
    record = results.read(path)
    raw = record.get("raw") if isinstance(record, dict) else None
    place = root / str(raw.get("path")) if isinstance(raw, dict) else root
    if isinstance(raw, dict) and place.is_file():
        raw["sha256"] = hashlib.sha256(place.read_bytes()).hexdigest()
        results.write(path, record)


FIXED = ("study", "target", "state", "cell", "kind", "status", "params", "nominal", "metrics", "order")


def _checked(before: Any, after: Any, path: Path) -> Any:
    if isinstance(before, dict) and "cell" in before:
        changed = [key for key in FIXED if before.get(key) != after.get(key)]
        names = [[phase.get("name") for phase in one.get("phases", [])] for one in (before, after)]
        if changed or names[0] != names[1]:
            raise CrateError(
                f"{path}: a host, user or place has a name that records use as {(changed or ['a phase'])[0]}: "
                "--anonymous cannot replace it"
            )
    return after


def _read(path: Path) -> Any:
    """The value of a JSON file, else its text."""
    content = untrusted.read_file(path, 256 << 20)
    if path.suffix == ".json":
        try:
            return json.loads(content)
        except ValueError:
            pass
    return content.decode("utf-8", "backslashreplace")


def _files(plan: Plan, study_file: Path, inventory: Path) -> Iterator[Path]:
    """What a crate is made from: the studies, the declaration, and all results but the report."""
    compare = plan.study.compare
    yield study_file
    if compare:
        yield study_file.with_stem(compare.study)
    yield inventory / "group_vars" / "all" / "target.yml"
    where = plan.results
    folders = [where.root / kind / where.target / where.study for kind in ("records", "states", "raw")]
    if compare:
        folders.append(where.root / "records" / where.target / compare.study)
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    yield from (path for path in (where.claim, where.seed) if path.exists())


def _machines(inventory: Path) -> Iterator[str]:
    """This host, and those that the inventory names."""
    yield os.uname().nodename
    for name in HOSTS_FILES:
        path = inventory / name
        if path.is_file():
            try:
                yield from _in_groups(yaml_text.load(path.read_text(encoding="utf-8")))
            except (yaml.YAMLError, UnicodeDecodeError):
                continue


def _in_groups(block: Any) -> Iterator[str]:
    """Names of hosts in an inventory, and where they are reached."""
    if not isinstance(block, dict):
        return
    for key, value in block.items():
        if key == "hosts" and isinstance(value, dict):
            for name, variables in value.items():
                yield str(name)
                if isinstance(variables, dict) and isinstance(address := variables.get("ansible_host"), str):
                    yield address
        else:
            yield from _in_groups(value)


def _places(plan: Plan) -> Iterable[str]:
    """Folders that this site chose: the target's, the results', a user's own."""
    target = plan.target
    chosen = [target.image_dir, target.mount_dir, target.directory, target.home, target.containers]
    chosen += [str(plan.results.root.absolute()), str(Path.cwd()), os.environ.get("HOME", "")]
    return [one.rstrip("/") for one in chosen if one and one.rstrip("/") and not PLAIN_PATHS.match(one)]
