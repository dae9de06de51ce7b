"""What the folder `helper` of a study is made of: what root's helper does for a kind of target. Root runs it.

The helper is one file that an administrator installs (`fsage site --helper`): this folder of each study that has one,
this file, and little else of fsage. So the folder imports this file alone. It offers:

- `VERBS`: what can be called on clients, and what on servers, as {CLIENTS: verbs, SERVERS: verbs} (`CLIENTS`,
  `SERVERS`). A `Verb` is a function of what a user gave. The rules of sudo allowed `fsname` alone, the file system that
  his command names, and `user` is his number. The function checks all else, and its values have bounds;
- `undo()`: puts back what was set for anybody, a sentence each: for administrators.

On the side of the user the same folder has functions that do it:

- `privileged(verb)`: makes of a function one that root does itself, and a user by the helper;
- `helper_command(verb, fsname)`: the words that call a verb, where its answer is a long text on standard output;
- `settings`: what was set on a host is noted in one place for all users. `Kind`: how settings of a kind are read and
  put; `change(holder, kind, wanted)`: set them for a `Holder`, and put back what he held before. `notes(kind)` has each
  with its first value and all who set it, `held(holder, kind)` what one did, `holders(kind)` who they are. `same` tells
  whether two are one, and `described` puts one into words.

Both use:

- `pace(verb)`: wait until a verb that costs others something may be done; `undisturbed()`: no signal ends the block;
- `run(argv)`: run a program; it raises Failure with what that says. `shown(value)`: what a user gave, in a message;
- `OF_LUSTRE`: tunables of Lustre, with the least and the most that a user may have set;
- `Failure`, `Refusal`, `Json`: see fsage.api.model.
"""

from fsage.base import Failure, Json, Refusal
from fsage.base.message import shown
from fsage.base.shell import run
from fsage.host.helper import CLIENTS, SERVERS, Verb, pace, undisturbed
from fsage.host.system import settings
from fsage.host.system.privilege import command as helper_command
from fsage.host.system.privilege import privileged
from fsage.model.tuning import OF_LUSTRE
