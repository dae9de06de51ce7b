"""Instruments look on while a target is worked on: the interface of one, and those of one command together.

An instrument surrounds what is done to a target: a cell, a phase of it, or a step of a state. It may say that a cell
cannot be measured on this target, put what it saw on record, and end the work. Each is a subclass of Instrument, and is
found in a module of this package or in a study's `instruments`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from fsage.base import Call, Failure, Json, in_words
from fsage.host.remote import ask_all
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.system import commands
from fsage.host.system.settings import Undo
from fsage.host.targets import OtherHost, Target, claims
from fsage.host.targets.kinds import Remote, Servers
from fsage.model import plugins
from fsage.model.claim import Token
from fsage.model.hosts import Asker, Inventory
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell, Phase
from fsage.model.target import Limits, Spec

T = TypeVar("T")
PACKAGE = "fsage.host.instruments"
FOLDER = "instruments"
CHECK_EVERY_S = 0.1
"""How often fsage's own work on files is checked at most: it may call `pause` a hundred thousand times a second."""
Around = AbstractContextManager[Json]


class Stopped(Failure):
    """An instrument ends what runs. `on_record`: a cell is kept as stopped; else it counts as not measured."""

    on_record = True


class Visit(NamedTuple):
    """A command as its instruments see it.

    `hosts` are connected already; where cells are measured, they always are, and `now` is the token of the state.
    """

    target: Target
    request: Asker
    hosts: Hosts | None = None
    now: Token | None = None

    @property
    def limits(self) -> Limits:
        """The limits of the site, of all hosts that are connected."""
        if self.hosts:
            return self.hosts.limits
        return self.target.spec["limits"]

    @contextlib.contextmanager
    def servers(self) -> Iterator[Servers]:
        """Who reaches the servers, by connections that end with the block where this command has none. Raises Failure.

        No client but this one is reached for that.
        """
        if self.hosts:
            yield self.hosts
            return
        inventory = inventory_of(self.request)
        alone: Inventory = {**inventory, "clients": inventory["clients"][:1]}
        with contextlib.closing(Hosts(self.target.spec, self.target.claim, alone)) as hosts:
            yield hosts


