"""How free space and files lie in a file system: readers that change nothing, and are of use without the rest of fsage.

They need Linux, Python 3.9 and what e2fsprogs or xfsprogs have; fsage.base is all that they import of fsage. From
Python, a source is a directory, a device, an image, or the saved text of a tool (dumpe2fs, filefrag, xfs_db ...):

    from fsage.layouts.inspect import inspect
    from fsage.layouts.verdict import verdicts

    layout = inspect("/mnt/ost0", files_at_most=1000)
    print(layout["stores"][0]["free_extents"]["largest_bytes"])
    print(*verdicts(layout)[0].sentences)

The keys are those of `Store.summary` (fsage.layouts.store). `fiemap.extents(path)` has the extents of one file,
`fragments.look_at` ranks files by what defragmenting them would gain, and `monitoring.export` writes metrics for
Prometheus. On the command line:

    python3 -m fsage.layouts evidence /mnt/ost0
    python3 -m fsage.layouts fragments /mnt/ost0/dir
    python3 -m fsage.layouts.program fsage.pyz     the same commands as one file, for a server

A study may use what follows of it; all else may change:

- `extents`: `Extents`, sets of bytes, and the `Head` of a list of them; `read`, `written`, and of sets `size`,
  `common`, `without`, `joined`, `centre` and `shares`;
- `fiemap`: `extents` of a file, `count_extents` in which it lies, and `address_of` a place in one;
- `fragmentation`: `Extent`, `Fragmentation`, `NONE`, `of_file` and `moved_bytes`;
- `filesystems`: `F2fs`, and the `Defragmenter` of a file system; `geometry`: `why_not` made like another one;
- `ext4`: `of_command`, a store by dumpe2fs; `dumpe2fs`: `read_header`;
- `freespace`: `Counting`, `ONCE` as most use it, and the `BUCKETS` of sizes, of which each extent has its `bucket`;
- `servers`: `parse_lfs_df` returns a `Read`: each `Ost` that told how full it is, and who was `Silent`;
- `store`: `Store`, what is known of one, `without` what is of the device (`OF_DEVICE`); `NotThisText`;
- `machine`: a `Mount` of this machine: all `mounts`, the one `mounted_at` a place, the one that holds a path
  (`mount_of`). `plain` text of the kernel's tables; `loop_info` of a device; the `regular_files` below a folder.

Only metrics need another package, prometheus_client, which the file contains. Each file system is a class of
`filesystems`. A saved text is recognised by `saved`, and each tool's reader is a module: dumpe2fs, e2fsprogs, xfs,
classes, servers, extents. How new files will lie, `placement` says.
"""
