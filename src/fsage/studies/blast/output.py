"""blastn's tabular output with comments (`-outfmt "7 ..."`), as BLAST+ 2.12.0 writes it.

Its last line, "# BLAST processed N queries", is the one sign of a search that reached its end; a query that nothing was
found for has its comments too. What is not found is no error to blastn, and its exit code is 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fsage.parse import BadOutput, check_end

FIELDS = "qseqid sseqid length mismatch gapopen qstart qend sstart send evalue bitscore"
"""The requested fields of each hit, in this order."""


@dataclass(frozen=True)
class BlastnRun:
    """One search: the program's version, the database as it was named, how many queries, and a line for each hit."""

    version: str
    database: str
    queries: int
    hits: tuple[tuple[str, ...], ...]


def parse(stdout: str, stderr: str, rc: int | None) -> BlastnRun:
    """What one blastn found; `BadOutput` if it failed, warned, was cut short, or counts otherwise than it lists."""
    check_end("blastn", rc, [line for line in stderr.splitlines() if "rror" in line or "arning" in line], stderr)
    ended = re.search(r"^# BLAST processed (\d{1,18}) queries$", stdout, re.M)
    version = re.search(r"^# BLASTN (\S+)$", stdout, re.M)
    databases = set(re.findall(r"^# Database: (.*)$", stdout, re.M))
    if not ended or not version or len(databases) != 1:
        raise BadOutput("blastn's output lacks its version, its database or its last line: it was cut short")
    hits = [tuple(line.split("\t")) for line in stdout.splitlines() if line and not line.startswith("#")]
    counted = sum(map(int, re.findall(r"^# (\d{1,18}) hits found$", stdout, re.M)))
    if counted != len(hits) or any(len(hit) != len(FIELDS.split()) for hit in hits):
        raise BadOutput(f"blastn counts {counted} hits, and lists {len(hits)}, not all of them whole")
    return BlastnRun(version[1], databases.pop(), int(ended[1]), tuple(hits))
