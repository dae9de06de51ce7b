"""Directories and files that nobody else could have prepared, or can change while they are used.

A path is walked from `/`, one directory at a time. Each is opened from the one above it, without following a link
(openat(2), O_NOFOLLOW). As for ssh and sudo, each must belong to root or to the present user, and nobody else may write
to it. Whoever may write there could put a link, or another file, in the place of an expected one. Two things that every
system has are allowed on the way:

- a link of root or of the present user, in a directory where nobody else can make one (/var/run -> /run, a home on
  another disk). The administrator made it, and the path that it names is walked by the same rules;
- a directory with the sticky bit that all may write to (/tmp). There nobody can rename or remove another user's entry,
  so the next directory is judged by its own owner. A sticky directory is never itself the place that is opened.

A user, and never root, may also pass the directory of a project: one with the set-group-ID bit whose group is one of
his, whoever owns it. Its members can rename what is in it. So a target there is told by its identity and its mark.

All that is made here is for its owner alone (0700, 0600), whatever the umask. Only RUN, which all users of a machine
share, and the mount points in it let others pass (0711), such as a user who measures without root. An access list
(acl(5)) that lets others write shows in the group's bits of the mode, and is refused like them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from fsage.base import Call, Failure, Refusal
from fsage.host.system import kernel

PRIVATE = 0o700
PRIVATE_FILE = 0o600
PASSABLE = 0o711
RUN = Path("/run/fsage")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
PASSING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # needs no right to read; a link is opened, not followed
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINKS_AT_MOST = 8
DEEPEST = 100  # directories in each other: far more than anything of ours has, far fewer than descriptors
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def opened(path: Path | str, make: int | None = None, sticky: bool = False) -> Iterator[int]:
    """A descriptor of the directory at `path` while the block runs, made with mode `make` if it is not there.

    `sticky`: it may be one that all may write to, for a file that is judged by its own owner. Raises Refusal where
    somebody else has a hand in it, and FileNotFoundError.
    """
    with kernel.closing(_walk(Path(path), make, sticky)) as descriptor:
        yield descriptor


def make(path: Path | str, mode: int = PRIVATE) -> None:
    """Make the directory `path`, with the missing ones above it."""
    with opened(path, mode):
        pass


def check(path: Path | str) -> None:
    """Raise Refusal if others can change `path`, or the nearest directory above it that exists."""
    with contextlib.suppress(FileNotFoundError), opened(path):
        return
    with opened(_existing(Path(path).parent), sticky=True):
        pass


@contextlib.contextmanager
def inside(above: int, name: str, path: Path | str, make: int | None = None) -> Iterator[int]:
    """A descriptor of directory `name` in an open directory that was judged; messages name `path`.

    No link is followed, not even one of the owner's: fsage makes none. With `make` a missing one is made with that
    mode, and the owner has all rights in one that is there.
    """
    descriptor, status = _next(above, name, Path(path), make)
    with kernel.closing(descriptor):
        if not stat.S_ISDIR(status.st_mode):
            raise Refusal(
                f"{path} is {_kind(status)}, where fsage makes a directory; nothing below it was touched. Remove it"
            )
        _judge(status, Path(path), Path(path), sticky=False)
        if make is not None and status.st_uid == os.geteuid() and ~status.st_mode & stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        reading = _reopen(descriptor, Path(path))
    with kernel.closing(reading):
        yield reading


def make_in(above: int, path: Path) -> None:
    """Make the directory `path`, and no link, in an open directory that was judged."""
    with inside(above, path.name, path, PRIVATE):
        pass


def file(path: Path | str, flags: int) -> int:
    """A descriptor of the regular file at `path`, which nobody else may write to; O_CREAT makes a missing one so.

    Raises Refusal where it belongs to another user, or is a link, a device or a FIFO (which would block); raises
    FileNotFoundError.
    """
    path = Path(path)
    with opened(path.parent, PRIVATE if flags & os.O_CREAT else None, sticky=True) as above:
        return file_in(above, path, flags)


def file_in(above: int, path: Path, flags: int) -> int:
    """A descriptor of a regular file in an open directory (`file`)."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            _judge_file(os.stat(path.name, dir_fd=above, follow_symlinks=False), path, flags)
            descriptor = os.open(path.name, flags & ~(os.O_CREAT | os.O_EXCL), dir_fd=above)
        except FileNotFoundError as missing:
            if not flags & os.O_CREAT:
                raise named(path, missing) from None
            try:
                descriptor = os.open(path.name, flags | os.O_EXCL, PRIVATE_FILE, dir_fd=above)
            except FileExistsError:  # another command of fsage was faster
                continue
            except OSError as error:
                raise named(path, error) from None
            os.fchmod(descriptor, PRIVATE_FILE)
        except OSError as error:
            raise named(path, error) from None
        try:
            _judge_file(os.fstat(descriptor), path, flags)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def empty(above: int, path: Path | str, threads: int = 1, spend: Call = lambda: None) -> None:
    """Remove all that is in an open directory, which is at `path`; of links not what they lead to.

    `spend` is called before each file is removed. An entry that is replaced by another directory or a link meanwhile is
    left. Raises Failure naming it.
    """
    device = os.fstat(above).st_dev
    with ThreadPoolExecutor(threads) as pool:
        each = map if threads == 1 else pool.map

        def paced(files: list[Path]) -> Iterator[Path]:
            for file in files:
                spend()
                yield file

        _empty(above, Path(path), device, DEEPEST, lambda remove, files: each(remove, paced(files)))


