"""The kernel's log (/dev/kmsg): its lines that tell of trouble."""

from __future__ import annotations

import os
import re

from fsage.base import Json, Refusal, message
from fsage.host.system import kernel
from fsage.host.system.privilege import privileged

KMSG = "/dev/kmsg"
RECORD_BYTES = 8192
MOST_LINES = 200
MOST_CHARACTERS = 300
WORDS = (
    *("I/O error", "critical (medium|target|space allocation) error", "Buffer I/O", "lost async page write"),
    *("EXT4-fs error", "Aborting journal", "[Rr]emounting filesystem read-only", "BTRFS (error|critical)"),
    *("XFS .*(error|Corruption|[Ss]hut)", "EXT4-fs .*shut down requested", "nvme.*(timeout|reset|Abort)"),
    *(r"ata\d.*(hard resetting|exception|failed command)", "(scsi|sd) .*(timing out|rejecting I/O|resetting|abort)"),
    *(r"blocked for more than \d+ seconds", "soft lockup", "NETDEV WATCHDOG", "Link is Down", "Out of memory"),
    *("nfs: server .*(not responding|timed out|OK)", "LustreError", "LNetError"),
    *(
        "Lustre: .*([Cc]onnection .*(lost|restored)|timed out|evict|reconnect)",
        "LNet: .*(timed out|timeout|down|reset)",
    ),
)
TROUBLE = re.compile("|".join(WORDS))
"""What is no trouble, or no storage's, is left out: with root's helper a user reads these lines alone."""


@privileged("kernel-log")
def since(number: int) -> Json:
    """Lines that tell of trouble after a record of the log, and the number of its last record now. Raises OSError.

    `number` -1: nothing but the number. The kernel overwrites its oldest records; `lost`: some that were wanted.
    """
    last = max(number, 0)
    first = None
    lines = list[str]()
    with kernel.opened(KMSG, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        while True:
            try:
                record = os.read(descriptor, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # it was overwritten before it was read: the next one is the oldest
                continue
            head, _, text = record.decode("utf-8", "replace").partition(";")
            last = int(head.split(",")[1])
            first = last if first is None else first
            if last > number >= 0 and TROUBLE.search(text):
                lines.append(message.printable(text.partition("\n")[0])[:MOST_CHARACTERS])
    lost = number >= 0 and first is not None and first > number + 1
    return {"last": last, "lines": lines[:MOST_LINES], "more": max(0, len(lines) - MOST_LINES), "lost": lost}


def check_number(number: object) -> int:
    """The number of a record, checked. Raises Refusal."""
    if not isinstance(number, int) or isinstance(number, bool) or not -1 <= number < 1 << 63:
        raise Refusal(f"{message.shown(number)} is no number of a record of the kernel's log")
    return number
