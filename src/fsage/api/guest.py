"""What `host` of a kind of target acts with whose work guests do, beside fsage.api.host. Hosts have it: Python 3.9.

There a state is an image, made in one guest, and each cell has a copy of its own.

On this host:

- `GuestTarget`: the base of the kind's class, with its `device`, the disk in a guest;
- `Lacking`: what this host lacks for it;
- `Question`: what it is asked: the target, its claim and lease, the cells that are not measured, and what is kept;
- `are_quick(cells)`: whether they run no command, so that one guest takes several;
- `with_notes(cell, ...)`: a cell with what its guest notes of it: `unsupported`, `failed`.

In a guest, as its first process:

- `begin(point)`: prepare it, and `mount_folder(folder, point)`: let it see one of the machine outside;
- `do(job, device, point, kind)`: a piece of work on a disk; `filesystem_of(job)`: that which it is about;
- `end()`: halt.
"""

from fsage.host.guests.question import Question, are_quick, with_notes
from fsage.host.guests.target import GuestTarget
from fsage.host.guests.work import begin, do, end, filesystem_of, mount_folder
from fsage.host.targets.kinds import Lacking
