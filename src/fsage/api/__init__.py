"""What a study imports of fsage: all that its author needs to read. Other modules may change at any time.

Each file lists and explains its names, by what they are for:

- `fsage.api.model`: for `model`, and for all other parts too;
- `fsage.api.host`: for `host` and `instruments`, beside `model`;
- `fsage.api.helper`: for `helper`, which root runs, and for `host` too;
- `fsage.api.target`: for `host` of a kind of target with servers of its own; `fsage.api.site`: for its `site`;
- `fsage.api.study`: for `recipe`, `workloads`, `inputs`, `doctor` and what a command does;
- `fsage.api.report`: for `report` and `advice`;
- `fsage.api.command`: for `command`, which is read whenever `fsage` starts;
- `fsage.api.evidence`: for commands and `inputs` that read free space.

They are apart because hosts have the first ones alone, and because each is read when it is needed: a recipe long
before a report is drawn. Where one study builds on another, the other's docstring says which of its names are for that.
The docstring of fsage.layouts, which reads how free space and files lie, does so too.
"""
