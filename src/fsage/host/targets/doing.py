"""What a command does at the moment, in words, for who waits for it: a file in the target's home."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from fsage.host.system import places

NOTE = "doing.json"


def say(home: Path, words: str, cells: int = 0) -> None:
    """Note it, and how many cells this command has measured. Nobody is kept from work where that is not possible."""
    beside = home / f".{NOTE}"
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(beside, flags, places.PRIVATE_FILE), "w", encoding="utf-8") as file:
            json.dump({"doing": words, "since": time.time(), "cells": cells}, file)
        beside.replace(home / NOTE)
