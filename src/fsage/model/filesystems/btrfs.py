"""btrfs, on one device."""

from fsage.model.filesystems import Defragmenter, FileSystem


class Btrfs(FileSystem):
    """btrfs."""

    name = title = "btrfs"
    # 128 MiB is the longest extent that btrfs has; unasked, those of 32 MiB and more are left as they are. -f writes
    # the file out before the command ends.
    defragmenter = Defragmenter(
        ("btrfs", "filesystem", "defragment", "-f", "-t", "128M"), ("btrfs", "--version"), "btrfs-progs"
    )


FILESYSTEM = Btrfs()
