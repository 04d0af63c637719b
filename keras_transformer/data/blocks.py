"""Blocks of a corpus, tokenised to records in several processes; see `prepare.py`."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_transformer.data.encoding import encode_lines, fitting_pairs
from keras_transformer.text.vocabulary import Vocabularies

BLOCK_PAIRS = 20_000
BLOCKS = ".blocks"  # the folder of those that are not added to the shards yet


@dataclasses.dataclass(frozen=True)
class Block:
    """A tokenised block.

    Attributes:
        file: Its records, those of the first shard first.
        sizes: int64 `[shards]`, the bytes of each shard's.
        shard, source, target: int64 `[pairs]`, of each pair that fits its shard and its lengths.
        dropped: How many pairs do not fit, by reason.
    """

    file: pathlib.Path
    sizes: np.ndarray
    shard: np.ndarray
    source: np.ndarray
    target: np.ndarray
    dropped: dict[str, int]


@dataclasses.dataclass(frozen=True)
class BlockEncoder:
    """Tokenises blocks, in whatever process.

    Attributes:
        folder: The corpus's, with the vocabulary, of that fingerprint.
        max_length, shards, seed: See `prepare`.
    """

    folder: pathlib.Path
    fingerprint: str
    max_length: int
    shards: int
    seed: int

    def __call__(self, number: int, pairs: list[tuple[str, str]]) -> Block:
        vocabularies = _load_vocabularies(self.folder / "vocab", self.fingerprint)
        lines, others = map(list, zip(*pairs, strict=True))
        source = encode_lines(lines, vocabularies.source)
        target = encode_lines(others, vocabularies.target)
        keep, dropped = fitting_pairs(source, target, self.max_length)
        shard = np.random.default_rng([self.seed, number]).integers(self.shards, size=len(pairs))
        keep = keep[np.argsort(shard[keep], kind="stable")]
        sizes = np.zeros(self.shards, np.int64)
        path = self.folder / BLOCKS / f"{number:08}"
        # Of lists, which protocol buffers take faster than arrays.
        columns = [(side.flat.tolist(), side.starts.tolist()) for side in (source, target)]
        with tf.io.TFRecordWriter(str(path)) as file:
            for i in keep.tolist():
                record = _example(*(ids[starts[i] : starts[i + 1]] for ids, starts in columns))
                file.write(record)
                sizes[shard[i]] += len(record) + 16  # its length and two check sums
        lengths = (side.lengths[keep] + 1 for side in (source, target))
        return Block(path, sizes, shard[keep], *lengths, dropped)


@functools.lru_cache(maxsize=1)
def _load_vocabularies(folder: pathlib.Path, fingerprint: str) -> Vocabularies:
    """Once a process, and again where the folder holds another by now."""
    vocabularies = Vocabularies.load(folder)
    if vocabularies.fingerprint != fingerprint:
        raise ValueError(f"{folder} was replaced by another vocabulary. Call the same again.")
    return vocabularies


def _example(source: list[int], target: list[int]) -> bytes:
    example = tf.train.Example()
    features = example.features.feature
    features["source"].int64_list.value.extend(source)
    features["target"].int64_list.value.extend(target)
    return example.SerializeToString(deterministic=True)


def encode_all(encoder: BlockEncoder, blocks: Iterator, processes: int) -> Iterator[Block]:
    """Tokenises numbered blocks in several processes; they come back in their order."""
    first = list(itertools.islice(blocks, 2))
    if processes == 1 or len(first) < 2:  # a process takes seconds to start
        yield from itertools.starmap(encoder, itertools.chain(first, blocks))
        return
    spawn = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    pool = concurrent.futures.ProcessPoolExecutor(processes, spawn, _start_process, [os.getpid()])
    under_way: collections.deque = collections.deque()
    try:
        for block in itertools.chain(first, blocks):
            with _interrupts_held():  # Ctrl-C is for this process to answer, from the start
                under_way.append(pool.submit(encoder, *block))
            if len(under_way) > 2 * processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except concurrent.futures.process.BrokenProcessPool as error:
        raise OSError(
            "a process that tokenised was killed (for want of memory?), or could not start; the "
            "same call again goes on from where it was"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """SIGINT waits meanwhile; a process that is started then never gets one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_process(parent: int) -> None:
    tf.config.set_visible_devices([], "GPU")  # whose memory is for training
    threading.Thread(target=_leave_with, args=[parent], daemon=True).start()


def _leave_with(parent: int) -> None:
    """Ends this process once the one that started it is gone, be it by kill -9."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