def remove_empty(*folders: Path) -> None:
    """Remove these directories, of which each is in the next, as far as nothing else is in them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def remove(path: Path | str) -> None:
    """Remove a file, or a directory with all that is in it; a missing one is no error."""
    path = Path(path)
    with contextlib.suppress(FileNotFoundError), opened(path.parent) as above:
        remove_in(above, path)


def remove_in(above: int, path: Path) -> None:
    """Remove an entry of an open directory (`remove`)."""
    _remove(above, path, os.fstat(above).st_dev, DEEPEST, map)


def remove_emptied(above: int, path: Path) -> None:
    """Remove an empty directory in an open one. Raises Failure where something is in it."""
    try:
        os.rmdir(path.name, dir_fd=above)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise Failure(f"{path} was swapped while it was removed; what is there now was not touched") from None
    except OSError as error:
        raise Failure(f"{path} cannot be removed ({error.strerror}): others write, or mount, there") from error


def named(path: Path, error: OSError) -> OSError:
    """The same error of the system, with the whole path: it names only the part that was opened in a directory."""
    if str(error.filename).startswith("/"):
        return error
    return OSError(error.errno, error.strerror, str(path))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an error of the system name the whole path (`named`)."""
    try:
        yield
    except OSError as error:
        raise named(path, error) from None


def who(uid: int) -> str:
    """The name and number of a user."""
    name = login(uid)
    if name == str(uid):
        return f"uid {uid}"
    return f"{name} (uid {uid})"


