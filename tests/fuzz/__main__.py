"""python -m fuzz READER TIMES: bend samples for one reader, with bounded memory and time; print what became of them.

It writes into the folder that it runs in. TIMES multiplies the number of examples of the short form; the same call
draws the same inputs. Time is the process's own (others use the machine too); what waits without computing, as for a
FIFO, is found out by the clock.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

MOST_MIB = 500
MOST_S = 10
MOST_WAITING_S = 60


class TooLong(BaseException):
    """An input took more than MOST_S; no reader catches it."""


def main(name: str, times: int) -> None:
    from fuzz.readers import readers

    reader = readers()[name]()
    counts = {"accepted": 0, "refused": 0}
    slowest = 0.0

    def late(*_: object) -> None:
        raise TooLong(f"more than {MOST_S} s")

    def watch(seconds: float, waiting_s: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, waiting_s)

    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGPROF, late)

    @settings(
        max_examples=reader.examples * times,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(reader.inputs)
    def read(given_: Any) -> None:
        nonlocal slowest
        began = time.process_time()
        watch(MOST_S, MOST_WAITING_S)
        try:
            reader.read(given_)
            counts["accepted"] += 1
        except reader.refuses as error:
            assert str(error).strip(), "a refusal says why"
            counts["refused"] += 1
        except BaseException:
            watch(0, 0)
            shown = repr(given_)
            print(f"on {shown[:3000]}", file=sys.stderr)
            traceback.print_exc()
            os._exit(1)
        finally:
            watch(0, 0)
            slowest = max(slowest, time.process_time() - began)

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (MOST_MIB << 20),) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"reader": name, **counts, "slowest_s": round(slowest, 2), "mib": (after - before) >> 10}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
