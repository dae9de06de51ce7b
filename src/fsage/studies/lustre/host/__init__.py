"""Lustre as clients and servers see it: by `lfs`, `lctl` and `findmnt`; what is changed is read back."""
