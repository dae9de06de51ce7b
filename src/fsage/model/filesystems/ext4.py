"""ext4, and what is read as it is: ext2, ext3 and ldiskfs."""

from fsage.model.filesystems import Defragmenter, FileSystem


class Ext4(FileSystem):
    """ext4."""

    name, title, like = "ext4", "ext4 (ldiskfs)", ("ext2", "ext3")
    defragmenter = Defragmenter(("e4defrag", "-v"), ("e4defrag",), "e2fsprogs")


FILESYSTEM = Ext4()
