"""The preallocation of ldiskfs OSTs: files of /proc/fs/ldiskfs/DEVICE, which `lctl` does not reach.

`prealloc_table` is lost with every umount of the OST. `mb_last_group` is the block group where the allocator looks
next. Newer series have several and call the file `mb_last_groups`, with a line `N# group` for each; older ones have
none. (Lustre's ldiskfs/kernel_patches: ext4-prealloc.patch, ext4-export-mb-stream-allocator-variables.patch.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from fsage.api.helper import settings
from fsage.api.host import run
from fsage.api.model import MIB, Failure, Json, Refusal, Spec
from fsage.api.target import Request, declaration, files, holder_of, places, preallocation
from fsage.layouts import dumpe2fs
from fsage.layouts.store import NotThisText

from ..helper import lctl
from ..model import lustre_of

BLOCK_BYTES = 4096
# The tables of the study, by the size that it calls them by; in blocks of 4 KiB.
TABLES = {
    1 * MIB: (32, 64, 128),
    2 * MIB: (128, 256, 512),
    4 * MIB: (256, 512, 1024),
    8 * MIB: (256, 512, 1024, 2048),
}


def table_of(requested: preallocation.Requested) -> tuple[int, ...] | None:
    """The table for ldiskfs; None when only the pointer is requested. Raises Refusal for a size without a table."""
    if requested.size_bytes is None or requested.size_bytes in TABLES:
        if requested.size_bytes:
            return TABLES[requested.size_bytes]
        return requested.table
    tables = ", ".join(f"{preallocation.size_words(size)}: {table_words(table)}" for size, table in TABLES.items())
    size = preallocation.size_words(requested.size_bytes)
    raise Refusal(f"tune_prealloc_size is {size}, for which no table is known ({tables}); give tune_prealloc_table")


def table_words(table: tuple[int, ...]) -> str:
    """The text that the kernel takes: block counts with a blank between two."""
    return " ".join(map(str, table))


PROC = "/proc/fs/ldiskfs"
INODE_TABLE = re.compile(r"^Inode blocks per group: +(\d+)$", re.MULTILINE)
READ_BYTES = 4096
OFF = "0"  # what is written for an empty table: preallocation is switched off

KIND = "prealloc"
TABLE = "prealloc_table"
KEYS = (TABLE, "mb_last_group")
Values = dict[str, object]  # "prealloc_table": text; "mb_last_group": number, or why there is none


class Ost(NamedTuple):
    """An OST that this host serves; `most_blocks` is the largest entry that its table may have."""

    name: str
    device: str
    place: Path
    groups: int
    most_blocks: int

    def now(self) -> Values:
        """The values that it has now."""
        return {"prealloc_table": self._read("prealloc_table"), "mb_last_group": self._pointer()}

    @property
    def has_pointer(self) -> bool:
        """Whether this series lets the allocation pointer be set."""
        return self._pointer_file() is not None

    def set(self, key: str, value: object) -> None:
        """Write a value, read back and compared. Raises Failure."""
        file = (self._pointer_file() if key == "mb_last_group" else None) or self.place / key
        write(file, str(value) or OFF)
        read_back = self.now()[key]
        if read_back != value:
            raise Failure(f"{file}: requested {value!r}, reads back {read_back!r}")

    def _pointer_file(self) -> Path | None:
        files = [self.place / name for name in ("mb_last_group", "mb_last_groups")]
        return next((file for file in files if file.exists()), None)

    def _pointer(self) -> int | str:
        file = self._pointer_file()
        if file is None:
            return "unsupported: this series of ldiskfs (before 2016) has no mb_last_group"
        last = {line.rpartition(" ")[2] for line in self._read(file.name).split("\n")}
        if len(last) == 1:
            return int(last.pop())
        return "several: " + ", ".join(sorted(last, key=int))

    def _read(self, name: str) -> str:
        descriptor = os.open(self.place / name, os.O_RDONLY)
        try:
            return os.read(descriptor, READ_BYTES).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)


def write(path: Path, text: str) -> None:
    """One write(2), for the kernel takes each as a whole new value. Raises Failure."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Failure(f"{path}: {text!r} was refused ({error.strerror})") from error


