"""The command `fsage`: all of it where the extra `studies` is installed, else what a server needs (Python 3.9)."""

from __future__ import annotations

import importlib.util
import sys

from fsage import interrupt


def main() -> None:
    """Run a command."""
    interrupt.handle()
    if importlib.util.find_spec("typer"):
        from fsage.cli import main as whole

        whole()
    else:
        from fsage.layouts import __main__ as server

        sys.exit(server.main())


if __name__ == "__main__":
    main()
