"""The local file systems that a target can be, one module each, named after it: see fsage.agent.stores.filesystems."""
