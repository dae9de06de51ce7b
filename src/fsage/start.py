"""`./run snakemake`: Snakemake as it is, but that Ctrl-C ends it without Python's words, from the first moment on."""

from __future__ import annotations

import sys

from fsage import interrupt


def main() -> None:
    """Run Snakemake with the words of this command line."""
    interrupt.handle()
    from snakemake.cli import main as snakemake

    sys.argv[0] = "snakemake"
    snakemake()


if __name__ == "__main__":
    main()
