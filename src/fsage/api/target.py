"""What a kind of target with servers of its own acts with, beside fsage.api.host, helper and model: Python 3.9.

Its clients share a file system that servers hold. A target is a directory there, or all of it. Read
src/fsage/studies/lustre as the model.

The class of the kind:

- `Directory`: the base of its class, a directory that is emptied by deleting. `offer` returns an `Offer`: what can be
  claimed, on which mount, and what the claim notes besides;
- `Dropped`: what `drop_caches` returns; what `look` returns is in `signs` of fsage.api.model;
- `declaration`: what is declared of a target. `complete(declared)` has every key, `home_of(spec)` is where its notes
  lie, `fsname_of(spec)` its file system; `path(key, value)` checks a path;
- `existing(place)`: the directory in which a place is made; `SERVERS_KEPT`: a cell leaves servers' caches as they are.

Servers:

- `ServedOsts`: the base of a target's `osts`, where its files lie on servers' targets. It is one of the `Servers`;
- `Servers`: what has `ask_servers(do=NAME)`, which calls the function NAME of the class' table `remote` on each server.
  One answer holds `MOST_ENDS` numbers of free extents at most;
- `Request`: what a verb of the class' table `verbs` gets. A playbook calls it on each server;
- `Silent`: a program did not end in time (`run` with `timeout`).

How much files may take:

- `budget`: `Limits`, how much more of each store; `Free`, what is free; `Left`, what a quota leaves. `owner_of(place)`:
  whose quotas count; `least(name, limits, lefts)`: the least of them. `used(osts)`: bytes by OST, which grow by
  `OWN_BYTES` by themselves. A function `Wrong` finds OSTs that hold something else; `nothing` never does;
- `SLACK_BYTES`: what stays free where a target may take all.

Where files lie:

- `fillers(mount)`: the files of a state;
- `structure`: `noted_segments(notes)` of a striped file; `segment_folder(number)`, where each segment has a directory
  for itself, which the notes call `SEGMENTS`;
- `preallocation`: what tune_prealloc.yml requests: `wanted(request, noted)`, which is `NOTHING` to do if it is empty,
  and `read`, as `Requested`. `of(target)` was noted. In words: `size_words(size)`, `step_words(before, now)`.

Notes and rights:

- `files`: `read_json`, `write_json` and `remove` of what must be found again after a power failure;
- `places`: `opened`, `make_in` and `remove_empty` of directories, in places where others could put links;
- `holder_of(spec, request)`: for whom something is set on a host (see `settings` in fsage.api.helper);
- `noted_tunables(home)`: what tune_clients.yml set; `why_not_root()`: why root's helper cannot be called here.
"""

from fsage.base.shell import Silent
from fsage.host.kinds.directory import Directory, Offer
from fsage.host.remote import ServedOsts
from fsage.host.structure import fillers
from fsage.host.system import files, places
from fsage.host.system.privilege import unavailable_because as why_not_root
from fsage.host.system.space import existing
from fsage.host.targets import budget, preallocation
from fsage.host.targets.claims import read_tunables as noted_tunables
from fsage.host.targets.kinds import Servers
from fsage.host.targets.lease import holder_of
from fsage.model import declaration, structure
from fsage.model.answers import MOST_ENDS, Dropped
from fsage.model.caches import SERVERS_KEPT
from fsage.model.request import Request
from fsage.model.structure import SLACK_BYTES
