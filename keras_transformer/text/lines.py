r"""Reading and writing text, one sentence a line.

A line ends at "\n" and nowhere else: real corpora hold U+2028, U+0085 and lone "\r" inside their
sentences, and `str.splitlines` there shifts one side of a parallel text against the other.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def split_lines(text: str) -> list[str]:
    r"""Splits a text at "\n"; each line loses one final "\r", and the end gives no phantom line.

    Example:
        >>> split_lines("a\r\n\nb\u2028c\n")
        ['a', '', 'b\u2028c']
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: str | os.PathLike) -> list[str]:
    """All lines of a UTF-8 text file, plain or gzip; see `iter_lines`."""
    return list(iter_lines(path))


def iter_lines(path: str | os.PathLike) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text file without holding it in memory.

    The lines are those of `split_lines`. Gzip is recognised by its first bytes, not by the file's
    name. A byte order mark before the first line is dropped.

    Args:
        path: A file, or anything that can be read once, such as a pipe.

    Raises:
        ValueError: At the first line if the file is missing, a folder or unreadable; at the place
            of the damage if it is not UTF-8 (with line number and byte) or a damaged gzip.

    Example:
        >>> pairs = zip(iter_lines("train.en.gz"), iter_lines("train.de.gz"), strict=True)
    """
    number = 0
    try:
        with open(path, "rb") as file, contextlib.ExitStack() as stack:
            stream = file
            if file.peek(2)[:2] == _GZIP_MAGIC:
                stream = stack.enter_context(gzip.GzipFile(fileobj=file))
            for number, raw in enumerate(stream, 1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                    if not raw:  # a file of nothing but the mark has no lines
                        continue
                yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"there is no text file {os.fspath(path)!r}; check the path") from None
    except IsADirectoryError:
        raise ValueError(
            f"{os.fspath(path)!r} is a folder where a text file was expected; name a file in it"
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{os.fspath(path)!r} is not UTF-8: line {number} has byte 0x{raw[error.start]:02x} "
            f"at its position {error.start} ({error.reason}); convert the file, for example with "
            "`iconv -f LATIN1 -t UTF-8`"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is a damaged gzip file ({error}) after {number} good lines; "
            "fetch or pack it again"
        ) from None
    except OSError as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be read: {error.strerror}") from None


def write_lines(path: str | os.PathLike, lines: Iterable[str]) -> None:
    r"""Writes lines as UTF-8, each ended by "\n", at once or not at all.

    A path that ends in ".gz" is written as gzip, the same bytes for the same lines.

    Raises:
        ValueError: A line holds "\n" and would become two; the place cannot be written.

    Example:
        >>> write_lines("out.de", ["Ein Mann.", ""])
    """
    lines = list(lines)
    for number, line in enumerate(lines, 1):
        if "\n" in line:
            raise ValueError(
                f'line {number} of {len(lines)} for {os.fspath(path)!r} holds "\\n" and would '
                f"become two lines: {line[:80]!r}; replace it, for example by a space"
            )
    data = "".join(line + "\n" for line in lines).encode("utf-8")
    if os.fspath(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_bytes(path, data)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
