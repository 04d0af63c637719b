"""Tokenising a corpus once, to shards on disk; `prepared.py` reads them and says what they hold.

The corpus is read in blocks of lines, which several processes tokenise. A block's pairs are dealt
out to the shards at random, and after each block what was done is noted: stopped at any moment, the
same call goes on from there, and the shards are the same, byte for byte, as without a stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Callable

from keras_transformer.config import DataConfig
from keras_transformer.data.blocks import BLOCK_PAIRS, BlockEncoder, encode_all
from keras_transformer.data.corpus import PairStream
from keras_transformer.data.prepared import INDEX, PreparedPairs
from keras_transformer.data.shards import PROGRESS, ShardWriter, digested_blocks, read_progress
from keras_transformer.files import locked
from keras_transformer.machine import cores
from keras_transformer.text.vocabulary import Vocabularies


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
        ("shards", shards, 1, 10_000),
        ("processes", processes, 1, 1000),
        ("max_length", max_length, 2, 10_000),
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
        "block_pairs": BLOCK_PAIRS,
    }
    _check_folder(to, settings)  # before a lock is put into what may be another's
    with locked(to):
        found = _check_folder(to, settings)
        if found is not None:
            _check_same_text(text, cleaning, found)
            _keep_vocabulary(to / "vocab", vocabularies)
            return found
        writer = ShardWriter(to, text, settings)
        _keep_vocabulary(to / "vocab", vocabularies)  # after the note that makes the folder ours
        encoder = BlockEncoder(to, vocabularies.fingerprint, max_length, shards, seed)
        try:
            writer.write(encode_all(encoder, writer.blocks(cleaning, on_pairs), processes))
            writer.finish()
        except ValueError:
            if not writer.pairs:  # no good work is lost, and what is mended begins anew
                writer.discard()
            raise
    return PreparedPairs(to)


def _keep_vocabulary(folder: pathlib.Path, vocabularies: Vocabularies) -> None:
    """Writes it, unless it is there."""
    with contextlib.suppress(ValueError):
        if Vocabularies.load(folder).fingerprint == vocabularies.fingerprint:
            return
    vocabularies.save(folder)


def _check_same_text(text: PairStream, cleaning: DataConfig, found: PreparedPairs) -> None:
    """Raises ValueError where a folder that is finished holds another text."""
    if text.version is not None and text.version == found.version:
        return
    digest = None
    for _, digest in digested_blocks(text, cleaning, {}):  # noqa: B007 (the last one counts)
        pass
    if digest != found.digest:
        raise ValueError(
            f"{found.folder} holds another text than {text.name} is now. Give another folder, or "
            "remove it."
        )


def _check_folder(folder: pathlib.Path, settings: dict) -> PreparedPairs | None:
    """The pairs where the folder holds them whole, None where it holds a beginning or nothing.

    Raises:
        ValueError: It holds something else.
    """
    found = None
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file where a folder is to be written. Give another name.")
    if (folder / INDEX).exists():
        found = PreparedPairs(folder)
        there = found.settings
    elif (folder / PROGRESS).exists():
        done = read_progress(folder)
        if not done["blocks"]:  # no more than begun
            return None
        there = done["settings"]
    elif any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ValueError(f"{folder} holds something else than a prepared corpus. Give a new one.")
    else:
        return None
    for name, value in json.loads(json.dumps(settings)).items():
        if there.get(name) != value:
            raise ValueError(
                f"{folder} holds a corpus prepared with another {name}: {there.get(name)!r} there "
                f"and {value!r} now. Give another folder, or remove it."
            )
    return found
