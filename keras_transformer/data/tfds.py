"""Translation datasets of TensorFlow Datasets, by name (paper section 5.1: WMT 2014)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from keras_transformer.data.corpus import PairStream, ParallelText

_BATCH = 1000  # pairs read at a time


def stream_tfds(
    name: str, source: str, target: str, split: str, data_dir=None, required: bool = True
) -> PairStream | None:
    """Sentence pairs of a TFDS translation dataset; downloads and prepares it where it is not.

    Args:
        name: Such as "wmt14_translate/de-en" or "ted_hrlr_translate/pt_to_en".
        source: Language to translate from, as the dataset names it ("en").
        target: Language to translate to ("de").
        split: Such as "train", "validation" or "test[:500]".
        data_dir: Where TFDS keeps its data; its own default if None.
        required: Whether a missing split is an error; None is returned otherwise.

    Returns:
        The pairs, line breaks inside a sentence replaced by spaces.

    Raises:
        ValueError: The dataset, a language or the split is unknown, or it could not be downloaded.

    Example:
        >>> for source, target in stream_tfds("wmt14_translate/de-en", "en", "de", "train"):
        ...     ...
    """
    import tensorflow_datasets as tfds  # takes seconds to import, and only this needs it

    from keras_transformer.data import multi30k  # noqa: F401 (TFDS knows it by its import)

    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError, KeyError) as error:
        raise ValueError(_what_there_is(name, error)) from error
    languages = list(getattr(builder.info.features, "keys", dict)())
    missing = [language for language in (source, target) if language not in languages]
    if missing:
        raise ValueError(
            f"Dataset {name!r} holds the languages {', '.join(languages)}. "
            f"Received: source={source!r}, target={target!r}."
        )
    try:
        builder.download_and_prepare()
    except Exception as error:  # TFDS raises whatever its network and file layers raise
        raise ValueError(
            f"Dataset {name!r} could not be downloaded and prepared in {builder.data_dir}: "
            f"{type(error).__name__}: {error}. Check the network and the disk, or place what could "
            f"not be downloaded in {_downloads(builder)} by hand, by its name there."
        ) from error
    splits = builder.info.splits
    if split.split("[")[0] not in splits:
        if not required:
            return None
        raise ValueError(
            f"Dataset {name!r} has the splits {', '.join(splits)}. Received: split={split!r}."
        )
    return PairStream(
        f"{name} {split}",
        lambda: _iter_pairs(builder, split, source, target),
        str(builder.info.full_name),
    )


def load_tfds(
    name: str, source: str, target: str, split: str, data_dir=None, required: bool = True
) -> ParallelText | None:
    """As `stream_tfds`, all pairs in memory.

    Example:
        >>> pairs = load_tfds("wmt14_translate/de-en", "en", "de", "validation")
    """
    stream = stream_tfds(name, source, target, split, data_dir, required)
    return None if stream is None else stream.collect()


def _iter_pairs(builder, split: str, *languages: str) -> Iterator[tuple[str, str]]:
    import tensorflow_datasets as tfds

    for batch in tfds.as_numpy(builder.as_dataset(split=split, batch_size=_BATCH)):
        for pair in zip(*(batch[language].tolist() for language in languages), strict=True):
            yield tuple(line.decode("utf-8").replace("\n", " ") for line in pair)


def _what_there_is(name: str, error: Exception) -> str:
    import tensorflow_datasets as tfds

    dataset, _, received = name.partition("/")
    try:
        configurations = list(tfds.builder_cls(dataset).builder_configs)
    except (tfds.core.DatasetNotFoundError, ValueError, KeyError):
        configurations = []
    if configurations and received:
        return (
            f"Dataset {dataset!r} comes as {', '.join(configurations)}; which way it is translated "
            f"is for --source and --target to say. Received: {received!r}."
        )
    return (
        f"TFDS has no dataset {name!r}. Expected a name such as 'wmt14_translate/de-en'. "
        f"TFDS says: {str(error).strip().splitlines()[0]}"
    )


def _downloads(builder) -> pathlib.Path:
    """Where TFDS keeps what it downloads, for a builder's data folder DATA/NAME/CONFIG/VERSION."""
    levels = 3 if builder.builder_config else 2
    downloads = pathlib.Path(builder.data_dir).parents[levels - 1] / "downloads"
    return downloads / ("manual" if builder.name == "multi30k" else builder.name)
