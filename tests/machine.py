"""A machine of its own, as far as mounts go: what is mounted there nobody else sees, and it ends with the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from session import wait_until

import fsage
from fsage.host import sudoers
from fsage.host.system import privilege

PLACE = "/run/fsage/namespace"
AGENT = [sys.executable, "-S", "-m", "fsage.host"]
LIBRARY = str(Path(fsage.__file__).parents[1])


class Furnished:
    """What can be put on a machine of a test's own; `words` runs a command there."""

    def words(self, *words: str) -> list[str]:
        """A command there."""
        raise NotImplementedError

    def run(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        return subprocess.run(self.words(*words), **{"check": True, "text": True, "capture_output": True, **how})

    def add_user(self, name: str, uid: int, home: Path) -> None:
        """An ordinary user with no rights but those of `fsage site --sudoers`, and the helper that they name."""
        files = home.parent / "etc"
        files.mkdir()
        for path, line in (
            ("/etc/passwd", f"{name}:x:{uid}:{uid}::{home}:/bin/sh"),
            ("/etc/group", f"{name}:x:{uid}:"),
            ("/etc/shadow", f"{name}:*:19000:0:99999:7:::"),
        ):
            copy = files / Path(path).name
            copy.write_text(f"{Path(path).read_text()}{line}\n")
            copy.chmod(0o640 if copy.name == "shadow" else 0o644)
            self.run("mount", "--bind", str(copy), path)
        self.put("/etc/sudoers.d/fsage", sudoers.rules(name).encode(), 0o440)
        self.put(str(privilege.HELPER), sudoers.program(), 0o755)
        self.open_up(Path(sys.base_prefix))

    def put(self, path: str, content: bytes, mode: int) -> None:
        """Put a file where, on this machine alone, nothing else is."""
        folder = Path(path).parent
        top = next(parent for parent in (folder, *folder.parents) if parent.exists())
        self.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(top))
        self.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, input=content, text=False)

    def open_up(self, folder: Path) -> None:
        """Let everybody read a folder although one above it is closed to them."""
        closed = next((above for above in reversed(folder.parents) if not above.stat().st_mode & 1), None)
        if closed:
            self.run("mount", "--bind", str(folder), "/mnt")
            self.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(closed))
            self.run("mkdir", "-p", str(folder))
            self.run("mount", "--bind", "/mnt", str(folder))


class Machine(Furnished):
    """Mounts of its own, of which nothing is shared, and where no command of fsage has run yet."""

    def __init__(self, start: Callable[..., subprocess.Popen]) -> None:
        self.first = start("unshare", "--mount", "--propagation", "private", "sleep", "600")
        self.others: list[subprocess.Popen] = []
        wait_until(lambda: os.readlink(f"/proc/{self.first.pid}/exe").endswith("/sleep"))
        self.run("mkdir", "-p", PLACE)

    def words(self, *words: str) -> list[str]:
        """A command there."""
        return ["nsenter", f"--mount=/proc/{self.first.pid}/ns/mnt", *words]

    def agent(self, verb: str, spec: dict[str, Any], request: dict | None = None) -> dict:
        """One verb of the agent, as Ansible runs it."""
        given = json.dumps({"target": spec, "request": request or {}})
        done = self.run(*AGENT, verb, input=given, check=False, env={**os.environ, "PYTHONPATH": LIBRARY})
        return json.loads(done.stdout)

    def copies(self) -> subprocess.Popen:
        """A program with a mount namespace of its own, which begins now and stays."""
        program = subprocess.Popen(self.words("unshare", "--mount", "--propagation", "private", "sleep", "600"))
        self.others.append(program)
        wait_until(lambda: os.readlink(f"/proc/{program.pid}/exe").endswith("/sleep"))
        return program

    def mounts(self) -> str:
        """What everybody on the machine sees."""
        return Path(f"/proc/{self.first.pid}/mountinfo").read_text()

    def end(self) -> None:
        """End all that was started."""
        for program in (*self.others, self.first):
            program.kill()
            program.wait()
