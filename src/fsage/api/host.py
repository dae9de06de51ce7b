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
  `allocate(descriptor, mode, offset, size)` is fallocate(2), for what is no file of a state;
- `caches`: `flush(mount)` writes out what is dirty, syncfs(2); `give_up(path)` flushes one file and drops its pages,
  `cached_pages(paths)`: how many pages of files are in memory. `drop(paths)` drops what it can (`may_drop()`: all);
- `available_memory_bytes()`: how much memory a process may take;
- `run(argv)`: run a program of the system; it raises Failure with what that says. `at_hand(argv, files)`: a command
  with the files in memory that it must inherit, as {agent}, fsage's program; `stop(process)` ends it, and its children.

Instruments. Each is a subclass in a module of `instruments`, and is found there:

- `Instrument`: what surrounds a cell, a phase or a step, as its methods say; `on_clients` asks all clients;
- `OtherHost`: what a function of its table `remote` is called with.

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

from fsage.base.shell import run, stop
from fsage.host import filesystems, guests
from fsage.host.filesystems import FileSystem, Mover, one_cpu
from fsage.host.filesystems.ext4 import Ext4
from fsage.host.instruments import Instrument
from fsage.host.instruments.eviction import make_files as make_eviction_files
from fsage.host.states.inspection import format_again
from fsage.host.structure import Work
from fsage.host.structure.quota import Quota
from fsage.host.system import caches, kernel
from fsage.host.system.library import at_hand
from fsage.host.system.space import available_bytes as available_memory_bytes
from fsage.host.targets import OtherHost, Target
from fsage.host.targets.kinds import Lacking
