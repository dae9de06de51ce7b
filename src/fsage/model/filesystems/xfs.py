"""XFS."""

from fsage.model.filesystems import Defragmenter, FileSystem


class Xfs(FileSystem):
    """XFS."""

    name, title = "xfs", "XFS"
    defragmenter = Defragmenter(("xfs_fsr", "-v"), ("xfs_fsr", "-V"), "xfsprogs")


FILESYSTEM = Xfs()
