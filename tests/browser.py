"""A real browser over pipes (the DevTools protocol): what a page fetches and logs, and what axe-core finds in it.

Chromium and axe-core are of machines that test: `.ci/testbed` and `FSAGE_DEVELOP=1` bring them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Form(NamedTuple):
    """A window, in CSS pixels, and its colours."""

    width: int
    height: int
    mobile: bool
    scheme: str


FORMS = (Form(1280, 800, False, "light"), Form(390, 844, True, "dark"))
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES = json.dumps({"runOnly": STANDARDS, "resultTypes": ["violations"]})


def axe_core() -> Path | None:
    """axe-core's own script, as a package of Python ships it (that package is not run)."""
    found = importlib.util.find_spec("axe_playwright_python")
    path = Path(found.submodule_search_locations[0], "axe.min.js") if found else None
    return path if path and path.is_file() else None


@dataclass
class Seen:
    """Of one page: addresses that it asked for, errors that it logged, violations, where it is too wide."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    too_wide: list[str] = field(default_factory=list)


class Browser:
    """One chromium; `with Browser() as browser`."""

    def __enter__(self) -> Browser:
        self.home = tempfile.TemporaryDirectory(prefix="fsage-browser-")
        ours_in, its_out = os.pipe()
        its_in, ours_out = os.pipe()
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
        options += f" --disable-background-networking --remote-debugging-pipe --user-data-dir={self.home.name}"
        # It reads from 3 and writes to 4.
        command = f'exec 3<&{its_in} 4>&{its_out}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "browser", str(PROGRAM), *options.split(), "about:blank"],
            env={**os.environ, "TMPDIR": self.home.name},  # which it leaves a folder in when it is killed
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its_in)
        os.close(its_out)
        self.input = os.fdopen(ours_in, "rb")
        self.output = os.fdopen(ours_out, "wb")
        self.numbers = itertools.count(1)
        self.events = []
        self.rest = b""
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.input, self.output):
            with contextlib.suppress(OSError):
                stream.close()
        shutil.rmtree(self.home.name, ignore_errors=True)

    def _read(self) -> dict:
        while b"\0" not in self.rest:
            if not (part := os.read(self.input.fileno(), 1 << 20)):
                raise RuntimeError(f"{PROGRAM} ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def send(self, method: str, session: str | None = None, **params: object) -> dict:
        """One command's result; what happens meanwhile is in `events`."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        self.output.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        self.output.flush()
        while (got := self._read()).get("id") != number:
            self.events.append(got)
        if "error" in got:
            raise RuntimeError(f"{method}: {got['error']}")
        return got["result"]

    def wait(self, method: str) -> None:
        """Until an event of that name came."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def evaluate(self, session: str, script: str) -> object:
        """The value of an expression in the page, awaited."""
        got = self.send("Runtime.evaluate", session, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(str(got["exceptionDetails"]))
        return got["result"].get("value")

    @contextlib.contextmanager
    def page(self, path: Path):
        """A page in a tab of its own, once it is loaded: the tab's session."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{name}.enable", session)
        self.events.clear()
        self.send("Page.navigate", session, url=path.as_uri())
        self.wait("Page.loadEventFired")
        try:
            yield session
        finally:
            self.send("Target.closeTarget", targetId=target)

    def show(self, session: str, form: Form) -> None:
        """Lay the page out anew."""
        size = {"width": form.width, "height": form.height, "deviceScaleFactor": 1, "mobile": form.mobile}
        self.send("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = [{"name": "prefers-color-scheme", "value": form.scheme}]
        self.send("Emulation.setEmulatedMedia", session, features=scheme)

    def look(self, path: Path, axe: str) -> Seen:
        """What is to be seen of one page in all forms; `axe`: axe-core's script."""
        seen = Seen()
        with self.page(path) as session:
            events = list(self.events)
            self.evaluate(session, axe + ";0")
            for form in FORMS:
                self.show(session, form)
                root = "document.documentElement"
                wide = self.evaluate(session, f"{root}.scrollWidth - {root}.clientWidth")
                if wide:
                    seen.too_wide.append(f"{form.width} px: by {wide} px")
                found = self.evaluate(session, f"axe.run(document, {RULES}).then(r => JSON.stringify(r.violations))")
                for violation in json.loads(found):
                    places = [str(node["target"][-1]) for node in violation["nodes"]]
                    why = " ".join(violation["nodes"][0].get("failureSummary", "").split())
                    seen.violations.append(f"{violation['id']} at {form.width} px: {', '.join(places[:3])}: {why}")
        for event in events:
            params = event.get("params", {})
            match event.get("method"):
                case "Network.requestWillBeSent":
                    if not params["request"]["url"].startswith((path.as_uri(), "data:")):
                        seen.requests.append(params["request"]["url"])
                case "Runtime.exceptionThrown":
                    seen.errors.append(params["exceptionDetails"]["text"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    seen.errors.append(str([arg.get("value") for arg in params["args"]]))
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    seen.errors.append(params["entry"]["text"])
        return seen
