"""python -m hostile: bend samples for readers, with bounded memory and time; say what became of them.

Each line of the input asks for one reader as JSON, [READER, TIMES, FOLDER], and is answered by one; TIMES multiplies
the number of examples of the short form, and the same call draws the same inputs. Each reader runs in a process of its
own, forked from this one, which has loaded everything. Time is the process's own (others use the machine too); what
waits without computing, as for a FIFO, is found out by the clock.
"""

import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hostile import bend
from hostile.messages import action
from hostile.readers import READERS, crate, records

MOST_MIB = 500
MOST_S = 10
MOST_WAITING_S = 60


class TooLong(BaseException):
    """An input took more than MOST_S; no reader catches it."""


def read_all(name, times):
    """What became of the inputs; a process that meets one that is neither taken nor refused ends."""
    reader = READERS[name]
    counts = {"accepted": 0, "refused": 0}
    slowest = 0.0

    def late(*_):
        raise TooLong(f"more than {MOST_S} s")

    def watch(seconds, waiting_s):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, waiting_s)

    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, late)

    @settings(
        max_examples=reader.examples * times,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(reader.inputs())
    def read(drawn):
        nonlocal slowest
        began = time.process_time()
        watch(MOST_S, MOST_WAITING_S)
        try:
            try:
                reader.read(drawn)
                counts["accepted"] += 1
            except reader.refuses as why:
                assert str(why).strip(), "a refusal says why"
                if reader.one_line:
                    bend.assert_one_line(why)
                counts["refused"] += 1
        except BaseException:
            watch(0, 0)
            print(f"on {repr(drawn)[:3000]}", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        finally:
            watch(0, 0)
            slowest = max(slowest, time.process_time() - began)

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (MOST_MIB << 20),) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = {"slowest_s": round(slowest, 2), "processor_s": round(time.process_time(), 2)}
    return {"reader": name, **counts, **seconds, "mib": (after - before) >> 10}


def in_process(name, times, folder):
    """The same, in a process of its own that works in `folder`; what it reports, or why it reports nothing."""
    errors, report = Path(folder, "stderr"), Path(folder, "report.json")
    child = os.fork()
    if not child:
        os.chdir(folder)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), sys.stderr.fileno())
        code = 1
        try:
            report.write_text(json.dumps(read_all(name, times)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        return {"failed": f"exit code {code}\n{errors.read_text(errors='replace')[-6000:]}"}
    found = json.loads(report.read_text())
    return found


@settings(max_examples=3, database=None, deadline=None)
@given(st.tuples(bend.ANY, st.uuids(), st.binary(), st.lists(st.integers(), min_size=100)))
def draw_first(_):
    """Hypothesis loads its tables when something is first drawn; those of a program's numbers at one draw in twenty."""


if __name__ == "__main__":
    for sample in (crate, records, action):  # what takes long to make is made once
        sample()
    draw_first()
    bend.folder.cache_clear()  # but each process has a folder of its own
    gc.collect()
    gc.freeze()  # no process looks through what this one made, which would copy it
    for line in sys.stdin:
        print(json.dumps(in_process(*json.loads(line))), flush=True)
