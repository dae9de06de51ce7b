"""A testbed for a test, or the reason why there is none."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import testbed as testbeds


@contextlib.contextmanager
def bed(**options: Any) -> Iterator[testbeds.Testbed]:
    """A testbed; the test is skipped, with the reason, where its programs are not."""
    if lacking := testbeds.missing():
        pytest.skip(f"a testbed needs {', '.join(lacking)}")
    # A short path: the names of Ansible's sockets below $HOME may have 108 characters.
    place = tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp")
    with place as folder, testbeds.Testbed(Path(folder), **options) as made:
        yield made
