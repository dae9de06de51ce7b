"""Block groups or allocation groups by how free they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

# The buckets of the PaF study, which counts the block groups of a production target so: there 93 of 925 183 groups are
# in none of its five, for those with none free have none. Here they have the first: (label, share from which on).
BUCKETS = (
    ("none free", 0.0),
    ("< 1/16", 0.0),
    ("< 1/8", 1 / 16),
    ("< 1/4", 1 / 8),
    ("< 1/2", 1 / 4),
    ("1/2 and more", 1 / 2),
)
STARTS = tuple(start for _, start in BUCKETS[2:])


class Groups:
    """Groups given to `add_all`, each counted in exactly one bucket."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = self.group_bytes = 0
        self._of_bytes = [0] * len(BUCKETS)
        self._of_inodes = [0] * len(BUCKETS)

    def add_all(self, size_bytes: Sequence[int], free_bytes: Sequence[int]) -> None:
        """Count groups: how large each is, and how much of it is free."""
        self.count += len(size_bytes)
        self.group_bytes = max(self.group_bytes, max(size_bytes, default=0))
        self._count(self._of_bytes, size_bytes, free_bytes)

    def add_inodes(self, inodes: int, free_inodes: Sequence[int]) -> None:
        """Of groups that have so many inodes each, how many are free."""
        self._count(self._of_inodes, [inodes] * len(free_inodes), free_inodes)

    def _count(self, buckets: list[int], whole: Sequence[int], free: Sequence[int]) -> None:
        for row in map(bucket, whole, free):
            buckets[row] += 1

    def summary(self) -> dict[str, object]:
        """The key `groups` of a store's summary.

        - group_bytes: the size of the largest group;
        - buckets: number of groups by their free share, from_share included, to_share excluded except in the first and
          the last;
        - inode_buckets: number of groups by their share of free inodes; None where groups have no fixed number of them.
        """
        return {
            "kind": self.kind,
            "group_bytes": self.group_bytes,
            "count": self.count,
            "buckets": _table(self._of_bytes),
            "inode_buckets": _table(self._of_inodes) if any(self._of_inodes) else None,
        }


def bucket(whole: int, free: int) -> int:
    """The place in BUCKETS of a group of which `free` of `whole` is free."""
    if not free:
        return 0
    return 1 + bisect_right(STARTS, free / whole)


def _table(groups: list[int]) -> list[dict[str, object]]:
    ends = (0.0, *STARTS, 1.0)
    return [
        {"label": label, "from_share": start, "to_share": end, "groups": number}
        for (label, start), end, number in zip(BUCKETS, ends, groups)
    ]
