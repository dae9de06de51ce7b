"""What an administrator needs on a server: Python 3.9, and one file or `pip install fsage`.

    python3 fsage.pyz evidence /mnt/ost0        how free space and files lie; also of a device, an image, a saved text
    python3 fsage.pyz fragments /mnt/ost0/dir   the most fragmented files, and the command that defragments them
    python3 fsage.pyz evidence --openmetrics --to FILE.prom --nice 19 SOURCE ...     the same for Prometheus

Nothing is changed. `fsage.layouts.program` makes the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import fsage
from fsage.base import Failure, Misuse, Refusal, in_words
from fsage.base.message import lines, whole_output
from fsage.layouts import terminal, verdict
from fsage.layouts.inspect import inspect

FILES = 100_000  # of a directory


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser("fsage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole.add_argument("--version", action="version", version=f"fsage {fsage.__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    evidence = commands.add_parser("evidence", help="show how free space and files lie on any file system")
    evidence.set_defaults(do=_evidence)
    evidence.add_argument(
        "what", nargs="+", help="a device, an image, a directory, a saved text, or - (standard input)"
    )
    evidence.add_argument("--json", action="store_true", help="print JSON instead of tables")
    evidence.add_argument(
        "--files", type=_whole, metavar="N", help=f"of a directory, look at so many files [{FILES}; 0 of --openmetrics]"
    )
    evidence.add_argument("--openmetrics", action="store_true", help="print metrics for Prometheus instead")
    evidence.add_argument(
        "--to", type=Path, metavar="FILE", help="with --openmetrics: write the metrics to this file atomically"
    )
    evidence.add_argument(
        "--time-limit", type=_positive, default=600, metavar="S", help="with --openmetrics: for each of what is read"
    )
    evidence.add_argument("--nice", type=int, default=0, choices=range(20), help="with --openmetrics: the niceness")

    evidence.add_argument("--fail-on", default="", metavar="LIMITS", help="exit 3 from these: full=90,extents_64M=12")

    fragments = commands.add_parser("fragments", help="show the most fragmented files, and what defragments them")
    fragments.set_defaults(do=_fragments)
    fragments.add_argument("paths", nargs="+", type=Path, help="files, folders or mounts, of any file system")
    fragments.add_argument("--worst", type=_whole, default=20, metavar="N", help="list so many files")
    fragments.add_argument("--by", default="extents", help="worst by: extents, or ratio (of reading times)")
    fragments.add_argument("--seek-ms", type=_positive, help="what a seek costs; measured by reading if not given")
    fragments.add_argument("--rate-mb-s", type=_positive, help="transfer rate, 10^6 bytes; likewise")
    fragments.add_argument("--json", action="store_true", help="print JSON instead of tables")
    fragments.add_argument("--files", type=_whole, default=1_000_000, metavar="N", help="look at so many files at most")
    fragments.add_argument("--fail-on", default="", metavar="LIMITS", help="exit 3 from these: fragmented=5,full=90")
    return whole


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on, of 12 digits at most")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _evidence(given: argparse.Namespace) -> int:
    if given.openmetrics and (given.json or given.fail_on):
        raise Misuse("--openmetrics stands alone: leave out --json and --fail-on")
    if given.openmetrics:
        from fsage.layouts.monitoring import export  # wants a package

        failed = export(given.what, given.to, given.time_limit, given.nice, given.files or 0)
        for sentence in failed:
            _complain(sentence)
        if failed:
            return 1
        return 0
    if given.to:
        raise Misuse("--to is where the metrics go: give --openmetrics with it")
    files = FILES if given.files is None else given.files
    limits = verdict.parse_limits(given.fail_on, verdict.NAMES)
    codes = []
    for what in given.what:
        try:
            codes.append(terminal.show(inspect(what, files), given.json, limits))
        except ValueError as error:
            _complain(str(error))
            codes.append(1)
    return 1 if 1 in codes else max(codes)


def _fragments(given: argparse.Namespace) -> int:
    order = given.by, given.seek_ms, given.rate_mb_s
    return terminal.fragments(given.paths, given.worst, *order, given.json, given.files, given.fail_on)


def _complain(sentence: str) -> None:
    print(lines(f"fsage: {sentence}"), file=sys.stderr)


def main(words: Sequence[str] | None = None) -> int:
    """The program. Exit code 1: something could not be read or written; 2: wrong options; 3: see --fail-on."""
    try:
        with whole_output():
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(errors="backslashreplace")  # names of files in whatever encoding
            given = parser().parse_args(words)
            code: int = given.do(given)
    except OSError as error:
        _complain(in_words(error))
        return 1
    except (ValueError, Failure, Refusal) as error:
        _complain(str(error))
        return 2 if isinstance(error, Misuse) else 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    raise SystemExit(main())
