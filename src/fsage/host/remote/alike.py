"""The facts of a host in which all clients must be alike."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from fsage.host import containers
from fsage.host.lustre import params
from fsage.host.system import privilege
from fsage.host.system.libc import memory_bytes
from fsage.host.targets import run_as
from fsage.model.hosts import Facts
from fsage.model.target import Spec


def facts(spec: Spec) -> Facts:
    """The facts of this host that are cheap to find."""
    uname = os.uname()
    return {
        "root": privilege.unavailable_because() is None,
        "uid": None if run_as.unavailable_because(spec) else run_as.uid(spec),
        "host": uname.nodename,
        "kernel": uname.release,
        "memory_bytes": memory_bytes(),
        "network_mbit_s": network_mbit_s(),
        "time": time.time(),
        "images": containers.digests(spec["containers"]),
        "lustre": params.version() if spec["lustre"] and shutil.which("lctl") else None,
    }


def network_mbit_s(interfaces: Path = Path("/sys/class/net")) -> list[int]:
    """Speeds of the network devices that are up, in Mbit/s (sysfs-class-net: -1, or an error, where unknown)."""
    speeds = []
    for speed in interfaces.glob("*/speed"):
        try:
            speeds.append(int(speed.read_text()) if (speed.parent / "device").exists() else -1)
        except OSError:  # the device is down
            continue
    return sorted(value for value in speeds if value > 0)
