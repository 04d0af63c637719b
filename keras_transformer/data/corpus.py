"""Parallel text: where sentence pairs come from (paper section 5.1)."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import pathlib

from keras_transformer.text.lines import read_lines


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
            raise ValueError(
                f"{self.name}: the source has {len(self.source)} lines and the target "
                f"{len(self.target)}; line i of one should be the translation of line i of the "
                "other. Check that both files are of the same corpus and whole."
            )
        if not self.source:
            raise ValueError(f"{self.name}: there are no sentence pairs; the text is empty.")

    def __len__(self) -> int:
        return len(self.source)

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


def read_parallel_files(source: str | pathlib.Path, target: str | pathlib.Path) -> ParallelText:
    """Pairs from two UTF-8 files, plain or gzip, one sentence a line.

    Raises:
        ValueError: A file is missing, unreadable, empty or not UTF-8, or their line counts differ.

    Example:
        >>> pairs = read_parallel_files("train.en.gz", "train.de.gz")
    """
    return ParallelText(read_lines(source), read_lines(target), f"{source} and {target}")


def read_tsv(path: str | pathlib.Path) -> ParallelText:
    """Pairs from one UTF-8 file, plain or gzip: source, tab, target; further columns are ignored.

    Raises:
        ValueError: As `read_parallel_files`, or a line has no tab.
    """
    source, target = [], []
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise ValueError(
                f"{path}, line {number}: should be a source sentence, a tab and a target "
                f"sentence. Received: {line[:80]!r}."
            )
        source.append(columns[0])
        target.append(columns[1])
    return ParallelText(source, target, str(path))
