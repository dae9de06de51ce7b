"""`snakemake -n series1` against a bare Snakefile of the same shape: as many rules, inputs and outputs, of names as
long (Snakemake compiles a regular expression of each), and no fsage in it.

Goal: at most 1.1 times.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BARE = """
STATES = [f"{a}.00" for a in range(10, 81, 10)]
STATES += [f"{a}.{b}+6700{n}" for a in range(10, 81, 10) for b in range(10, 71, 10) for n in range(5, 10)]
ROOT = config["results"]
MANIFESTS = {s: f"{ROOT}/manifests/local/series1/{s}@264M.0123456789ab.json" for s in STATES}
ALL = list(MANIFESTS.values())

rule series1:
    input: ALL, f"{ROOT}/report/local/series1/index.html"
    shell: "true"

rule report:
    input: ALL
    output: f"{ROOT}/report/local/series1/index.html"
    shell: "touch {output}"

rule claim:
    output: f"{ROOT}/targets/local.json"
    shell: "touch {output}"

for number, state in enumerate(STATES):
    rule:
        name: f"fragment_series1_{state}@264M"
        input: ancient(f"{ROOT}/targets/local.json")
        output: MANIFESTS[state]
        log: f"{ROOT}/logs/local/series1/visit_{state}@264M.log"
        resources: target=1
        priority: 1000 - number
        shell: "touch {output}"
"""


def seconds(argv: list[str], folder: Path) -> float:
    """Processor time of one command, which others on the machine disturb less than its wall time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the least of each and their ratio."""
    ours_s, theirs_s = least(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(f"processor time of snakemake -n series1: {ours_s:.2f} s; of a bare Snakefile like it: {theirs_s:.2f} s")
    print(f"ratio {ours_s / theirs_s:.2f}")


def least(rounds: int) -> tuple[float, float]:
    """Processor seconds of both, by turns; the least of several is disturbed least."""
    words = "--cores 2 --rerun-triggers mtime --nolock --scheduler greedy --quiet rules host"
    with tempfile.TemporaryDirectory() as place:
        bare = Path(place) / "bare"
        (bare / "profiles").mkdir(parents=True)
        (bare / "Snakefile").write_text(BARE)
        os.environ.pop("FSAGE_RESULTS", None)
        results = ["--config", f"results={place}/r"]
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(seconds(["snakemake", "-n", *results, "--", "series1"], ROOT))
            theirs.append(seconds(["snakemake", "-n", *words.split(), *results, "--", "series1"], bare))
    return min(ours), min(theirs)


if __name__ == "__main__":
    main()