def served(fsname: str, wanted: list[str], proc: Path) -> list[Ost]:
    """The ldiskfs OSTs of the file system that this host serves, or those `wanted` of them (names or devices).

    `Refusal`: one wanted is not among them, or what the kernel shows of it does not fit.
    """
    host = os.uname().nodename
    devices_by_ost = lctl.get(f"osd-ldiskfs.{fsname}-OST*.mntdev")
    devices = {name.split(".")[1]: device for name, device in sorted(devices_by_ost.items())}
    for name in wanted:
        if devices and name not in devices and name not in devices.values():
            served_here = ", ".join(f"{ost} on {device}" for ost, device in devices.items())
            raise Refusal(f"tune_prealloc_osts names {name}, which is no OST of {fsname} on {host} ({served_here})")
    chosen = {ost: device for ost, device in devices.items() if not wanted or ost in wanted or device in wanted}
    return [_ost(ost, device, proc) for ost, device in chosen.items()]


def tables_of(spec: Spec) -> dict[str, str]:
    """The table of each ldiskfs OST of a target that this host serves; "absent" where ldiskfs does not show it."""
    proc = Path((files.read_json(declaration.home_of(spec) / "prealloc.json") or {}).get("proc") or PROC)
    tables = {}
    for name, device in lctl.get(f"osd-ldiskfs.{lustre_of(spec)['fsname']}-OST*.mntdev").items():
        try:
            text = (proc / Path(os.path.realpath(device)).name / "prealloc_table").read_text("ascii", "replace")
        except FileNotFoundError:
            text = "absent"
        except OSError as error:
            text = f"not known: {error.strerror}"
        tables[name.split(".")[1]] = text.strip()
    return tables


def refuse_unfit(ost: Ost, table: tuple[int, ...] | None, group: int | None) -> None:
    """`Refusal` for a table or a group that this OST cannot have, which the kernel would refuse too."""
    if table and table[-1] > ost.most_blocks:
        raise Refusal(
            f"tune_prealloc_table has {table[-1]} blocks, and a group of {ost.name} ({ost.device}) holds at most "
            f"{ost.most_blocks} beside its own tables; nothing was written"
        )
    if group is not None and group >= ost.groups:
        raise Refusal(
            f"tune_prealloc_group is {group}, and {ost.name} ({ost.device}) has groups 0 to {ost.groups - 1}; nothing "
            "was written"
        )


def values_for(osts: list[Ost], requested: preallocation.Requested) -> dict[str, Values]:
    """What is to be written to each OST. `Refusal` where one cannot have it: then none gets it."""
    table = table_of(requested)
    for ost in osts:
        refuse_unfit(ost, table, requested.group)
    values: dict[str, Values] = {}
    for ost in osts:
        own: Values = {} if table is None else {"prealloc_table": table_words(table)}
        if requested.group is not None and ost.has_pointer:
            own["mb_last_group"] = requested.group
        values[ost.name] = own
    return values


def put(
    osts: list[Ost], values: dict[str, Values], holder: settings.Holder, restore: bool, check: bool
) -> dict[str, Values]:
    """Have a target set these values, or let go of what it set on these OSTs; the new values of each OST that changed.

    On Failure the values from before are restored.
    """
    of_name = {str(ost.place / key): (ost, key) for ost in osts for key in KEYS}
    wanted = {name: values[ost.name][key] for name, (ost, key) in of_name.items() if key in values[ost.name]}
    steps = settings.change(holder, _kind(of_name), wanted, of_name if restore else (), check)
    changed: dict[str, Values] = {}
    for step in steps:
        ost, key = of_name[step.name]
        changed.setdefault(ost.name, {})[key] = step.now
    return changed


def _kind(of_name: Mapping[str, tuple[Ost, str]]) -> settings.Kind:
    """The settings of OSTs, by the paths of their files. Several pointers cannot be written again: None."""

    def read(names: Collection[str]) -> Values:
        values: Values = {}
        for name in names:
            if name in of_name:
                ost, key = of_name[name]
                value = ost.now()[key]
                values[name] = value if key == "prealloc_table" or isinstance(value, int) else None
        return values

    def put(values: Mapping[str, object], before: Mapping[str, object]) -> None:
        touched: list[str] = []
        try:
            for name, value in values.items():
                touched.append(name)
                set_one(name, value)
        except Failure as failure:
            for name in reversed(touched):
                if before[name] is not None:
                    set_one(name, before[name])
            restored = ", ".join(sorted({of_name[name][0].name for name in touched}))
            raise Failure(f"{failure}; the values from before were restored on {restored}") from failure

    def set_one(name: str, value: object) -> None:
        ost, key = of_name[name]
        ost.set(key, value)

    return settings.Kind(KIND, read, put)


