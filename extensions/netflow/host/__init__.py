"""Flow records in a striped file: made, indexed by model, and read again model by model.

The format. A file is blocks of one size and nothing else; numbers are little-endian. A block begins with 32 bytes:

    magic       4 bytes  "FSNF"
    crc         uint32   CRC-32 (that of zlib) of the whole block after this field
    used        uint32   bytes of this header and of the records
    count       uint32   records
    number      uint64   the block's place in the file, from 0: a block that lies elsewhere is found out
    seed        uint64   of which the file was made

Records follow, none across the end of a block, then zeros. A record has its length (uint32, this header in it), the key
of its model (uint32), a timestamp in microseconds (uint64, rising through the file) and a payload: 64 to 2111 bytes in
all, evenly distributed, as are the keys. What a block holds follows from seed, its number, its size and the number of
models alone (SHAKE-128), so that any task can make any block, on any Python.

An index is a file for each task of entries of 16 bytes: key (uint32), the record's offset in the file (uint64), its
length (uint32), big-endian and in order.

Checksums are sums modulo 2**48, in whatever order: of the CRC-32 of each block's entries in the file's order (`index`),
and of each record that was read (`models`).

A phase is `python -m fsage.studies.netflow.host.phase TASK.json` on each host. It prints a JSON object; exit code 1
and a sentence on stderr when it failed.
"""
