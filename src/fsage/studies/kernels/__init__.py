"""Linux kernels that run as ordinary programs (User Mode Linux): real file systems of any release, without root.

A state is an image there: made once, and copied for each cell. The launcher boots a guest (boot.py) for each piece of
work; the guest runs fsage's own host side on the image (host/guest.py), and ends.

A study that builds on it may use `provide` of its `host`, which loads a module; all else may change.
"""
