"""What can be chosen in a study, and what each choice costs for the files.

A choice names the states whose samples speak of a file of some size. A cost adds these up, with the shares that they
have, over as many of the bytes as all choices were measured for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fsage.advise.distribution import Distribution

Parts = Mapping[str, float]
"""State -> the share of the bytes whose time its samples give; the shares make 1. Empty: not measured."""


@dataclass(frozen=True)
class Choice:
    """One choice. `of_size(bytes)` names the states whose time for a byte is that of a file of this size.

    A MiB costs `once_s` and, `times` over, what those states took for it. `says`: words on it for people.
    """

    name: str
    of_size: Callable[[int], Parts]
    times: float = 1.0
    once_s: float = 0.0
    says: str = ""


@dataclass(frozen=True)
class Options:
    """The choices of a study, the default one among them; `absent`: those that cannot be had or told of, and why.

    `file_bytes`: what was measured, a file of this size. `not_covered`: why no choice is told for some sizes, in words.
    `notes`: sentences on what the distribution or the choices mean here.
    """

    kind: str
    default: str
    file_bytes: int
    choices: list[Choice]
    absent: dict[str, str] = field(default_factory=dict)
    assumes: str = ""
    not_covered: str = ""
    notes: list[str] = field(default_factory=list)


Seconds = Mapping[str, Mapping[int, float]]
"""State -> iteration -> seconds for a MiB."""


@dataclass(frozen=True)
class Cost:
    """Choices that are one and the same for these files. A MiB costs `once_s` and, `times` over, `parts` of states.

    `samples`: in seconds for a MiB, as many as the state with the fewest iterations has. Iterations of different states
    are independent, so that any pairing of them makes honest samples of the sum.
    """

    names: tuple[str, ...]
    parts: Mapping[str, float]
    times: float
    once_s: float
    samples: list[float]
    says: str = ""

    @property
    def name(self) -> str:
        """'IOR.1 = IOR.4' where these are the same for the files."""
        return " = ".join(self.names)


@dataclass(frozen=True)
class Weighed:
    """`covered`: choice -> the share of the bytes that measurements speak of; `compared`: of those in `costs` together.

    `costs` are for the same bytes, those that were measured in all of these choices.
    """

    costs: list[Cost]
    covered: Mapping[str, float]
    compared: float


def weigh(options: Options, files: Distribution, seconds: Seconds, least_share: float) -> Weighed:
    """The choices that can be compared on at least `least_share` of the bytes; those that cover most come first."""
    told = {
        choice.name: {size: parts_of_size for size in files.files if (parts_of_size := choice.of_size(size))}
        for choice in options.choices
    }
    covered = {name: files.share_of_bytes(sizes) for name, sizes in told.items()}
    common, compared = set(files.files), []
    for choice in sorted(options.choices, key=lambda choice: -covered[choice.name]):
        both = common & told[choice.name].keys()
        if files.share_of_bytes(both) >= least_share:
            common = both
            compared.append(choice.name)
    if not compared:
        return Weighed([], covered, 0.0)
    share, whole = files.share_of_bytes(common), files.bytes
    shares = {size: size * files.files[size] / whole / share for size in sorted(common)}
    alike: dict[tuple[tuple[tuple[str, float], ...], float, float], list[Choice]] = defaultdict(list)
    for choice in (choice for choice in options.choices if choice.name in compared):
        parts: dict[str, float] = defaultdict(float)
        for size, its_share in shares.items():
            for state, part in told[choice.name][size].items():
                parts[state] += part * its_share
        alike[tuple(sorted(parts.items())), choice.times, choice.once_s].append(choice)
    costs = [_cost(same, dict(states), seconds) for (states, *_), same in alike.items()]
    return Weighed(costs, covered, share)


def _cost(same: list[Choice], parts: Mapping[str, float], seconds: Seconds) -> Cost:
    times, once_s = same[0].times, same[0].once_s
    together = zip(*(seconds[state].values() for state in parts), strict=False)  # as many as the fewest
    samples = [
        once_s + times * sum(share * took for share, took in zip(parts.values(), seconds_of_parts, strict=True))
        for seconds_of_parts in together
    ]
    return Cost(tuple(choice.name for choice in same), parts, times, once_s, samples, same[0].says)
