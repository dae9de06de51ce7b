"""What `command` of a study begins with. It is read whenever `fsage` starts: it imports all else where it is used.

It offers `app`, a typer.Typer.

- `Where`: what a command finds in its context: target, folders of studies and results, and the plans of studies;
- `say(text)`: print to standard error, as all that is not the answer.
"""

from fsage.base.message import say
from fsage.commands.common import Where
