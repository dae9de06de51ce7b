"""What a command does at the moment, in words, for who waits for it: a file in the target's home."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

NOTE = "doing.json"


def say(home: Path, words: str, cells: int = 0) -> None:
    """Note it, and how many cells this command has measured. Nobody is kept from work where that is not possible."""
    beside = home / f".{NOTE}"
    with contextlib.suppress(OSError):
        beside.write_text(json.dumps({"doing": words, "since": time.time(), "cells": cells}))
        beside.replace(home / NOTE)
