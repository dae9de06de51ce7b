"""The local file systems that a target can be, one module each, named after it: see fsage.host.stores.filesystems."""
