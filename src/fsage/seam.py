"""The one way from the launcher's code to the host side of its own machine: by name, so that nothing imports it."""

from __future__ import annotations

import importlib
from typing import cast

from fsage.model.local import Local


def here() -> Local:
    """The host side of this machine."""
    return cast(Local, importlib.import_module("fsage.host.local"))
