"""What `model` of a study is made of. Every other part may use it too. Hosts have it: Python 3.9.

Steps of a state:

- `Step`: the base of a kind of step, a frozen dataclass. Its fields stand in the request, its methods say what they do,
  and `among` finds the first of its kind among a state's steps;
- `Files`: (generation, index) -> size of each file that must be there; `expect` changes it;
- `Achieved`: what a generation of files has of the capacity; `achieve` changes it;
- `Shard`: which of a step's files are this host's;
- `Segment`: a part of a striped file, as the notes of its state have it; `EVICTION_FILES`: see fsage.api.host;
- `path_of(mounts, generation, index)`: the path of a file of a state;
- `BLOCK_BYTES`: bytes of the block that file systems give files; `ALL_OSTS`: the stripe count of a file on all OSTs.

What launcher and hosts tell each other, as plain JSON with known keys:

- `Spec`: a target as it is declared; `Claim`: as it was claimed: its stores, hosts, tools and calibration;
- `ClaimedStore`: one of these stores; `Image`: a file with its identity, which a loop device is attached to;
- `Cell`, `Phase`: what is measured, and one command of it; `PhaseResult`: the phase with what came of it;
- `IoGroups`: the key of a phase in which each `Group` has a share of the device;
- `signs`: signs of trouble: a `Look` at a host has its `Network`, each `Nfs` and each `Connection` of Lustre. What
  servers `evicted(before, after)` it follows from two looks;
- `limits`: keeping to those of a site: `kept_to` a rate, or `why_not_kept`; `rest_s` after a phase; `closes_in_s`: when
  hours end;
- `StopIf`: when others suffer; `PROBE_EVERY_S`: how often that is looked at;
- `Json`: an object of JSON; `JsonView`: one that is only read.

What else a study may add:

- `tools`: `Tool`: how a program names its version, for the table TOOLS; `tool_command(claim, tool, *folders)`: the
  words that start it on a claimed target, in its container where it has one;
- `tools` has for a study's own program, which a phase runs on a host, `program_main(Assignment, work, path)`: its body;
  `program_phase(name, module, assignment)`: the phase; `assignment_of(phase, Assignment)`: what it was given;
- `filesystems`: `FileSystem`: the base of a file system, its name, title and defragmenter; `names`, `named` and `get`
  find one, and `like` does as the kernel calls it;
- `kinds`: `Kind`: the base of a kind of target, `Loop` of one with images, and `Directory` of one on others' file
  system; `kind_of(claim)`: that of a claimed one;
- a kind declares keys of its own in a TypedDict, its `block`: `Annotated[int, COUNT, Key(1, CLAIMED)]`. `Key`: what is
  used where it is not declared, and what an edit needs (`CLAIMED`: a new claim, `LIVE`: nothing). A `Check` says what
  is allowed beside the type, as do `COUNT`, `NOT_NEGATIVE` and `matching(pattern, words)`;
- `Device`: a modelled device, `of` its parameters: what it `takes_s` for bytes, requests, jumps and their place. A
  subclass in `model` is another one: what it charges for what is `Moved`;
- `counting`: how `requests` of extents are counted, and which device is `declared` for a claimed target.

The rest:

- `Failure`: it was tried and failed; `Refusal`: it must not be tried, and nothing was touched;
- `Misuse`: a command has a wrong option or argument;
- `in_words(error)`: an error in words, without its number;
- `KIB`, `MIB`, `GIB`: bytes of these units;
- `format_size(size)`: the exact spelling, 264M; `round_size(size)`: three digits, 7.28 GiB;
- `parse_size(text)`: the bytes that a text names; `counted(2, "extent")`: 2 extents;
- `significant(value, 4)`: so many digits, without an exponent; `utc_now()`: the time, as in a record.
"""

from fsage.base import GIB, KIB, MIB, Failure, Json, JsonView, Misuse, Refusal, in_words
from fsage.base.sizes import counted, format_size, parse_size, round_size, significant
from fsage.base.typed import Check
from fsage.model import counting, filesystems, kinds, limits, signs, tools
from fsage.model.claim import Claim, ClaimedStore, Image, utc_now
from fsage.model.declaration import EVERY_S as PROBE_EVERY_S
from fsage.model.declaration import StopIf
from fsage.model.device import Model as Device
from fsage.model.device import Moved
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell, Group, IoGroups, Phase
from fsage.model.structure import ALL_OSTS, BLOCK_BYTES, EVICTION_FILES, Achieved, Files, Segment, Shard, Step, path_of
from fsage.model.target import CLAIMED, COUNT, LIVE, NOT_NEGATIVE, Key, Spec, matching
