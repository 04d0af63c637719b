"""Parallel text: where sentence pairs come from (paper section 5.1)."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence

from keras_transformer.text.lines import iter_lines


@dataclasses.dataclass(frozen=True)
class PairStream:
    """Sentence pairs that are read anew whenever they are iterated over, and not held in memory.

    Attributes:
        name: What the pairs are called in messages and reports.
        read: Begins to read them.
        version: Where it is the same, the pairs are (sizes and times of files, say), as JSON; None
            where only reading them can tell.
        is_lasting: Whether they can be read more than once, as from a pipe they cannot.

    Example:
        >>> stream = PairStream("two", lambda: iter([("a b", "c d"), ("e", "f")]))
        >>> next(iter(stream))
        ('a b', 'c d')
    """

    name: str
    read: Callable[[], Iterator[tuple[str, str]]]
    version: object = None
    is_lasting: bool = True

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self.read()

    def columns(self) -> tuple[Iterator[str], Iterator[str]]:
        """Each side by itself.

        Raises:
            ValueError: The pairs can be read once only.
        """
        if not self.is_lasting:
            raise ValueError(
                f"{self.name} cannot be read more than once, and each side is read by itself: put "
                "the text into files."
            )
        return (source for source, _ in self), (target for _, target in self)

    def collect(self) -> ParallelText:
        """All pairs, in memory."""
        columns = ([], [])
        for pair in self:
            for column, line in zip(columns, pair, strict=True):
                column.append(line)
        return ParallelText(*columns, name=self.name)


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Sentence pairs, line by line.

    Attributes:
        source, target: Equally many lines.
        name: What the pairs are called in messages and reports.
    """

    source: list[str]
    target: list[str]
    name: str

    def __post_init__(self):
        if len(self.source) != len(self.target):
            raise ValueError(_unequal(self.name, len(self.source), len(self.target)))
        if not self.source:
            raise ValueError(f"{self.name}: there are no sentence pairs; the text is empty.")

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.source, self.target, strict=True)

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of all lines of both sides."""
        digest = hashlib.sha256()
        for line in itertools.chain(self.source, self.target):
            digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    def head(self, count: int) -> ParallelText:
        """The first `count` pairs."""
        return dataclasses.replace(self, source=self.source[:count], target=self.target[:count])


def stream_parallel_files(
    sources: Sequence[str | os.PathLike], targets: Sequence[str | os.PathLike]
) -> PairStream:
    """Pairs from UTF-8 files, plain or gzip, one sentence a line; one or several a side.

    Raises:
        ValueError: There are not as many files of one side as of the other. While they are read:
            a file is missing, unreadable or not UTF-8, or the line counts of two differ.

    Example:
        >>> stream = stream_parallel_files(["europarl.en", "news.en"], ["europarl.de", "news.de"])
    """
    if len(sources) != len(targets) or not sources:
        raise ValueError(
            "There should be as many files of the source language as of the target language, in "
            f"the same order. Received: {len(sources)} and {len(targets)}."
        )
    both = list(zip(sources, targets, strict=True))
    return PairStream(
        ", ".join(f"{source} and {target}" for source, target in both),
        lambda: itertools.chain.from_iterable(itertools.starmap(_iter_pairs, both)),
        *_version(*sources, *targets),
    )


def stream_tsv(path: str | os.PathLike) -> PairStream:
    """Pairs from one UTF-8 file, plain or gzip: source, tab, target; further columns are ignored.

    Raises:
        ValueError: While it is read: as `stream_parallel_files`, or a line has no tab.
    """
    return PairStream(str(path), lambda: _iter_tsv(path), *_version(path))


def read_parallel_files(source: str | os.PathLike, target: str | os.PathLike) -> ParallelText:
    """Pairs from two UTF-8 files, plain or gzip, one sentence a line.

    Raises:
        ValueError: A file is missing, unreadable, empty or not UTF-8, or their line counts differ.

    Example:
        >>> pairs = read_parallel_files("train.en.gz", "train.de.gz")
    """
    return stream_parallel_files([source], [target]).collect()


def read_tsv(path: str | os.PathLike) -> ParallelText:
    """Pairs from one UTF-8 file, plain or gzip: source, tab, target; further columns are ignored.

    Raises:
        ValueError: As `read_parallel_files`, or a line has no tab.
    """
    return stream_tsv(path).collect()


def _iter_pairs(source, target) -> Iterator[tuple[str, str]]:
    lines, others = iter_lines(source), iter_lines(target)
    for read, pair in enumerate(itertools.zip_longest(lines, others)):
        if None in pair:
            rest = 1 + sum(1 for _ in (others if pair[0] is None else lines))
            counts = (read, read + rest) if pair[0] is None else (read + rest, read)
            raise ValueError(_unequal(f"{source} and {target}", *counts))
        yield pair


def _iter_tsv(path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(iter_lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise ValueError(
                f"{path}, line {number}: should be a source sentence, a tab and a target "
                f"sentence. Received: {line[:80]!r}."
            )
        yield columns[0], columns[1]


def _unequal(name: str, source: int, target: int) -> str:
    return (
        f"{name}: the source has {source} lines and the target {target}; line i of one should be "
        "the translation of line i of the other. Check that both files are of the same corpus and "
        "whole."
    )


def _version(*paths) -> tuple[list | None, bool]:
    """`version` and `is_lasting` of a stream from files; one that is missing, reading will name."""
    is_lasting = all(os.path.isfile(path) or not os.path.exists(path) for path in paths)
    if not all(map(os.path.isfile, paths)):
        return None, is_lasting
    return [[stat.st_size, stat.st_mtime_ns] for stat in map(os.stat, paths)], True
