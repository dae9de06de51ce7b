"""The interface of an instrument, and the instruments of one command together.

An instrument looks on while a target is worked on. It may put what it saw on record, and it may end the work.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Literal, NamedTuple

from fsage.host.system import interruption
from fsage.host.targets import doing
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.typed import Json

CHECK_EVERY_S = 0.1
"""How often fsage's own work on files is checked at most: it may call `pause` a hundred thousand times a second."""


class Work(NamedTuple):
    """What is done to a target. A step is any of fsage's own work: emptying and calibrating are steps too."""

    scope: Literal["cell", "phase", "step"]
    what: str  # in words: "cell 3", "phase write", "populate"


class Stopped(Failure):
    """An instrument ends what runs. `on_record`: a cell is kept as stopped; else it counts as not measured."""

    on_record = True


class Instrument:
    """One of them: a subclass overrides what it needs. Each method may raise Failure."""

    name = ""
    """The key in an observation under which stands what it saw of a cell."""

    def around(self, work: Work) -> AbstractContextManager[Json]:
        """Entered before some work and left after it; what it gives is on record then, unless it is empty.

        What is seen only when it is left does not end this work any more: the next `check` or `held_up` tells of it.
        """
        return contextlib.nullcontext({})

    def check(self) -> None:
        """Raise Stopped to end the work; called often meanwhile, by one thread at a time."""

    def held_up(self, check_alive: Callable[[], None]) -> str | None:
        """Why no work may begin, or go on after Stopped, and when it may; None: now. It may wait for that here.

        `check_alive` is to be called while it waits.
        """
        return None

    def close(self) -> None:
        """End what it runs, and remove what nobody needs any more."""


class Instruments:
    """All instruments of a command. `check_alive` raises where the command itself must end."""

    def __init__(self, each: Sequence[Instrument], check_alive: Callable[[], None] = lambda: None) -> None:
        self.each, self.check_alive = each, check_alive
        self.stopped: Stopped | None = None
        self.lock, self.checked = threading.Lock(), 0.0

    @contextlib.contextmanager
    def around(self, work: Work) -> Iterator[Json]:
        """Look on around some work; what each instrument saw, by its name, is there when the work is over."""
        seen: Json = {}
        notes: dict[str, Json] = {}
        try:
            with contextlib.ExitStack() as stack:
                for instrument in self.each:
                    notes[instrument.name] = stack.enter_context(instrument.around(work))
                yield seen
        finally:
            seen.update({name: note for name, note in notes.items() if note})

    def check(self) -> None:
        """Raise Stopped as soon as an instrument ends the work."""
        try:
            for instrument in self.each:
                instrument.check()
        except Stopped as why:
            self.stopped = why
            raise

    def ended(self) -> Stopped | None:
        """Why some work was ended, or would be by now; None: it may go on."""
        with contextlib.suppress(Stopped):
            self.check()
        return self.stopped

    def held_up(self) -> str | None:
        """Why no work may begin or go on, after any wait; None: it may."""
        for instrument in self.each:
            try:
                why = instrument.held_up(partial(self._alive, instrument))
            except Stopped as of_another:
                why = str(of_another)
            if why:
                return why
        self.stopped = None
        return None

    def _alive(self, waiting: Instrument) -> None:
        """Raise where a wait must end."""
        interruption.check()
        self.check_alive()
        for instrument in self.each:
            if instrument is not waiting:
                instrument.check()

    def pause(self) -> None:
        """Hold up fsage's own work on files, which can wait amid: called for each file, by any thread.

        Raises Stopped where the work must end.
        """
        interruption.check()
        if time.monotonic() - self.checked < CHECK_EVERY_S:
            return
        with self.lock:  # the other threads wait too
            try:
                self.check()
            except Stopped:
                if why := self.held_up():
                    raise Stopped(why) from None
            self.checked = time.monotonic()

    @contextlib.contextmanager
    def around_step(self, target: Target, what: str) -> Iterator[None]:
        """Look on around fsage's own work, which begins when it may, and is paused at each file where it may not."""
        if why := self.held_up():
            raise Stopped(f"{what} did not begin: {why}")
        doing.say(target.home, what)
        target.pace.pause = self.pause
        try:
            with self.around(Work("step", what)):
                yield
        except Stopped as why:
            raise Stopped(f"{what} was stopped: {why}") from None
        finally:
            target.pace.pause = interruption.check

    def close(self) -> None:
        """Close each."""
        for instrument in self.each:
            instrument.close()
