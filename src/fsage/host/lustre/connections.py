"""Whether a client's connections to its servers stand: what asks a server that is lost waits for ever."""

from __future__ import annotations

import os
import time

from fsage.host.lustre import params
from fsage.model.errors import Failure

ANSWERS = ("FULL", "IDLE")  # an idle one is made again at the next request
LEFT_OUT = "DEACTIVATED"  # by an administrator: nothing waits for it
PATIENCE_S, LOOK_EVERY_S = 120.0, 1.0  # a server that just came back has its clients recover first


def await_servers(fsname: str) -> None:
    """Wait until every OST and MDT answers this client. Raises Failure naming those that do not.

    The kernel tells that root alone; a user who asks learns nothing here, and waits.
    """
    deadline = time.monotonic() + PATIENCE_S
    while lost := silent(fsname):
        if time.monotonic() > deadline:
            raise Failure(
                f"{params.names([f'{name} ({state})' for name, state in lost.items()])}: no answer on "
                f"{os.uname().nodename} for {PATIENCE_S:.0f} s, and what is read or written there would wait for "
                "ever. Bring it back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def silent(fsname: str) -> dict[str, str]:
    """The servers that do not answer, with the state of the connection to each."""
    asked = f"osc.{fsname}-OST*.ost_server_uuid", f"mdc.{fsname}-MDT*.mds_server_uuid"
    answers = [value.split() for value in params.get(*asked).values()]
    return {
        words[0].removesuffix("_UUID"): words[1]
        for words in answers
        if len(words) > 1 and words[1] not in ANSWERS and LEFT_OUT not in words
    }
