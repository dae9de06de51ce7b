"""Every reader of what others hand over, on real samples that were bent: it takes them or says why not.

Each runs in a process of its own that may use 500 MiB more than it began with, and 10 seconds an input. Inputs are
drawn alike each time; `./run pytest -m long tests/test_fuzz.py` draws twenty times as many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.readers import readers

HERE = Path(__file__).parent
LONG = 20


def fuzz(name: str, times: int, folder: Path) -> dict:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-m", "fuzz", name, str(times)]
    env = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", readers())
def test_a_reader_takes_what_was_bent_or_says_why_not(name, record_property, tmp_path) -> None:
    record_property("fuzzed", fuzz(name, 1, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", readers())
def test_a_reader_takes_many_more_or_says_why_not(name, record_property, tmp_path) -> None:
    record_property("fuzzed", fuzz(name, LONG, tmp_path))