def login(uid: int) -> str:
    """The name of a user, or the number where a container has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _walk(path: Path, make: int | None, sticky: bool) -> int:
    if not path.is_absolute() or ".." in path.parts:
        raise Refusal(f"{str(path)!r}: a path from / on is wanted, without '..'")
    folder = os.open("/", PASSING)
    at = Path("/")
    links = 0
    rest = list(reversed(path.parts[1:]))
    try:
        _judge(os.fstat(folder), at, path, sticky=bool(rest) or sticky)
        while rest:
            name = rest.pop()
            below = at / name
            inner, status = _next(folder, name, below, make)
            if stat.S_ISLNK(status.st_mode):
                leads_to = os.readlink("", dir_fd=inner)
                os.close(inner)
                _judge_link(status, os.fstat(folder), below, path)
                links += 1
                if links > LINKS_AT_MOST:
                    raise Refusal(f"{path}: more than {LINKS_AT_MOST} symbolic links are on the way to it")
                rest += reversed(Path(os.path.normpath(at / leads_to)).parts[1:])
                os.close(folder)
                folder = os.open("/", PASSING)
                at = Path("/")
                continue
            os.close(folder)
            folder = inner
            at = below
            if not stat.S_ISDIR(status.st_mode):
                raise Refusal(f"{path}: {at} is {_kind(status)}, where a directory is wanted; nothing was touched")
            _judge(status, at, path, sticky=bool(rest) or sticky)
        return _reopen(folder, path)
    finally:
        os.close(folder)


def _next(above: int, name: str, path: Path, make: int | None) -> tuple[int, os.stat_result]:
    """What is called `name` in an open directory, a link not followed; a directory made if it is missing."""
    try:
        inner = os.open(name, PASSING, dir_fd=above)
    except FileNotFoundError as missing:
        if make is None:
            raise named(path, missing) from None
        mode = PASSABLE if RUN in (path, *path.parents) else make
        with naming(path):
            # Another command of ours was faster, or what is there is judged like any other.
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=above)
                of_group = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode & stat.S_ISGID  # inherited
                os.chmod(name, mode | of_group, dir_fd=above)  # whatever the umask; nobody else can have put another
            inner = os.open(name, PASSING, dir_fd=above)
    except OSError as error:
        raise named(path, error) from None
    return inner, os.fstat(inner)


def _reopen(descriptor: int, path: Path) -> int:
    """The directory of a descriptor that was only passed through, to be read and flushed; messages name `path`."""
    with naming(path):
        return os.open(".", FOLDER, dir_fd=descriptor)


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "a file")


def _judge(status: os.stat_result, at: Path, path: Path, sticky: bool) -> None:
    mode = stat.S_IMODE(status.st_mode)
    wrong = []
    if sticky and _of_project(status):
        return
    if status.st_uid not in (0, os.geteuid()):
        wrong.append(f"belongs to {who(status.st_uid)}")
    if mode & OTHERS_WRITE and not (sticky and mode & stat.S_ISVTX):
        wrong.append("can be written to by others")
    if wrong:
        me = who(os.geteuid())
        place = f"{path}" if at == path else f"{path}: {at}"
        user = login(os.geteuid())
        quoted = shlex.quote(str(at))
        remedy = f"declare another, or, if this one is nobody else's, `chown {user} {quoted}` and `chmod go-w {quoted}`"
        if mode & stat.S_ISVTX:
            remedy = "declare a directory of its own below it"
        raise Refusal(
            f"{place} {' and '.join(wrong)} (mode {mode:04o}), who could put their own link or file in its place; "
            f"nothing was touched. {me} uses only directories that root or itself owns and nobody else can "
            f"write to: {remedy}"
        )


def _of_project(status: os.stat_result) -> bool:
    """Whether a directory is that of a project to which this user, who is not root, belongs."""
    shared = status.st_mode & stat.S_ISGID and not status.st_mode & stat.S_IWOTH
    return bool(os.geteuid() and shared and status.st_gid in (os.getegid(), *os.getgroups()))


def _judge_link(link: os.stat_result, above: os.stat_result, at: Path, path: Path) -> None:
    if link.st_uid not in (0, os.geteuid()) or above.st_mode & OTHERS_WRITE:
        raise Refusal(
            f"{path}: {at} is a symbolic link of {who(link.st_uid)}, in a directory of mode "
            f"{stat.S_IMODE(above.st_mode):04o}; nothing was touched. Only links of root's or of one's own, "
            "where nobody else could make one, are followed: declare the directory that is meant"
        )


def _judge_file(status: os.stat_result, path: Path, flags: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    ours = status.st_uid in (0, os.geteuid())
    if not stat.S_ISREG(status.st_mode):
        what = f"{_kind(status)} of {who(status.st_uid)}"
        raise Refusal(f"{path} is {what}, where fsage keeps a file; nothing was touched. Remove it")
    if not ours or mode & OTHERS_WRITE:
        quoted = shlex.quote(str(path))
        raise Refusal(
            f"{path} belongs to {who(status.st_uid)} (mode {mode:04o}), so that others could have written it; it is "
            f"not believed, and nothing was touched. Remove it, or, if you know it to be right, "
            f"`chown {login(os.geteuid())} {quoted}` and `chmod 600 {quoted}`"
        )
    if status.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        raise Refusal(f"{path} has {status.st_nlink} names (hard links), and fsage makes one; nothing was touched")


def _empty(above: int, path: Path, device: int, depth: int, each: Callable[..., Any]) -> None:
    if not depth:
        raise Failure(f"{path}: more than {DEEPEST} directories in each other, which fsage never makes; remove them")
    listed: list[Path] = []
    folders: list[Path] = []
    with os.scandir(above) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else listed).append(path / entry.name)
    list(each(partial(_unlink, above), listed))
    for folder in folders:
        _remove(above, folder, device, depth - 1, each)


def _remove(above: int, path: Path, device: int, depth: int, each: Callable[..., Any]) -> None:
    try:
        inner = os.open(path.name, FOLDER, dir_fd=above)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise named(path, error) from None
        return _unlink(above, path)  # no directory, or none any more
    with kernel.closing(inner):
        if os.fstat(inner).st_dev != device:
            raise Failure(f"{path} is another file system, mounted there; it was left as it is: unmount it")
        _empty(inner, path, device, depth, each)
    return remove_emptied(above, path)


def _unlink(above: int, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError), naming(path):
        os.unlink(path.name, dir_fd=above)


def _existing(path: Path) -> Path:
    if os.path.lexists(path):
        return path
    return _existing(path.parent)
