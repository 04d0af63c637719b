"""Tokenising a corpus once, to shards on disk; `prepared.py` reads them and says what they hold.

The corpus is read in blocks of lines, which several processes tokenise. A block's pairs are dealt
out to the shards at random, and after each block what was done is noted: stopped at any moment, the
same call goes on from there, and the shards are the same, byte for byte, as without a stop.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

import numpy as np

from keras_transformer.config import DataConfig
from keras_transformer.data.blocks import BLOCKS, Block, BlockEncoder, cores, encode_all
from keras_transformer.data.cleaning import clean_pairs
from keras_transformer.data.corpus import PairStream
from keras_transformer.data.encoding import none_left
from keras_transformer.data.prepared import INDEX, VERSION, PreparedPairs, file_digest
from keras_transformer.files import locked, write_bytes
from keras_transformer.text.vocabulary import Vocabularies

_BLOCK = 20_000  # pairs
_PROGRESS = "progress.json"
_NOTED = ("settings", "blocks", "digest", "sizes", "tokens", "dropped", "lengths")
_NOTHING = hashlib.sha256().hexdigest()


def prepare(
    text: PairStream,
    vocabularies: Vocabularies,
    to: str | os.PathLike,
    cleaning: DataConfig | None = None,
    max_length: int = 256,
    shards: int = 64,
    seed: int = 1,
    processes: int | None = 1,
    on_pairs: Callable[[int], None] = lambda count: None,
) -> PreparedPairs:
    """Tokenises a corpus to a folder of TFRecords, or goes on where that was stopped.

    Args:
        text: The corpus.
        vocabularies: For either side; a copy is put into the folder.
        to: The folder.
        cleaning: What is left out; see `DataConfig`. By default nothing is.
        max_length: Tokens a side at most, end mark included; longer pairs are left out.
        shards: Files to write.
        seed: Of the dealing out to shards.
        processes: Processes that tokenise; None for one a CPU core. With more than one, the calling
            script should start its work under `if __name__ == "__main__":`, as `multiprocessing`
            asks.
        on_pairs: Called with the number of pairs read so far, now and then.

    Returns:
        The prepared corpus; where the folder holds it already, at once or, if its files have
        another date, once they were read and found the same.

    Raises:
        ValueError: The text is unfit or is another than at the start, or the folder holds another
            corpus or anything else.
        OSError: A process was killed, or the disk is full; call it again to go on.

    Example:
        >>> text = stream_parallel_files(["train.en.gz"], ["train.de.gz"])
        >>> pairs = prepare(text, vocabularies, "prepared/ende", processes=None)
    """
    processes = cores() if processes is None else processes
    for name, value, least, most in (
        ("shards", shards, 1, 100_000),
        ("processes", processes, 1, 1000),
        ("max_length", max_length, 2, 100_000),
        ("seed", seed, 0, 2**63),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} should be from {least} to {most}. Received: {value}.")
    to, cleaning = pathlib.Path(to), cleaning or DataConfig()
    settings = {
        "vocabulary": vocabularies.fingerprint,
        "cleaning": cleaning.cleaning,
        "max_length": max_length,
        "shards": shards,
        "seed": seed,
        "block_pairs": _BLOCK,
    }
    _check_folder(to, settings)  # before a lock is put into what may be another's
    with locked(to):
        _check_folder(to, settings)
        if (to / INDEX).exists():
            found = PreparedPairs(to)
            _check_same_text(text, cleaning, found)
        else:
            found = None
            writer = _Writer(to, text, settings)
        if not _holds(to / "vocab", vocabularies):
            vocabularies.save(to / "vocab")
        if found is None:
            encoder = BlockEncoder(to, vocabularies.fingerprint, max_length, shards, seed)
            blocks = writer.blocks(cleaning, on_pairs)
            try:
                writer.write(encode_all(encoder, blocks, processes))
                writer.finish()
            except ValueError:
                if not writer.blocks_done or not writer.pairs:
                    writer.discard()
                raise
    return PreparedPairs(to)


def _holds(folder: pathlib.Path, vocabularies: Vocabularies) -> bool:
    try:
        return Vocabularies.load(folder).fingerprint == vocabularies.fingerprint
    except ValueError:
        return False


def _digested(text: PairStream, cleaning: DataConfig, left_out: dict) -> Iterator[tuple[list, str]]:
    """The blocks of the cleaned text, each with the SHA-256 of all of it so far."""
    pairs, digest = clean_pairs(text, cleaning, left_out), hashlib.sha256()
    while block := list(itertools.islice(pairs, _BLOCK)):
        digest.update("\n".join(itertools.chain.from_iterable(block)).encode() + b"\n")
        yield block, digest.hexdigest()


def _check_same_text(text: PairStream, cleaning: DataConfig, found: PreparedPairs) -> None:
    """Raises ValueError where a folder that is finished holds another text."""
    if text.version is not None and text.version == found.version:
        return
    digest = _NOTHING
    for _, digest in _digested(text, cleaning, {}):  # noqa: B007 (the last one counts)
        pass
    if digest != found.digest:
        raise ValueError(
            f"{found.folder} holds another text than {text.name} is now. Give another folder, or "
            "remove it."
        )


def _check_folder(folder: pathlib.Path, settings: dict) -> None:
    """Raises ValueError where the folder holds something else than these pairs, whole or begun."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file where a folder is to be written. Give another name.")
    if (folder / INDEX).exists():
        there = PreparedPairs(folder).settings
    elif (folder / _PROGRESS).exists():
        done = _load(folder / _PROGRESS)
        if not done["blocks"]:  # no more than begun
            return
        there = done["settings"]
    elif any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ValueError(f"{folder} holds something else than a prepared corpus. Give a new one.")
    else:
        return
    for name, value in json.loads(json.dumps(settings)).items():
        if there.get(name) != value:
            raise ValueError(
                f"{folder} holds a corpus prepared with another {name}: {there.get(name)!r} there "
                f"and {value!r} now. Give another folder, or remove it."
            )


