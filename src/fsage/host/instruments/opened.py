"""The instruments of a command: which there are, by what is declared of its target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import cast

from fsage.host.instruments.hours import Hours
from fsage.host.instruments.instrument import Instrument, Instruments
from fsage.host.instruments.neighbours import SERVERS, Neighbours
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.targets.kinds import Servers
from fsage.host.targets.target import Target
from fsage.model.hosts import Asker
from fsage.model.stop_if import StopIf
from fsage.model.target import Limits


@contextlib.contextmanager
def opened(
    target: Target,
    request: Asker,
    check_alive: Callable[[], None] = lambda: None,
    hosts: Servers | None = None,
    limits: Limits | None = None,
) -> Iterator[Instruments]:
    """The instruments of a command on a target, until it ends. Raises Failure.

    `check_alive` raises where the command must end. `hosts` are connected already, and `limits` keep to those of all;
    without them this host's hold, and servers are reached where a limit needs them.
    """
    allowed, stop_if = limits or target.spec["limits"], cast("StopIf | None", target.spec["stop_if"])
    each: list[Instrument] = [Hours(allowed["hours"])] if allowed["hours"] else []
    with contextlib.ExitStack() as stack:
        if stop_if:
            leads = (target.home / "claim.json").exists()
            asks = leads and any(cast(dict[str, object], stop_if)[name] is not None for name in SERVERS)
            if not leads:  # the launcher asks the servers
                stop_if = cast(StopIf, {**stop_if, **dict.fromkeys(SERVERS)})
            if asks and not hosts:
                inventory = inventory_of(request)
                alone = Hosts(target.spec, target.claim, {**inventory, "clients": inventory["clients"][:1]})
                hosts = stack.enter_context(contextlib.closing(alone))
            holder = request.get("holder")
            each.append(Neighbours(target, stop_if, hosts or target.osts, holder["run"] if holder else ""))
        instruments = Instruments(each, check_alive)
        stack.callback(instruments.close)
        yield instruments


@contextlib.contextmanager
def looked_on(
    target: Target, request: Asker, what: str, check_alive: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Have the instruments look on at a step of fsage's own work. Raises Stopped, Failure."""
    with opened(target, request, check_alive) as instruments, instruments.around_step(target, what):
        yield