def _ost(name: str, device: str, proc: Path) -> Ost:
    place = proc / Path(os.path.realpath(device)).name
    if not (place / "prealloc_table").exists():
        listed = ", ".join(sorted(path.parent.name for path in proc.glob("*/prealloc_table"))) or "none"
        raise Refusal(
            f"{name} is on {device}, and {place}/prealloc_table does not exist (there are: {listed}); "
            "tune_prealloc_proc names the directory"
        )
    text = run(["dumpe2fs", "-h", device]).stdout
    try:
        header, _ = dumpe2fs.read_header(text.encode().splitlines(keepends=True))
    except NotThisText as error:
        raise Refusal(f"{device} ({name}): {error}; nothing was written") from error
    inode_blocks = INODE_TABLE.search(text)
    if header.block_bytes != BLOCK_BYTES or inode_blocks is None:
        raise Refusal(
            f"{device} ({name}) has blocks of {header.block_bytes} bytes: tables here count blocks of {BLOCK_BYTES}"
        )
    groups = -(-(header.blocks - header.first_block) // header.group_blocks)
    return Ost(name, device, place, groups, header.group_blocks - 2 - int(inode_blocks[1]))


OF = {"prealloc_table": {"size", "table"}, "mb_last_group": {"group"}}
"""What of a request each of them is set by."""


def prealloc_osts(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Set `request["prealloc"]` on the OSTs that this host serves, or restore the values from before.

    Without a request the last one is set again: a table is lost with each umount of its OST.
    """
    spec = declaration.complete(declared)
    requested = request["prealloc"]
    path = declaration.home_of(spec) / "prealloc.json"
    host = os.uname().nodename
    noted = files.read_json(path)
    restore = requested["state"] == "restored"
    fsname = declaration.fsname_of(spec)
    if not fsname or (restore and noted is None):
        return {"changed": False, "msg": f"{host} has no preallocation to put back", "osts": {}}
    wanted = preallocation.wanted(requested, noted or {})
    place = requested.get("proc") or (noted or {}).get("proc") or PROC
    sizes = preallocation.read(wanted)
    osts = served(fsname, requested.get("osts") or [], Path(place))
    if not osts:
        return {"changed": False, "msg": f"{host} serves no ldiskfs OST of {fsname}", "osts": {}}
    if not wanted:
        raise Refusal(f"{host}: {preallocation.NOTHING}")
    if restore:
        values = {ost.name: Values() for ost in osts}
    else:
        values = values_for(osts, sizes)
    before = {ost.name: ost.now() for ost in osts}
    if not check and not restore:
        files.write_json(path, {"asked": wanted, "proc": place})
    changed = put(osts, values, holder_of(spec, request), restore, check)
    if restore and not check:
        files.remove(path)
        places.remove_empty(path.parent, path.parent.parent)
    touched = [key for key, of in OF.items() if of & set(wanted) or any(key in own for own in changed.values())]
    proof = []
    answers: Json = {}
    for ost in osts:
        then = before[ost.name]
        now = {**then, **changed.get(ost.name, {})} if check else ost.now()
        answers[ost.name] = {"before": {key: then[key] for key in touched}, "now": {key: now[key] for key in touched}}
        for key in touched:
            proof.append(f"{ost.name} ({ost.device}): {key} {preallocation.step_words(then[key], now[key])}")
    return {
        "changed": bool(changed),
        "msg": f"{len(osts)} ldiskfs OSTs of {fsname} on {host}",
        "proof": proof,
        "osts": answers,
    }


def is_answer(fsname: str, server: object) -> bool:
    """Whether a server's answer about its OSTs has the form that `prealloc_osts` gives it."""
    return isinstance(server, dict) and all(lctl.is_ost(fsname, name) and _of_one(server[name]) for name in server)


def _of_one(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        isinstance(table := value.get(key), dict)
        and all(isinstance(word, (str, int, list)) or word is None for word in table.values())
        for key in ("before", "now")
    )
