"""What `host` of a kind of target acts with whose work guests do, beside fsage.api.host. Hosts have it: Python 3.9.

There a state is an image, made in one guest, and each cell has a copy of its own.

- `GuestTarget`: the base of the kind's class, with its `device`, the disk in a guest;
- `Lacking`: what this host lacks for it;
- `Question`: on this host: the target with its claim and lease, the cells that are not measured, and what is kept;
- `Guest`: in a guest, its first process: it begins, does pieces of work, and ends.
"""

from fsage.host.guests.question import Question
from fsage.host.guests.target import GuestTarget
from fsage.host.guests.work import Guest
from fsage.host.targets.kinds import Lacking