def _load(path: pathlib.Path) -> dict:
    try:
        done = json.loads(path.read_bytes())
        missing = set(_NOTED) - set(done)
        if missing or not isinstance(done["settings"], dict):
            raise ValueError(f"it lacks {', '.join(missing) or 'settings'}")
        return done
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}). Remove its folder and begin anew."
        ) from None


class _Writer:
    """The shards, and how far they are written."""

    def __init__(self, folder: pathlib.Path, text: PairStream, settings: dict):
        self.folder, self.text, self.settings = folder, text, settings
        count = settings["shards"]
        self.files = [folder / f"train-{i:05}-of-{count:05}.tfrecord" for i in range(count)]
        self.blocks_done, self.digest = 0, _NOTHING
        self.sizes = np.zeros(count, np.int64)
        self.lengths = np.zeros([3, count, settings["max_length"] + 1], np.int64)
        self.dropped, self.left_out = collections.Counter(), {}
        self.tokens = np.zeros(2, np.int64)
        self._digests = collections.deque()  # of the text up to each block that is under way
        shutil.rmtree(folder / BLOCKS, ignore_errors=True)
        (folder / BLOCKS).mkdir()
        progress = folder / _PROGRESS
        if not progress.exists() or not _load(progress)["blocks"]:
            self._note(_NOTHING)
        self._restore(_load(progress))

    @property
    def pairs(self) -> int:
        return int(self.lengths[0].sum())

    def _restore(self, done: dict) -> None:
        self.blocks_done, self.digest = done["blocks"], done["digest"]
        self.sizes[:], self.tokens[:] = done["sizes"], done["tokens"]
        self.dropped.update(done["dropped"])
        for shard, table in enumerate(done["lengths"]):
            self.lengths[:, shard, : len(table[0])] = table
        for path, size in zip(self.files, self.sizes, strict=True):
            with open(path, "ab") as file:
                if file.tell() < size:
                    raise ValueError(
                        f"{path} is shorter than it was. Remove its folder, begin anew."
                    )
                file.truncate(size)

    def blocks(self, cleaning: DataConfig, on_pairs) -> Iterator[tuple[int, list]]:
        """The blocks that are still to do, with their numbers."""
        done, digest, read, number = self.blocks_done, self.digest, 0, -1
        for number, (block, so_far) in enumerate(_digested(self.text, cleaning, self.left_out)):
            read += len(block)
            on_pairs(read)
            if number == done - 1 and so_far != digest:
                raise ValueError(self._other_text())
            if number >= done:
                self._digests.append(so_far)
                yield number, block
        if number < done - 1:
            raise ValueError(self._other_text())

    def _other_text(self) -> str:
        return (
            f"{self.text.name} is not the text that was begun with. Remove {self.folder} to begin "
            "anew, or give another folder."
        )

    def discard(self) -> None:
        """Removes all that was written."""
        for path in (*self.files, self.folder / _PROGRESS, self.folder / ".lock"):
            path.unlink(missing_ok=True)
        for folder in (BLOCKS, "vocab"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # (where something else is in it)
            self.folder.rmdir()

    def write(self, blocks: Iterator[Block]) -> None:
        """Adds blocks to the shards, in their order, and notes each."""
        for block in blocks:
            with open(block.file, "rb") as file:
                for path, size in zip(self.files, block.sizes.tolist(), strict=True):
                    if size:
                        with open(path, "ab") as shard:
                            shard.write(file.read(size))
            block.file.unlink()
            self._count(block)
            self.blocks_done += 1
            self.digest = self._digests.popleft()
            self._note(self.digest)

    def _count(self, block: Block) -> None:
        longer = np.maximum(block.source, block.target)
        np.add.at(self.lengths[0], (block.shard, longer), 1)
        np.maximum.at(self.lengths[1], (block.shard, longer), block.source)
        np.maximum.at(self.lengths[2], (block.shard, longer), block.target)
        self.sizes += block.sizes
        self.tokens += [block.source.sum(), block.target.sum()]
        self.dropped.update(block.dropped)

    def _note(self, digest: str) -> None:
        done = {
            "settings": self.settings,
            "blocks": self.blocks_done,
            "digest": digest,
            "sizes": self.sizes.tolist(),
            "tokens": self.tokens.tolist(),
            "dropped": self.dropped,
            "lengths": self._tables(),
        }
        write_bytes(self.folder / _PROGRESS, json.dumps(done).encode())

    def _tables(self) -> list:
        """Of each shard its `PairLengths`, without the zeros at the end."""
        ends = [1 + table.nonzero()[0].max(initial=0) for table in self.lengths[0]]
        return [self.lengths[:, i, :end].tolist() for i, end in enumerate(ends)]

    def finish(self) -> None:
        """Writes the index, which says that the corpus is whole."""
        pairs = self.lengths[0].sum(axis=1)
        read = self.pairs + self.dropped.total() + sum(self.left_out.values())
        if not self.pairs:
            if not read:
                raise ValueError(f"{self.text.name}: there are no sentence pairs; it is empty.")
            reasons = {**self.left_out, **self.dropped}
            raise ValueError(none_left(self.text.name, read, reasons, self.settings["max_length"]))
        shards = [
            {
                "file": path.name,
                "bytes": int(size),
                "sha256": file_digest(path),
                "pairs": int(count),
                "lengths": table,
            }
            for path, size, count, table in zip(
                self.files, self.sizes, pairs, self._tables(), strict=True
            )
        ]
        made = json.dumps([self.settings, self.digest], sort_keys=True)
        index = {
            "version": VERSION,
            "name": self.text.name,
            "fingerprint": hashlib.sha256(made.encode()).hexdigest(),
            "text_digest": self.digest,
            "text_version": self.text.version,
            "settings": self.settings,
            "pairs": self.pairs,
            "source_tokens": int(self.tokens[0]),
            "target_tokens": int(self.tokens[1]),
            "dropped": {reason: count for reason, count in self.dropped.items() if count},
            "left_out": self.left_out,
            "shards": shards,
        }
        write_bytes(self.folder / INDEX, json.dumps(index).encode())
        (self.folder / _PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.folder / BLOCKS)
