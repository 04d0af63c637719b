"""The shards of a corpus that is being prepared, and how far they are; see `prepare.py`."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np

from keras_transformer.config import DataConfig
from keras_transformer.data.blocks import BLOCK_PAIRS, BLOCKS, Block
from keras_transformer.data.cleaning import clean_pairs
from keras_transformer.data.corpus import PairStream
from keras_transformer.data.encoding import PairLengths, none_left
from keras_transformer.data.prepared import INDEX, VERSION, file_digest
from keras_transformer.files import write_bytes

PROGRESS = "progress.json"
_NOTED = ("settings", "blocks", "digest", "sizes", "tokens", "dropped", "lengths")
_NOTHING = hashlib.sha256().hexdigest()


def digested_blocks(
    text: PairStream, cleaning: DataConfig, left_out: dict
) -> Iterator[tuple[list, str]]:
    """The blocks of the cleaned text, each with the SHA-256 of all of it so far."""
    pairs, digest = clean_pairs(text, cleaning, left_out), hashlib.sha256()
    while block := list(itertools.islice(pairs, BLOCK_PAIRS)):
        digest.update("\n".join(itertools.chain.from_iterable(block)).encode() + b"\n")
        yield block, digest.hexdigest()


def read_progress(folder: pathlib.Path) -> dict:
    """What `ShardWriter` noted last.

    Raises:
        ValueError: It is damaged.
    """
    path = folder / PROGRESS
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


class ShardWriter:
    """The shards, and how far they are written.

    Args:
        folder: Where they are; what was noted there is gone on from.
        text: The corpus.
        settings: How it is prepared; see `prepare`.
    """

    def __init__(self, folder: pathlib.Path, text: PairStream, settings: dict):
        self.folder, self.text, self.settings = folder, text, settings
        count = settings["shards"]
        self.files = [folder / f"train-{i:05}-of-{count:05}.tfrecord" for i in range(count)]
        self.blocks_done, self.digest = 0, _NOTHING
        self.sizes = np.zeros(count, np.int64)
        nothing = np.zeros(0, np.int64)
        self.lengths = [PairLengths.count(nothing, nothing)] * count  # of each shard
        self.dropped, self.left_out = collections.Counter(), {}
        self.tokens = np.zeros(2, np.int64)
        self._digests = collections.deque()  # of the text up to each block that is under way
        shutil.rmtree(folder / BLOCKS, ignore_errors=True)
        (folder / BLOCKS).mkdir()
        progress = folder / PROGRESS
        if not progress.exists() or not read_progress(folder)["blocks"]:
            self._note(_NOTHING)
        self._restore(read_progress(folder))

    @property
    def pairs(self) -> int:
        return int(sum(table.pairs.sum() for table in self.lengths))

    def _restore(self, done: dict) -> None:
        self.blocks_done, self.digest = done["blocks"], done["digest"]
        self.sizes[:], self.tokens[:] = done["sizes"], done["tokens"]
        self.dropped.update(done["dropped"])
        self.lengths = [PairLengths(*map(np.array, table)) for table in done["lengths"]]
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
        for number, (block, so_far) in enumerate(
            digested_blocks(self.text, cleaning, self.left_out)
        ):
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
        for path in (*self.files, self.folder / PROGRESS, self.folder / ".lock"):
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
        for shard in np.unique(block.shard):
            its = block.shard == shard
            new = PairLengths.count(block.source[its], block.target[its])
            self.lengths[shard] = PairLengths.join([self.lengths[shard], new])
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
        write_bytes(self.folder / PROGRESS, json.dumps(done).encode())

    def _tables(self) -> list:
        """Of each shard its `PairLengths`, ready for JSON."""
        return [[side.tolist() for side in table] for table in self.lengths]

    def finish(self) -> None:
        """Writes the index, which says that the corpus is whole."""
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
                "pairs": sum(table[0]),
                "lengths": table,
            }
            for path, size, table in zip(self.files, self.sizes, self._tables(), strict=True)
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
        (self.folder / PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.folder / BLOCKS)
