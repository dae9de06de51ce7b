"""ext2, a dialect of ext4: the same tools and the same kernel module, without a journal and without extents."""

from fsage.api.host import Ext4

from .. import model


class Ext2(model.Ext2, Ext4):
    """ext2."""

    programs = ("mkfs.ext2",)
    for_users = False
    mover = None  # it wants extents
    no_preallocation = "ext2 has no preallocation to set"

    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        """As FileSystem.make_command."""
        extended = f"nodiscard,lazy_itable_init=0,hash_seed={hash_seed}"
        return ["mkfs.ext2", "-q", "-m", "0", "-U", fs_uuid, "-E", extended]


FILESYSTEM = Ext2()
