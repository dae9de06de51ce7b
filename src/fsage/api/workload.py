"""What a module in `workloads` is made of, beside fsage.api.model and fsage.api.recipe.

What it offers, and what it raises:

- `CellParams`: the base of a cell's parameters;
- `Outcome`: what a cell came to; `Metrics`: its numbers by name;
- `Unsupported`: what a target of this kind can never do, raised by `commands`.

Making phases from a claim:

- `tasks(claim)`: how many tasks run at a time, on all clients;
- `places_of(claim)`: the directory on each store in which a cell may make files;
- `fio_phase(claim, name, *options)`: a phase that runs fio on all clients;
- `program_phase(name, module, assignment)`: a phase that runs a program of the study's own (`program_main`);
- `on_client(claim, name)`: the words before a command that shall run on one client; `is_launched(argv)`: has it them?

Judging what came of them:

- `judge(observation, Params, phases, judge_phase)`: the Outcome, of all phases; each fault fails the cell;
- `BadOutput`: what a tool left is not that of a run that went right, raised by `judge_phase`;
- `check_end(tool, code, errors, stderr)`: raises it unless the tool ended well;
- `read_fio(phase)`: what fio says of all clients, checked to be of this command; `latencies(name, moved)`: percentiles;
- `program_results(phase)`: what a program of the study's own returned, on each client;
- `assignment_of(phase, Assignment)`: what such a program was given;
- `steps_of(observation)`: the steps of the state in which it was measured.

Estimating:

- `reach_s(claim, span_bytes)`: seconds that the modelled device takes to reach another place within so many bytes.
"""

from fsage.model.device import reach_s
from fsage.model.program import assignment_of, program_phase
from fsage.parse import BadOutput, check_end
from fsage.workloads import Outcome, Unsupported
from fsage.workloads.shared import (
    CellParams,
    Metrics,
    fio_phase,
    is_launched,
    judge,
    latencies,
    on_client,
    places_of,
    program_results,
    read_fio,
    steps_of,
    tasks,
)
