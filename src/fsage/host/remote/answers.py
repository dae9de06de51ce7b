"""What another host answers (fsage.host.remote.attendant): bounded, typed, and no more than what it was told to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsage.model import MIB
from fsage.model.message import Unacceptable, printable, read, shown

ANSWER_BYTES = 4 * MIB
LARGEST = 2**63 - 1


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _code(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _block(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


TYPES: dict[str, Callable[[Any], bool]] = {
    "root": _truth,
    "uid": lambda value: value is None or _count(value),
    "time": _number,
    "memory_bytes": _count,
    "network_mbit_s": _numbers,
    "missing": _texts,
    "seconds": _number,
    "method": _text,
    "cached_pages": _count,
    "now": _block,
    "tables": _block,
    "ldiskfs": _texts,
    "zfs": _texts,
    "proof": _texts,
    "rc": _code,
    "stdout": _text,
    "stderr": _text,
    "wall_s": _number,
    "timed_out": _truth,
}
NEEDED: dict[str, tuple[str, ...]] = {
    "hello": ("root", "time", "memory_bytes"),
    "drop": ("seconds", "method"),
    "server_cache": ("now",),
    "prealloc": ("tables",),
    "clock": ("time",),
    "go": ("rc", "stdout", "stderr", "wall_s", "timed_out"),
}


def checked(text: bytes, told: str, role: str) -> dict[str, Any]:
    """The answer of a client or server to what it was told to do. Raises Unacceptable."""
    answer = read(text, ANSWER_BYTES)
    if not isinstance(answer, dict):
        raise Unacceptable(f"is {shown(answer)} and no JSON object")
    if "failed" in answer:
        return {"failed": printable(str(answer["failed"]))[:2000]}
    needed = (*NEEDED.get(told, ()), *(("cached_pages",) if (told, role) == ("drop", "client") else ()))
    for key in needed:
        if key not in answer:
            raise Unacceptable(f"is without {key}")
    for key, value in answer.items():
        if key in TYPES and not TYPES[key](value):
            raise Unacceptable(f"has {shown(value)} as {shown(key)}")
    return answer
