"""What a module in `workloads` is made of, beside fsage.api.model and fsage.api.recipe.

A module offers:

- `Params`: a cell's parameters (pydantic); `workload` is the module's name, `iteration` a number from 1;
- `commands(params, claim, steps=()) -> list[Phase]`: what to run on a claimed target, in a state of these steps;
- `rates(params) -> list[str]`: its metrics that statistics are made of. Each ends in `_bw_mib_s` (MiB a second) or
  `_per_s` (anything else a second), and higher is better; a study whose workload names another is refused;
- `read(observation) -> Outcome`: did it run right, and only then its numbers;
- `seconds(params, claim, steps=()) -> float`: an estimate for the plan;
- `bytes_written(params, claim)`, if it writes; `makes_bytes(params, claim)`, where its files hold less than that;
- `CELL_S`, if a cell takes much longer than a few seconds: the estimate before there is a claim;
- `PROGRAMS`, if it needs others than fio: the commands that `fsage doctor` looks for;
- `IN_GUESTS`, if it needs a guest's own disk, which nothing else reads from: True;
- `moved(params, extents, moved_bytes)`, if a device model's charges follow from where its files lie.

All of them but Params:

- `fio_workload(Params, phases, options)`: those of a workload that runs fio alone, by its options for each phase.

What they take and raise:

- `CellParams`: the base of `Params`;
- `Outcome`: what a cell came to; `Metrics`: its numbers by name;
- `Unsupported`: this target can never do it, raised by `commands`, and on record; a ValueError: the study is wrong.

Making phases from a claim:

- `tasks(claim)`: how many tasks run at a time, on all clients;
- `places_of(claim)`: the directory on each store in which a cell may make files;
- `fio_phase(claim, name, *options)`: a phase that runs fio on all clients;
- `fio_command(claim, *options)`: the command of one fio here;
- `ior_command(claim, sizes, direct, reading, path)`: IOR on all clients, for one file that they share;
- `program_phase(name, module, assignment)`: a phase that runs a program of the study's own (`program_main`);
- `on_client(claim, name)`: the words before a command that shall run on one client; `is_launched(argv)`: has it them?

Judging what came of them:

- `judge(observation, Params, phases, judge_phase)`: the Outcome, of all phases; each fault fails the cell;
- `BadOutput`: what a tool left is not that of a run that went right, raised by `judge_phase`;
- `check_end(tool, code, errors, stderr)`: raises it unless the tool ended well;
- `read_fio(phase)`: what fio says of all clients, checked to be of this command; `latencies(name, moved)`: percentiles;
- `judge_ior(transfer_size, name, phase)`: what an IOR moved, checked to be of this command;
- `program_results(phase)`: what a program of the study's own returned, on each client;
- `counts_in_guests(observation)`: whether a guest without virtual time measured, so that counts alone are results;
- `assignment_of(phase, Assignment)`: what the program was given;
- `steps_of(observation)`: the steps of the state in which it was measured.
"""

from fsage.model.tools import assignment_of, program_phase
from fsage.parse import BadOutput, check_end, is_launched
from fsage.workloads import Outcome, Unsupported
from fsage.workloads.by_fio import fio_workload
from fsage.workloads.sequential import ior_command, judge_ior
from fsage.workloads.shared import (
    CellParams,
    Metrics,
    counts_in_guests,
    fio_command,
    fio_phase,
    judge,
    latencies,
    on_client,
    places_of,
    program_results,
    read_fio,
    steps_of,
    tasks,
)
