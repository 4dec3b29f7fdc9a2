"""Where data and build are, which data files were read, and writing a file whole."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = (PACKAGE / "data").is_dir()  # pip packs data/ into the package, and neither notebooks/ nor figures/
ROOT = Path() if INSTALLED else PACKAGE.parent  # an installed package writes below the current folder
DATA = (PACKAGE if INSTALLED else ROOT) / "data"
BUILD = ROOT / "build"
TEMPORARY = ".railcore-*.tmp"  # what a killed process may leave of a file that it was writing

_REMEDIES = {  # of what the system refuses
    errno.EACCES: "open its permissions, or name another place",
    errno.EPERM: "open its permissions, or name another place",
    errno.EROFS: "name a place that can be written to",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOTDIR: "a file stands where a folder is needed: name another place, or move the file",
    errno.EEXIST: "a file stands where a folder is needed: name another place, or move the file",
    errno.EISDIR: "name a file, this is a folder",
    errno.ENOSPC: "make room on the disk",
    errno.ELOOP: "links lead back to themselves: name the file",
    errno.ENOENT: "check the path",
}
_read: set[Path] = set()


def data(relative: str) -> Path:
    """Path of a file under data/. The process remembers it, so that the driver knows what a run used.

    Raises ValueError when there is no such file.
    """
    path = DATA / relative
    if not path.is_file():
        raise ValueError(f"data file {relative!r} does not exist: look in {DATA.name}/ for what does")
    _read.add(path)
    return path


def data_files_read() -> list[str]:
    """Files under data/ that this process has read, such as "data/claims.csv", sorted."""
    return sorted(path.relative_to(DATA.parent).as_posix() for path in _read)


def refusal(error: OSError) -> str:
    """What the system refused, as one line with the remedy."""
    where = f"{os.fspath(error.filename)!s}: " if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0, "")
    why = error.strerror or str(error) or type(error).__name__
    return f"{where}{why}{f': {remedy}' if remedy else ''}"


def content_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_regular(path: Path, where: str) -> None:
    """Raises ValueError for a folder, a pipe (which would be waited on) or a device; OSError for what is not there.

    where: what messages call it.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(f"{where} is {'a folder' if stat.S_ISDIR(mode) else 'a pipe or a device'}: give a file")


def regular_file(path: Path) -> bool:
    """True for a file that can be read, through links too, and False where there is nothing.

    Raises ValueError as `check_regular`, and for a link that leads nowhere, a folder that is closed, a name that is too
    long.
    """
    try:
        check_regular(path, str(path))
    except FileNotFoundError:
        if path.is_symlink():
            raise ValueError(f"{path} is a link that leads nowhere: mend or remove it") from None
        return False
    except OSError as error:
        raise ValueError(refusal(error)) from None
    return True


def user_path(what: str, path: str | Path) -> Path:
    """A path that a user writes, with ~ as the home folder. what: the argument or key that it is.

    Raises ValueError for the home of a user whom the system does not know.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"{what} is {str(path)!r}, in the home of no user: give the full path, or ./~...") from None


@contextmanager
def locked(path: Path, held: str) -> Iterator[None]:
    """Hold the lock of a file, which the system frees when the process ends, however it ends.

    Raises ValueError, which begins with `held`, where another process holds it, and for what is no file.
    """
    import fcntl  # not on Windows

    if path.is_symlink():
        raise ValueError(f"{path} is a link, and a lock is none: remove it")
    regular_file(path)
    with path.open("a") as lock:  # whatever is in it stays
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{held}: wait for it or stop it") from None
        yield


class HalfWritten(OSError):
    """Some files of several were replaced, then one could not be; the message names both kinds."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, as `write_all`."""
    write_all({path: content})


def write_all(contents: Mapping[Path, str | bytes | None]) -> None:
    """Write several files whole, and remove those with None for content: all or none, as far as possible.

    Every new file is written beside its target, and is on the disk, before the first is renamed. So a full disk or a
    folder that cannot be written to fails while all are as they were, and a power cut leaves no empty file.
    A new file has the permissions that the user's umask gives, and one that is replaced keeps its own. A link stays,
    and what it leads to is written. Raises ValueError for a target that is no file, before anything is written, OSError
    when nothing was changed, and HalfWritten when a rename or removal failed after others.
    """
    contents = {
        path if content is None or not regular_file(path) else path.resolve(): content
        for path, content in contents.items()
    }
    prepared: dict[Path, Path | None] = {}
    changed: list[Path] = []
    folders = {folder for path in contents for folder in _changed_folders(path)}
    try:
        for path, content in contents.items():
            if path.exists() and not os.access(path.parent if content is None else path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            prepared[path] = None if content is None else _beside(path, content)
        for path, temporary in prepared.items():
            if temporary is None:
                path.unlink(missing_ok=True)
            else:
                os.replace(temporary, path)
            changed.append(path)
    except OSError as error:
        if not changed:
            raise
        rest = [path for path in contents if path not in changed]
        raise HalfWritten(f"{error}; new: {_listed(changed)}; as before: {_listed(rest)}") from error
    finally:
        for left in filter(None, prepared.values()):
            left.unlink(missing_ok=True)
        _sync(folders)


def _changed_folders(path: Path) -> Iterator[Path]:
    """The folder of a file; where it is still to be made, those above it too, up to one that is there."""
    for folder in path.parents:
        yield folder
        if folder.is_dir():
            return


def _beside(path: Path, content: str | bytes) -> Path:
    """A hidden temporary file (`TEMPORARY`) that holds the content, on the disk, in the folder of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat() if path.exists() else None
    mode = 0o600 if before else 0o666  # of which the umask takes its part
    temporary = path.parent / TEMPORARY.replace("*", secrets.token_hex(8))
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as stream:
            if before:
                _permit(temporary, before)
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        if isinstance(error, OSError) and not error.filename:
            error.filename = str(path)  # a full disk names none
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _permit(path: Path, before: os.stat_result) -> None:
    """Give a file the owner, group and permissions of another, as far as the user may."""
    for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
        with suppress(OSError, AttributeError):  # root alone gives files away, and Windows has no owners
            os.chown(path, owner, group)
    of_group = 0 if path.stat().st_gid == before.st_gid else stat.S_IRWXG  # another group may not see it
    os.chmod(path, stat.S_IMODE(before.st_mode) & ~of_group)


def _sync(folders: Iterable[Path]) -> None:
    """Have the names of files on the disk."""
    for folder in folders:
        with suppress(OSError):  # not every system opens folders
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(os.path.relpath(path, ROOT) for path in paths)
