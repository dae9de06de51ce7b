"""What `host` and `instruments` of a study act with, beside fsage.api.model. Hosts have it: Python 3.9.

A step's function takes (step, target, done, shard, check_lease), and calls the last before each file:

- `Target`: what was claimed: `claim`, `mounts`, `home`, `capacity_bytes`, `made_once`. It is the base of a kind too;
- `Work`: its result: how many files it changed, and notes; `unsupported` in these says why it cannot be;
- `Quota`: gives files their bytes and directories, within the claim. A step has no other way;
- `one_cpu()`: while it is open the same files get the same blocks each time;
- `allocate(descriptor, mode, offset, size)`: fallocate(2), for what is no file of a state;
- `count_extents(path)`: in how many extents a file lies; `flush(mount)`: write out what is dirty, syncfs(2);
- `format_again(target, options)`: make the file system anew within a step, with options of mkfs;
- `run(argv)`: run a program of the system; it raises Failure with what that says.

What surrounds cells and phases:

- `Instrument`: its base; `on_clients` asks all clients;
- `OtherHost`: what a function of its table `remote` is called with.

File systems:

- `FileSystem`: what a host does with one; its base is the one in fsage.api.model;
- `Ext4`: that of ext4, for its dialects.
"""

from fsage.host.filesystems.ext4 import Ext4
from fsage.host.instruments.instrument import Instrument
from fsage.host.states.inspection import format_again
from fsage.host.stores.fiemap import count_extents
from fsage.host.stores.filesystem import FileSystem
from fsage.host.stores.filesystems import one_cpu
from fsage.host.structure import Work
from fsage.host.structure.files import Quota, allocate
from fsage.host.system.caches import flush
from fsage.host.system.shell import run
from fsage.host.targets.target import OtherHost, Target
