r"""Reading and writing text, one sentence a line.

A line ends at "\n" and nowhere else: real corpora hold U+2028, U+0085 and lone "\r" inside their
sentences, and `str.splitlines` there shifts one side of a parallel text against the other.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator

from keras_transformer.files import write_bytes

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
