"""The text of a run, from wherever its settings say."""

from __future__ import annotations

import dataclasses

from keras_transformer.config import DataConfig
from keras_transformer.data.cleaning import clean
from keras_transformer.data.corpus import ParallelText, read_parallel_files, read_tsv
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.data.tfds import load_tfds


@dataclasses.dataclass(frozen=True)
class Texts:
    """The text of a run; validation and test may be missing."""

    train: ParallelText
    valid: ParallelText | None
    test: ParallelText | None
    left_out: dict[str, int]  # training pairs by cleaning, by the filter's name


def load_texts(data: DataConfig) -> Texts:
    """Reads the files, the TFDS dataset or the built-in demo corpus that `data` names.

    Raises:
        ValueError: A text cannot be had, or is unfit.
    """
    if data.dataset is not None:
        parts = []
        for split, file in (
            ("train", None),
            ("validation", data.valid_source),
            ("test", data.test_source),
        ):
            wanted = (data.dataset, data.source, data.target, split, data.data_dir)
            parts.append(None if file else load_tfds(*wanted, required=split == "train"))
    elif data.train_source is not None or data.train_tsv is not None:
        if data.train_tsv is not None:
            parts = [read_tsv(data.train_tsv), None, None]
        else:
            parts = [read_parallel_files(data.train_source, data.train_target), None, None]
    else:
        corpus = make_demo_corpus()
        parts = [
            ParallelText(*getattr(corpus, split), name=f"the synthetic demo corpus, {split}")
            for split in ("train", "valid", "test")
        ]
    if data.valid_source is not None:
        parts[1] = read_parallel_files(data.valid_source, data.valid_target)
    if data.test_source is not None:
        parts[2] = read_parallel_files(data.test_source, data.test_target)
    train, left_out = clean(parts[0], data)
    return Texts(train, *parts[1:], left_out)
