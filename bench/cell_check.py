"""What the check before each cell costs: token, and fingerprint of all filler files, warm and cold. Goal: 10 ms."""

from __future__ import annotations

import statistics
import time

from target import loop_target

from fsage.agent import structure
from fsage.agent.messages import token
from fsage.agent.states import state
from fsage.agent.states.fingerprint import digest, fingerprint
from fsage.agent.targets.opening import open_target

SIZES_MIB = (64, 33, 8, 1)


def main() -> None:
    """One line for each number of files on a target of 4 GiB at 80%."""
    with loop_target(4) as spec:
        for size_mib in SIZES_MIB:
            step = structure.read(
                {"kind": "populate", "generation": 1, "percent": 80, "file_bytes": [size_mib << 20], "seed": 1}
            )
            request = {
                "study": "bench",
                "state": "80.00",
                "steps": [step],
            }
            state.scrub(spec, request, False)
            state.begin("populate", spec, request, False)
            state.work(spec, request, request["steps"][0])
            state.end(spec, request, request["steps"][0])
            target = open_target(spec)
            warm, cold = [], []
            for _ in range(9):
                target.remount()
                for samples in (cold, warm):
                    began = time.monotonic()
                    token.read(target.mounts[0])
                    prints = fingerprint(target)
                    samples.append(time.monotonic() - began)
            whole = digest(target.mounts)
            print(
                f"{prints['files']:6d} files: cold {statistics.median(cold) * 1e3:6.1f} ms, "
                f"warm {statistics.median(warm) * 1e3:6.1f} ms; whole digest {whole['seconds'] * 1e3:6.1f} ms"
            )


if __name__ == "__main__":
    main()
