"""Whether a client's servers answer: a read or write to a lost server waits for ever."""

from __future__ import annotations

import os
import time

from fsage.host.lustre import params
from fsage.model.errors import Failure

ANSWERS = ("FULL", "IDLE")  # an idle connection is made again at the next request
LEFT_OUT = "DEACTIVATED"  # by an administrator: nothing waits for this server
PATIENCE_S, LOOK_EVERY_S = 120.0, 1.0  # after a server came back its clients recover first


def await_servers(fsname: str) -> None:
    """Wait until every OST and MDT answers this client. Raises Failure naming those that do not.

    The kernel shows that to root only. For a user no server is listed here, and he waits.
    """
    deadline = time.monotonic() + PATIENCE_S
    while lost := silent(fsname):
        if time.monotonic() > deadline:
            raise Failure(
                f"{params.names([f'{name} ({state})' for name, state in lost.items()])}: no answer on "
                f"{os.uname().nodename} for {PATIENCE_S:.0f} s. A read or write there would wait for ever. Bring it "
                "back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def silent(fsname: str) -> dict[str, str]:
    """The servers that do not answer, with the state of the connection to each."""
    patterns = f"osc.{fsname}-OST*.ost_server_uuid", f"mdc.{fsname}-MDT*.mds_server_uuid"
    answers = [value.split() for value in params.get(*patterns).values()]
    return {
        words[0].removesuffix("_UUID"): words[1]
        for words in answers
        if len(words) > 1 and words[1] not in ANSWERS and LEFT_OUT not in words
    }
