"""The text of a run, from wherever its settings say."""

from __future__ import annotations

import dataclasses
import functools

from keras_transformer.config import DataConfig
from keras_transformer.data.cleaning import clean
from keras_transformer.data.corpus import (
    PairStream,
    ParallelText,
    read_parallel_files,
    stream_parallel_files,
    stream_tsv,
)
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.data.tfds import load_tfds, stream_tfds

_demo_corpus = functools.cache(make_demo_corpus)


@dataclasses.dataclass(frozen=True)
class Texts:
    """The text of a run; validation and test may be missing.

    With `data.prepared` there is no training text (it was tokenised before), and with `data.stream`
    it is neither in memory nor cleaned yet.
    """

    train: ParallelText | PairStream | None
    valid: ParallelText | None
    test: ParallelText | None
    left_out: dict[str, int]  # training pairs by cleaning, by the filter's name


def load_texts(data: DataConfig) -> Texts:
    """Reads the files, the TFDS dataset or the built-in demo corpus that `data` names.

    Raises:
        ValueError: A text cannot be had, or is unfit.
    """
    train, left_out = None, {}
    if data.prepared is None:
        train = training_stream(data)
        if not data.stream:
            train, left_out = clean(train.collect(), data)
    return Texts(train, _held_out(data, "valid"), _held_out(data, "test"), left_out)


def training_stream(data: DataConfig) -> PairStream:
    """The training text, not cleaned, to be read as it is needed.

    Raises:
        ValueError: It cannot be had.
    """
    if data.dataset is not None:
        return stream_tfds(data.dataset, data.source, data.target, "train", data.data_dir)
    if data.train_tsv is not None:
        return stream_tsv(data.train_tsv)
    if data.train_source is not None:
        return stream_parallel_files([data.train_source], [data.train_target])
    text = _demo("train")
    return PairStream(text.name, lambda: iter(text))


def _held_out(data: DataConfig, part: str) -> ParallelText | None:
    """The "valid" or "test" text."""
    source, target = getattr(data, f"{part}_source"), getattr(data, f"{part}_target")
    if source is not None:
        return read_parallel_files(source, target)
    if data.dataset is not None:
        split = {"valid": "validation", "test": "test"}[part]
        wanted = (data.dataset, data.source, data.target, split, data.data_dir)
        return load_tfds(*wanted, required=False)
    return _demo(part) if data.is_demo else None


def _demo(split: str) -> ParallelText:
    columns = getattr(_demo_corpus(), split)
    return ParallelText(*columns, name=f"the synthetic demo corpus, {split}")
