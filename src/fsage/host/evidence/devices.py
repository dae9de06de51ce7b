"""Why this process cannot read a device, and what helps."""

from __future__ import annotations

import errno
import os

DENIED = (errno.EACCES, errno.EPERM)


def why_closed(device: str) -> str | None:
    """Why a device cannot be opened for reading; None where it can."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return why(device, error)
    return None


def why(device: str, error: OSError) -> str:
    """Why a device, or what only root may ask of it, is not to be had."""
    elsewhere = f"give the command on the machine itself, or start the container with --device {device}"
    if error.errno in (errno.ENOENT, errno.ENXIO):
        return f"there is no {device} here, as in a container: {elsewhere}"
    if error.errno not in DENIED:
        return f"{device} cannot be read: {error.strerror}"
    if os.geteuid() == 0:
        return f"reading {device} needs root of the machine, which this container withholds: {elsewhere}"
    return f"reading {device} needs root: give the command as root"