class Instrument:
    """One of them: a subclass overrides what it needs. Each method may raise Failure.

    What `around_cell` and `around_phase` give is on record under `name` when the work is over, unless it is empty.
    `remote`: what it needs on other hosts, by name; each returns plain JSON.
    """

    name: ClassVar[str] = ""
    order: ClassVar[int] = 0
    """Instruments of a higher order are nearer to the command."""
    remote: ClassVar[Mapping[str, Remote]] = {}
    changes: ClassVar[Mapping[str, Undo]] = {}
    """How entries of these kinds in a target's journal, which it notes before it sets anything, are undone."""
    of_a_cell: ClassVar[tuple[str, ...]] = ()
    """Kinds of entries that are undone after each cell."""
    task: ClassVar[str] = ""
    """The file of a phase that it does itself (`do`), in this process."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.target = visit, visit.target

    @property
    def hosts(self) -> Hosts:
        """The hosts of a measurement."""
        assert self.visit.hosts
        return self.visit.hosts

    @property
    def now(self) -> Token:
        """The token of the state that is measured."""
        assert self.visit.now
        return self.visit.now

    def on_clients(self, name: str) -> dict[str, Json]:
        """What the function `name` of `remote` returns on each client, this one first, by the clients' names."""
        own = self.remote[name](OtherHost(self.target.spec, self.target, {}))
        return {self.hosts.client_names[0]: own, **ask_all(self.hosts.clients, {"do": name})}

    @classmethod
    def wanted(cls, visit: Visit) -> bool:
        """Whether it is of use to a command: usually wherever cells are measured."""
        return visit.now is not None

    @staticmethod
    def undo(spec: Spec) -> None:
        """Undo what it set on this server: called when a host agent begins there, and when it ends."""

    @staticmethod
    def left_over(home: Path) -> bool:
        """Whether what it set for a cell is still there."""
        return False

    @staticmethod
    def end_running(home: Path) -> None:
        """End what a killed command left running beside a cell."""

    def conditions(self) -> Json:
        """What the record of each cell says under `conditions`. Raises Failure where no cell can be measured."""
        return {}

    def unsupported(self, cell: Cell) -> str | None:
        """Why a cell can never be measured here; None: it can."""
        return None

    def refused(self, cell: Cell) -> str | None:
        """Why a cell fails before it begins; None: it may begin."""
        return None

    def prepared(self, phase: Phase) -> Phase:
        """A phase as it is to run."""
        return phase

    def around_cell(self, cell: Cell) -> Around:
        """Entered before the phases of a cell, and left after them."""
        return contextlib.nullcontext({})

    def around_phase(self, phase: Phase, cell: Cell) -> Around:
        """Entered when the caches are cold, just before a command, and left just after it."""
        return contextlib.nullcontext({})

    def around_step(self, what: str) -> Around:
        """Around a step of fsage, such as "populate"."""
        return contextlib.nullcontext({})

    def run(self, phase: Phase, check_alive: Call) -> Json | None:
        """Do a phase by its task, and return its result; None: it runs a command as usual."""
        text = phase.get("files", {}).get(self.task)
        if text is None:
            return None
        said: Json = {"errno": None}
        began = time.monotonic()
        try:
            self.do(json.loads(text), said, check_alive)
        except OSError as why:
            said["errno"] = errno.errorcode.get(why.errno or 0, in_words(why))
        return {"rc": 0, "stdout": json.dumps(said), "stderr": "", "wall_s": time.monotonic() - began}

    def do(self, task: Json, said: Json, check_alive: Call) -> None:
        """Do a task; `said` is what its phase prints, with the error that ended it. Raises OSError."""

    def failed_phase(self, phase: Phase, made: list[Path], result: PhaseResult) -> str | None:
        """Why a phase that went well and `made` these files does not count; it may add to the result."""
        return None

    def again(self, failed: bool) -> bool:
        """Whether the phases of a cell, which have just ended, only prepared it: its files go, and they run again."""
        return False

    def failed_cell(self, cell: Cell) -> str | None:
        """Why a cell that went well does not count."""
        return None

    def check(self) -> None:
        """Raise Stopped to end the work; called often meanwhile, by one thread at a time."""

    def held_up(self, check_alive: Call, cell: Cell | None) -> str | None:
        """Why no work may begin, or continue after Stopped, and when it may; None: now. It may wait for that here.

        `check_alive` is to be called while it waits. `cell`: the one that begins; None: it is none.
        """
        return None

    def close(self) -> None:
        """End what it runs, and remove what nobody needs any more."""


