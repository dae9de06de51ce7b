"""What `recipe` of a study is made of, beside fsage.api.model.

It offers:

- `States`: the block `states:` of a study file, with `recipe: Literal[<name>]`, and mostly `seed` and `reuse`;
- `expand(states) -> list[State]`: the states in the order in which they are built;
- `built(steps, capacity_bytes) -> str`, if it has a notation: that of what was built, seed and capacity in it.

It uses:

- `State`: what a target must be before it is measured: its name, axes and steps. `expand` returns a list of them;
- `Strict`: the base of the block `states:`; what it does not know is refused, with the nearest name. `read` makes one
  from plain values;
- `Problems`: what is wrong with keys that are each right: `with Problems() as wrong: wrong.add("deleted", "...")`;
- `Levels()`: marks a tuple as levels of an axis, each of which makes a state;
- `Size`: bytes, written as `4K` or `1G`; `SizeInBlocks`: of whole blocks;
- `Spelled(pattern, words)`: marks a text that must match a pattern, which the words explain;
- `unknown_value(value, choices)`: the sentence for a value that is none of them, with the nearest.
"""

from fsage.recipes import SizeInBlocks, State
from fsage.text.strict import Levels, Problems, Size, Spelled, Strict, unknown_value
