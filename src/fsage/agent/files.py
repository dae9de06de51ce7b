"""Small files that must survive a kill: JSON written whole or not at all, and a lock between processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fsage.agent.errors import Failure


def write_json(path: Path | str, obj: Any) -> None:
    """Write `obj` to `path` atomically and durably: temporary file, fsync, rename, fsync of the directory."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as out:
        json.dump(obj, out, indent=1, sort_keys=True)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    sync_dir(path.parent)


def read_json(path: Path | str) -> Any:
    """What `path` holds, or None when there is no such file; `Failure` when it is not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Failure(f"{path}: not JSON ({error}); it is written atomically, so somebody edited it") from error


def remove(path: Path | str) -> None:
    """Remove a file durably; no complaint when it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        sync_dir(Path(path).parent)


def sync_dir(path: Path | str) -> None:
    """Make a rename or removal in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Hold an exclusive lock (flock) on `path` while the block runs; a dead process holds nothing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def utc_now() -> str:
    """This moment, ISO 8601, UTC."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def boot_id() -> str:
    """Changes with every boot: what a rebooted kernel has forgotten is told apart by it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
