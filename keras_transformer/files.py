"""Files and folders that are written whole or not at all, and by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    """Writes a file at once or not at all: under another name first, then moved into place.

    What a link points to is written, not the link; a device or pipe is written to as it is.

    Raises:
        ValueError: The folder is missing or the place cannot be written.
    """
    path, temporary = pathlib.Path(path), None
    try:
        # /dev/stdout must not be replaced by a file, nor the file it leads to, which may hold more.
        stream = str(path) in ("/dev/stdout", "/dev/stderr") or path.parent.name == "fd"
        if stream or path.exists() and not path.is_file():
            with open(path, "ab") as file:
                file.write(data)
            return
        path = pathlib.Path(os.path.realpath(path))
        # A name of its own, so that two writers at once do not mix their bytes.
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
        ) as file:
            temporary = file.name
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())  # a temporary file is private by default
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise ValueError(f"{str(path)!r} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A folder to fill under a name of this process, which is moved to `path` when it is whole.

    Raises:
        ValueError: It cannot be written, or another process made it meanwhile; nothing is left.

    Example:
        >>> with new_folder("runs/average") as folder:
        ...     write_lines(folder / "a.txt", ["a line"])
    """
    path = pathlib.Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".writing-{path.name}-", dir=path.parent))
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        if path.exists():
            raise ValueError(f"{path} was made by another process meanwhile. Try again.")
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error}.") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def check_new(path: str | os.PathLike) -> None:
    """Raises ValueError where a folder to write is there already, before the work for it."""
    if pathlib.Path(path).exists():
        raise ValueError(f"{path} exists already. Give a new folder.")


def check_writable(path: str | os.PathLike) -> None:
    """Raises ValueError where a file cannot be written, before the work that is to fill it."""
    folder = pathlib.Path(path).parent
    if not folder.is_dir() or pathlib.Path(path).is_dir():
        raise ValueError(f"{path} cannot be written: it should be a file in a folder that exists.")
    if pathlib.Path(path).exists() and not pathlib.Path(path).is_file():
        return  # a device or a pipe
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}.") from None


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Makes a folder and keeps a second process out; the system frees the lock with the process.

    Raises:
        ValueError: Another process has it, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "w")  # noqa: SIM115 (entered below)
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror}.") from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"Another process is at work in {folder}. Wait for it, or give another folder."
            ) from None
        yield


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
