"""The command `fsage`: all of it where the extra `studies` is installed, else what a server needs (Python 3.9)."""

from __future__ import annotations

import importlib.util
import sys

from fsage import interrupt
from fsage.base import Refusal
from fsage.base.message import say
from fsage.model import plugins


def main() -> None:
    """Run a command."""
    interrupt.handle()
    if importlib.util.find_spec("typer"):
        try:
            from fsage.cli import main as whole

            whole()
        except (Exception, SystemExit) as error:
            why = str(error) if isinstance(error, Refusal) else plugins.blamed(error)
            if why is None:
                raise
            say(why)
            sys.exit(1)
    else:
        from fsage.layouts import __main__ as server

        sys.exit(server.main())


if __name__ == "__main__":
    main()
