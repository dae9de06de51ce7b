"""What `site` of a kind of target is made of: what a run does at a site, for `fsage site`.

It offers `acts(site, target, plans, phases) -> list[Act]`: what is done with that kind alone.

- `Act`: what is done on which hosts, how it is undone, how often at most, by which programs, and in which places;
- `Site`: the hosts of the inventory, with `in_group`; `names_of(site, group)`: the hosts of a group in words;
  `may_be_root(site)`: whether clients do what needs root;
- `DeclaredTarget`: the target as its inventory declares it;
- `Plan`: a study on it. `by_state(plans)` has the steps of each state of several plans, `missing_cells(plans)` their
  cells; `changes_server_cache(plans)`: whether a cell sets the caches of servers;
- `EVERY_S`: how often the probe for others looks at least.
"""

from fsage.model.declaration import EVERY_S
from fsage.plan import Plan
from fsage.plan.target import Target as DeclaredTarget
from fsage.site.actions import Act, by_state, changes_server_cache, may_be_root, missing_cells, names_of
from fsage.site.inspect import Site
