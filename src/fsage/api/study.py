"""What `recipe`, `workloads`, `inputs`, `doctor` and the work of a `command` are made of, beside fsage.api.model.

`recipe` offers:

- `States`: the block `states:` of a study file, with `recipe: Literal[<name>]`, and mostly `seed` and `reuse`;
- `expand(states) -> list[State]`: the states in the order in which they are built;
- `built(steps, capacity_bytes) -> str`, if it has a notation: that of what was built, seed and capacity in it.

It uses:

- `State`: what a target must be before it is measured: its name, axes and steps. `expand` returns a list of them;
- `Strict`: the base of the block `states:`; what it does not know is refused, with the nearest name. `read` makes one
  from plain values;
- `Problems`: what is wrong with keys that are each right: `with Problems() as wrong: wrong.add("deleted", "...")`;
- `Levels()`: marks a tuple as levels of an axis, each of which makes a state;
- `OrBlock()`: marks `item | dict[str, item]`: one value for all, or a block with one for each name;
- `Size`: bytes, written as `4K` or `1G`; `SizeInBlocks`: of whole blocks;
- `Seed`: of the states' random draws, with room for the seeds of further layouts;
- `Spelled(pattern, words)`: marks a text that must match a pattern, which the words explain;
- `unknown_value(value, choices)`: the sentence for a value that is none of them, with the nearest.

A module in `workloads` offers:

- `Params`: a cell's parameters (pydantic); `workload` is the module's name, `iteration` a number from 1;
- `commands(params, claim, steps=()) -> list[Phase]`: what to run on a claimed target, in a state of these steps;
- `check(params, steps)`, if some cannot be: it raises a ValueError for a state, or numbers, that no target can measure.
  A plan asks it before the claim;
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

Its functions take and raise:

- `CellParams`: the base of `Params`;
- `Outcome`: what a cell came to; `Metrics`: its numbers by name;
- `Unsupported`: this target can never do it, raised by `commands`, and on record; a ValueError: the study is wrong.

Phases are made from a claim:

- `tasks(claim)`: how many tasks run at a time, on all clients;
- `places_of(claim)`: the directory on each store in which a cell may make files;
- `fio_phase(claim, name, *options)`: a phase that runs fio on all clients;
- `fio_command(claim, *options)`: the command of one fio here;
- `ior_command(claim, sizes, direct, reading, path)`: IOR on all clients, for one file that they share;
- `on_client(claim, name)`: the words before a command that shall run on one client; `is_launched(argv)`: has it them?

What came of them is judged:

- `judge(observation, Params, phases, judge_phase)`: the Outcome, of all phases; each fault fails the cell;
- `BadOutput`: what a tool left is not that of a run that went right, raised by `judge_phase`;
- `check_end(tool, code, errors, stderr)`: raises it unless the tool ended well;
- `read_fio(phase)`: what fio says of all clients, checked to be of this command; `latencies(name, moved)`: percentiles;
- `judge_ior(transfer_size, name, phase)`: what an IOR moved, checked to be of this command;
- `program_results(phase)`: what a program of the study's own returned, on each client;
- `counts_in_guests(observation)`: whether a guest without virtual time measured, so that counts alone are results;
- `steps_of(observation)`: the steps of the state in which it was measured.

`inputs` offers `needed(plan, step) -> (digest, text)`, for a step with a field `input`. It gets the `Plan` of a study
on a target, and raises `StudyError`, one sentence. `file_of(step)` names the file in the folder layouts/ that the step
needs, so that a plan says where it is missing. Where a step lays free space, `free_bytes(plan, step)` says how much.

`doctor` offers `checks`, which returns a list: a `Check` is one row: its name, a detail, and what it lacks here.

A command works with, beside `Where` of fsage.api.command:

- `DeclaredTarget`: a target as its inventory declares it; `targets_in(folder)`: those of a folder of inventories;
- `enough_units(family, most)`: how many units tell one difference of a family from chance.
"""

from fsage.parse import BadOutput, check_end, is_launched
from fsage.plan import Plan
from fsage.plan.target import Target as DeclaredTarget
from fsage.plan.target import targets_in
from fsage.recipes import Seed, SizeInBlocks, State
from fsage.site.doctor import Check
from fsage.statistics import enough as enough_units
from fsage.study import StudyError
from fsage.text.strict import Levels, OrBlock, Problems, Size, Spelled, Strict, unknown_value
from fsage.workloads import Outcome, Unsupported
from fsage.workloads.by_fio import fio_command, fio_phase, fio_workload, latencies, read_fio
from fsage.workloads.sequential import ior_command, judge_ior
from fsage.workloads.shared import (
    CellParams,
    Metrics,
    counts_in_guests,
    judge,
    on_client,
    places_of,
    program_results,
    steps_of,
    tasks,
)
