"""ext2."""

from fsage.model.filesystems import FileSystem


class Ext2(FileSystem):
    """ext2."""

    name = title = "ext2"
    like = ()
    defragmenter = None  # it wants extents


FILESYSTEM = Ext2()
