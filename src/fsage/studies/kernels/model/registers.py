"""Registers of this processor that a kernel cannot keep are hidden from it.

A kernel before Linux 6.13 keeps at most 2696 bytes of registers of each of its processes. Where the processor has more
(AMX has 11 KiB), ptrace(2) takes so few no more, and the kernel panics when it starts its first program. Without
PTRACE_GETREGSET it keeps what fxsave has: that does without AVX, whose registers are lost with each page fault. So the
C library and OpenSSL are told to do without it too.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

TOO_MANY = "ptrace set fp regs failed"
"""What a kernel says that cannot keep them, before it has started anything."""
REMEDY = (
    "this processor has more registers (AMX) than Linux before 6.13 keeps; what runs in a guest goes without AVX then. "
    "A newer kernel does not need that: `fsage kernels --fetch sid`"
)
LESS = "-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-AVX2_Usable,-AVX512F_Usable"
"""By their names since glibc 2.33, and before."""
WITHOUT_AVX = [f"GLIBC_TUNABLES=glibc.cpu.hwcaps={LESS}", "OPENSSL_ia32cap=~0x1000000000000000:0"]
"""Words of a kernel's command line that its first program has as environment, and all others inherit."""
# seccomp(2). Each row is an instruction of linux/filter.h: code, where to go if it is true or not, and a constant.
HIDING = """
import ctypes, os, struct, sys
rows = [
    (0x20, 0, 0, 4),  # load the architecture
    (0x15, 0, 7, 0xC000003E),  # go on if it is x86-64
    (0x20, 0, 0, 0),  # load the number of the call
    (0x15, 0, 5, 101),  # ptrace
    (0x20, 0, 0, 16),  # its first argument
    (0x15, 0, 3, 0x4204),  # PTRACE_GETREGSET
    (0x20, 0, 0, 32),  # its third
    (0x15, 0, 1, 0x202),  # NT_X86_XSTATE
    (0x06, 0, 0, 0x00050000 | 19),  # ENODEV
    (0x06, 0, 0, 0x7FFF0000),  # all else is allowed
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("HP", len(rows), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
for call in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
    if prctl(*call):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""
FRONT = [sys.executable, "-ISc", HIDING]
"""Words before a kernel's command."""
KEEPS_ALL = (6, 13)
hidden_from = set[Path]()
"""The kernels that have said so in this process."""


def are_hidden(release: str, program: Path) -> bool:
    """Whether a kernel is known not to keep those of this processor: it has said so, or its release tells.

    A kernel that was named by its path has no release: it says so itself.
    """
    version = re.match(r"(\d+)\.(\d+)", release)
    if version and (int(version[1]), int(version[2])) < KEEPS_ALL and _has_amx():
        return True
    return program in hidden_from


def may_be_why(console: str) -> bool:
    """Whether a guest ended as one does whose registers are lost."""
    return TOO_MANY in console or "segfault" in console


@cache
def _has_amx() -> bool:
    return "amx_tile" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
