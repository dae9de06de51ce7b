"""What `host` and `instruments` of a study act with, beside fsage.api.model. Hosts have it: Python 3.9.

Steps. `host` has a function for each kind of step, named after it; `verify_<kind>(step, target)` may check its work:

    def cut_files(step, target, done, shard, check_lease) -> Work

It does one shard of the step, after the steps `done`. It calls `check_lease` before each file: that may end it.

- `Target`: what was claimed: its `claim`, `mounts`, `home`, `capacity_bytes` and local file `system`; `made_once` keeps
  what is made for it; `osts` stripes files on Lustre;
- `Work`: how many files the step changed, and notes; `unsupported` among these says why the step cannot be;
- `Quota`: gives files their directories and bytes, within the claim, and frees parts of them. A step has no other way;
- `make_eviction_files(target, size, check_lease)`: EVICTION_FILES files, which clients may read to evict their caches;
- `one_cpu()`: while it is open the same files get the same blocks each time;
- `format_again(target, options)`: make the file system anew within a step, with options of mkfs;
- `kernel`: `opened(path, flags)` is a descriptor that is closed when a block ends, `closing(descriptor)` closes one;
  `allocate(descriptor, mode, offset, size)` is fallocate(2), for what is no file of a state, with `KEEP_SIZE` and
  `PUNCH_HOLE`; `library` is the C library. A block device has a number, `number_of(path)`: `shown_number` and
  `as_number` change between both spellings, and `folder_of` is its folder in sysfs. `attempts(patience_s, pause_s)`:
  try again until it says that this is the last time;
- `caches`: `flush(mount)` writes out what is dirty, syncfs(2); `give_up(path)` flushes one file and drops its pages,
  `cached_pages(paths)`: how many pages of files are in memory. `drop(paths)` drops what it can (`may_drop()`: all);
- `available_memory_bytes()`: how much memory a process may take;
- `run(argv)`: run a program of the system; it raises Failure with what that says. `at_hand(argv, files)`: a command
  with the files in memory that it must inherit, as {agent}, fsage's program; `stop(process)` ends it, and its children.

- `usable_bytes(place)`: what a user may still write there. `make_folder(path)`: make a directory, which nobody else may
  write to. `read_json`, `write_json`: a note that outlives a kill; `locked(path)`: hold a lock between processes;
- `Call`: the type of what is called without arguments.

Instruments. Each is a subclass in a module of `instruments`, and is found there:

- `Instrument`: what surrounds a cell, a phase or a step, as its methods say; `on_clients` asks all clients;
- `Visit`: the command that it is made for. `servers()` reaches those, and `hosts.ask_each` asks every other host;
- `Stopped`: raised to end what runs; `check_interrupted()`: raises where the command is interrupted: call it in a wait;
- `OtherHost`: what a function of its table `remote` is called with;
- `note_doing(home, words)`: what the command does now, for who waits for it;
- `why_not_now(limits, what, seconds, size)`: why the hours of a site, or its bytes a day, do not allow some work now;
- `probe_folder(mount)`: a directory of a target that stays until the release;
- `kernel_log`: the log of the kernel, `KMSG`; lines that tell of trouble `since` a record;
- `target_kinds`: `named` and `get` find what a host does with a kind of target.

What is changed outside a target is noted before, and undone by the next command. An instrument and a device model
say how, in their table `changes`:

- `journal_of(home)`: the `Journal` of a target; `undo_cell(target)`: undo what was set for a cell.

Device models. `host/NAME.py` has MODEL, a subclass of this, beside the class of fsage.api.model:

- `DeviceModel`: what a host does to have it;
- `capabilities`: a `Capability` is what it needs of a machine, and `obstacle` why that is not there.
  `mount_in_vain(source, kind)` tries whether mounting is allowed;
- `loops`: loop devices. `identity` and `known_by` tell an image from others, `devices_of` an image are its devices,
  `detach` frees it, `take_away` unmounts it first; `CLEAR`: the command for a user. `queue_of(device)` is a folder with
  its tunables: `value_of` one, `set_knob` sets it;
- `mounting`: `mount_call` is mount(2); `unmount`; `refuse_occupied(point, device)`: unless a mount may be there;
- `leave_mounts()`: have no mount at all, as a process that outlives its command.

File systems and kinds of targets. `host.py` with its NAME, or `host/NAME.py`, has FILESYSTEM, an instance of the first
of these, or TARGET, a class:

- `FileSystem`: what a host does with one, beside the class of fsage.api.model; `Ext4`: that of ext4, for its dialects;
- `Mover`: its own call that moves a range of a file;
- `filesystems`: what a host does with those that there are: `named` and `get`;
- `Target`: the base of a kind's class; `Lacking`: what this host lacks for it.

Where guests do the work of a kind, its states are images, made in one guest, and each cell has a copy. `guests` has:

- `GuestTarget`: the base of the kind's class, with its `device`, the disk in a guest;
- `Question`: on this host: the target with its claim and lease, the cells that are not measured, and what is kept;
- `Guest`: in a guest, its first process: it begins, does pieces of work, and ends.
"""

from fsage.base import Call
from fsage.base.shell import run, stop
from fsage.host import filesystems, guests
from fsage.host.device import capabilities, loops
from fsage.host.device.models import Model as DeviceModel
from fsage.host.filesystems import FileSystem, Mover, one_cpu
from fsage.host.filesystems.ext4 import Ext4
from fsage.host.instruments import Instrument, Stopped, Visit
from fsage.host.instruments.cleanup import undo_cell
from fsage.host.instruments.eviction import make_files as make_eviction_files
from fsage.host.states.inspection import format_again
from fsage.host.structure import Work
from fsage.host.structure.quota import Quota
from fsage.host.system import caches, kernel, kernel_log, mounting
from fsage.host.system.commands import check_interrupted
from fsage.host.system.files import locked, read_json, write_json
from fsage.host.system.library import at_hand
from fsage.host.system.namespace import leave_mounts
from fsage.host.system.places import make as make_folder
from fsage.host.system.settings import Journal, journal_of
from fsage.host.system.space import available_bytes as available_memory_bytes
from fsage.host.system.space import usable_bytes
from fsage.host.targets import OtherHost, Target
from fsage.host.targets import kinds as target_kinds
from fsage.host.targets.budget import why_not_now
from fsage.host.targets.claims import note_doing
from fsage.host.targets.directories import probe_folder
from fsage.host.targets.kinds import Lacking