class Instruments:
    """All instruments of a command. `check_alive` raises where the command itself must end."""

    def __init__(self, each: Sequence[Instrument], check_alive: Call = lambda: None) -> None:
        self.each = each
        self.check_alive = check_alive
        self.stopped: Stopped | None = None
        self.lock = threading.Lock()
        self.checked = 0.0

    def first(self, ask: Callable[[Instrument], T | None]) -> T | None:
        """The first answer that is any, such as a reason; None where none has one."""
        return next(filter(None, map(ask, self.each)), None)

    def conditions(self) -> Json:
        """What they say of all cells."""
        conditions: Json = {}
        for instrument in self.each:
            conditions.update(instrument.conditions())
        return conditions

    def prepared(self, phase: Phase) -> Phase:
        """A phase as it is to run."""
        for instrument in self.each:
            phase = instrument.prepared(phase)
        return phase

    def again(self, failed: bool) -> bool | None:
        """Whether the phases of a cell must run again."""
        return self.first(lambda each: each.again(failed))

    @contextlib.contextmanager
    def around(self, enter: Callable[[Instrument], Around]) -> Iterator[Json]:
        """Enter what `enter` gives of each; what each saw, by its name, is there when the work is over."""
        seen: Json = {}
        notes: dict[str, Json] = {}
        try:
            with contextlib.ExitStack() as stack:
                for instrument in self.each:
                    notes[instrument.name] = stack.enter_context(enter(instrument))
                yield seen
        finally:
            seen.update({name: note for name, note in notes.items() if note})

    def beside(self, what: str) -> Around:
        """Look on around a step."""
        return self.around(lambda each: each.around_step(what))

    def check(self) -> None:
        """Raise Stopped as soon as an instrument ends the work."""
        try:
            for instrument in self.each:
                instrument.check()
        except Stopped as why:
            self.stopped = why
            raise

    def watch(self) -> None:
        """Raise where the command, or what it does, must end; called often while a measured command runs."""
        self.check_alive()
        self.check()

    def ended(self) -> Stopped | None:
        """Why some work was ended, or would be by now; None: it may continue."""
        with contextlib.suppress(Stopped):
            self.check()
        return self.stopped

    def held_up(self, cell: Cell | None = None) -> str | None:
        """Why no work may begin or continue, after any wait; None: it may."""
        for instrument in self.each:
            try:
                why = instrument.held_up(partial(self._alive, instrument), cell)
            except Stopped as of_another:
                why = str(of_another)
            if why:
                return why
        self.stopped = None
        return None

    def _alive(self, waiting: Instrument) -> None:
        """Raise where a wait must end."""
        commands.check_interrupted()
        self.check_alive()
        for instrument in self.each:
            if instrument is not waiting:
                instrument.check()

    def pause(self) -> None:
        """Hold up fsage's own work on files, which can wait between two: called for each file, by any thread.

        Raises Stopped where the work must end.
        """
        commands.check_interrupted()
        if time.monotonic() - self.checked < CHECK_EVERY_S:
            return
        with self.lock:  # the other threads wait too
            try:
                self.check()
            except Stopped:
                why = self.held_up()
                if why:
                    raise Stopped(why) from None
            self.checked = time.monotonic()

    def close(self) -> None:
        """Close each."""
        for instrument in self.each:
            instrument.close()


@cache
def found() -> list[type[Instrument]]:
    """Every instrument of fsage and of the studies, those that are near to the command last."""
    each: list[type[Instrument]] = []
    for name in plugins.names(PACKAGE, FOLDER):
        each += plugins.subclasses(Instrument, plugins.module(PACKAGE, FOLDER, name))
    return sorted(each, key=lambda instrument: instrument.order)


def does_itself(phase: Phase) -> bool:
    """Whether an instrument does this phase in its own process."""
    return any(instrument.task in phase.get("files", ()) for instrument in found())


def remote() -> dict[str, Remote]:
    """What instruments need on other hosts, by name."""
    calls: dict[str, Remote] = {}
    for instrument in found():
        calls.update(instrument.remote)
    return calls


@contextlib.contextmanager
def opened(visit: Visit, check_alive: Call = lambda: None) -> Iterator[Instruments]:
    """The instruments of a command on a target, until it ends. Raises Failure.

    `check_alive` raises where the command must end.
    """
    each: list[Instrument] = []
    with contextlib.closing(Instruments(each, check_alive)) as instruments:  # also where a later one cannot begin
        each += (instrument(visit) for instrument in found() if instrument.wanted(visit))
        yield instruments


@contextlib.contextmanager
def looked_on(target: Target, request: Asker, what: str, check_alive: Call = lambda: None) -> Iterator[None]:
    """Have the instruments look on at a step of fsage: it begins when it may, and waits at each file where it may not.

    Raises Stopped, Failure.
    """
    with opened(Visit(target, request), check_alive) as instruments:
        why = instruments.held_up()
        if why:
            raise Stopped(f"{what} did not begin: {why}")
        claims.note_doing(target.home, what)
        target.pace.pause = instruments.pause
        try:
            with instruments.beside(what):
                yield
        except Stopped as stopped:
            raise Stopped(f"{what} was stopped: {stopped}") from None
        finally:
            target.pace.pause = commands.check_interrupted
