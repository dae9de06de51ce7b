"""A Python whose clock is 5 s ahead, for one host of several that share a kernel, and so a clock."""

from __future__ import annotations

SOURCE = b"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int code = syscall(SYS_clock_gettime, clock, time);
    if (!code && clock == CLOCK_REALTIME) time->tv_sec += 5;
    return code;
}
"""
"""A library that a program is started with."""


def make(folder: str) -> str:
    """A shell line that reads SOURCE and makes folder/python3."""
    return f"""cc -shared -fPIC -xc - -o {folder}/ahead.so && chmod 755 {folder} && cat >{folder}/python3 <<'END' &&
#!/bin/sh
LD_PRELOAD={folder}/ahead.so exec /usr/bin/python3 "$@"
END
chmod 755 {folder}/python3"""


def refused(host: str) -> str:
    """A regular expression for the refusal."""
    return rf"the clock of {host} is [45] s ahead of \S+'s \(at most 2 s\): synchronise it"
