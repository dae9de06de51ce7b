"""What `command` of a study begins with. It is read whenever `fsage` starts: it imports all else where it is used.

It offers `app`, a typer.Typer.

- `Where`: what a command finds in its context: `target`, its `claim`, folders of studies and results, and the `plan` of
  a study. It has the claim with the amount that a plan's states have room for (`amount_of`). It sets cells of a plan
  aside that are to be measured again (`set_aside`), and does the rest (`start`);
- `say(text)`: print to standard error, as all that is not the answer.
"""

from fsage.base.message import say
from fsage.commands import Where
