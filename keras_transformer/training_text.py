"""From text to batches, the first half of a job: vocabulary, ids, batches."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.cleaning import clean_pairs
from keras_transformer.data.corpus import PairStream
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import PreparedPairs
from keras_transformer.data.texts import Texts
from keras_transformer.run_directory import RunConfig
from keras_transformer.text.vocabulary import Vocabularies

_PAPERS_TOKENS = 25_000  # a side, an update (section 5.1)
_NEWS_PAIRS = 1_000_000  # prepared between lines of news

Say = Callable[[str], None]


def find_vocabularies(
    config: RunConfig, folder: pathlib.Path, texts: Texts, say: Say
) -> Vocabularies:
    """A run's vocabulary: its own, the one it is told to take, or one learnt from its text.

    Args:
        config: The settings; the model's vocabulary sizes are those to learn.
        folder: Where the run keeps its vocabulary.
        texts: The text of the run.
        say: Called with news.

    Raises:
        ValueError: The one that is there is not as the settings say, or none can be learnt.
    """
    data, model = config.data, config.model
    begun = prepared_folder(folder.parent) / "vocab"  # by a run that was stopped while it prepared
    given, place = None, data.vocab
    if data.prepared is not None:
        place = pathlib.Path(data.prepared) / "vocab"
        given = PreparedPairs(data.prepared).vocabularies
    elif place is None and data.stream and (begun / "vocab.json").exists():
        place = begun
    if given is None and place is not None:
        given = Vocabularies.load(place)
    if (folder / "vocab.json").exists():
        found = _checked(Vocabularies.load(folder), folder, config)
        if given is not None and given.fingerprint != found.fingerprint:
            raise ValueError(
                f"The run's vocabulary, {folder}, is another than {place}. Give another run "
                "directory, or the text that belongs to the run."
            )
        return found
    if given is not None:
        return _checked(given, place, config)
    train, sample = texts.train, data.vocab_sample_
    if data.stream:
        cleaned = PairStream(
            train.name, lambda: clean_pairs(train, data, {}), is_lasting=train.is_lasting
        )
        columns, lines = cleaned.columns(), f"at most {sample:,} lines a side"
    else:
        columns = train.source, train.target
        lines = f"{len(train) if sample is None else min(sample, len(train))} pairs"
    say(f"Learning a vocabulary of {model.vocab_size} from {lines} ...")
    return Vocabularies.learn(
        *columns,
        data.vocab_kind,
        model.vocab_size,
        data.shared_vocab,
        config.training.seed,
        sample,
        target_vocab_size=model.target_vocab_size,
    )


def prepared_folder(run_dir: pathlib.Path) -> pathlib.Path:
    """Where a run keeps what it prepares of a text that is streamed."""
    return run_dir / "prepared"


def complete(config: RunConfig, vocabularies: Vocabularies) -> RunConfig:
    """The settings with the vocabulary's own sizes."""
    sizes = {"vocab_size": vocabularies.source.vocab_size}
    sizes["target_vocab_size"] = None if vocabularies.shared else vocabularies.target.vocab_size
    return dataclasses.replace(config, model=config.model.replace(**sizes))


def make_batches(
    config: RunConfig, texts: Texts, vocabularies: Vocabularies, folder: pathlib.Path, say: Say
) -> TokenBatches:
    """The training batches of a run.

    Args:
        config: The settings.
        texts: The text of the run.
        vocabularies: Its vocabularies.
        folder: Where a text that is streamed is prepared, unless it is there already.
        say: Called with news.

    Raises:
        ValueError: The text, or what was prepared, does not go with the settings.
    """
    data, training = config.data, config.training
    if data.prepared is not None:
        pairs = PreparedPairs(data.prepared)
        longest = int(pairs.lengths.pairs.nonzero()[0][-1])
        if longest > training.max_length:
            raise ValueError(
                f"{data.prepared} has pairs of {longest} tokens, and training leaves out what is "
                f"longer than training.max_length={training.max_length}. Raise that, or prepare "
                "the text with a lower --max-length."
            )
    elif data.stream:
        say(f"Tokenising {texts.train.name} to {folder} ...")
        pairs = prepare(
            texts.train,
            vocabularies,
            folder,
            data,
            training.max_length,
            seed=training.seed,
            processes=None,
            on_pairs=_news(say),
        )
    else:
        pairs = encode_pairs(texts.train, vocabularies, training.max_length)
        pairs = dataclasses.replace(pairs, left_out=texts.left_out)
    return TokenBatches(pairs, training.batch_tokens, training.num_buckets, training.seed)


def describe(config: RunConfig, batches: TokenBatches, say: Say) -> None:
    """Says what is trained on, and warns of batches too small for the model."""
    tokens, width, pairs = config.training.batch_tokens, config.model.d_model, batches.pairs
    for name, count in pairs.left_out.items():
        say(f"{name}: {count:,} training pairs left out.")
    if width >= 512 and tokens < _PAPERS_TOKENS / 3:
        say(
            f"Warning: a model as wide as the paper's ({width}) with {tokens} tokens a batch, "
            f"where the paper has {_PAPERS_TOKENS}: its learning rate may be too high. "
            "Raise training.batch_tokens, and let training.device_tokens bound the memory."
        )
    dropped = "".join(f", {n} left out as {why}" for why, n in pairs.dropped.items())
    say(f"Training text: {pairs.name}: {len(pairs)} pairs{dropped}.")
    say(
        f"{batches.shapes.total()} batches an epoch in {len(batches.buckets)} shapes, "
        f"{batches.padding():.1%} of the positions padding."
    )


def _checked(found: Vocabularies, folder, config: RunConfig) -> Vocabularies:
    data, model = config.data, config.model
    asked = (data.vocab_kind, data.shared_vocab, model.vocab_size, model.target_vocab_size_)
    there = (found.source.kind, found.shared, found.source.vocab_size, found.target.vocab_size)
    if asked != there:
        raise ValueError(
            f"The vocabulary in {folder} (kind, shared, source and target "
            f"size: {there}) is not the one asked for {asked}. Its settings are "
            f"{settings_of(found)}: give these, or another run directory or vocabulary."
        )
    return found


def settings_of(vocabularies: Vocabularies) -> str:
    """The trainer's flags that go with a vocabulary."""
    flags = [f"--set model.vocab_size={vocabularies.source.vocab_size}"]
    if not vocabularies.shared:
        flags.append(f"--set model.target_vocab_size={vocabularies.target.vocab_size}")
        flags.append("--set data.shared_vocab=false --set model.tie_embeddings=target")
    if vocabularies.source.kind != "bpe":
        flags.append(f"--vocab-kind {vocabularies.source.kind}")
    return " ".join(flags)


def _news(say: Say) -> Callable[[int], None]:
    """Says how many pairs are read, once a million."""
    said = 0

    def on_pairs(count: int) -> None:
        nonlocal said
        if count >= said + _NEWS_PAIRS:
            said = count // _NEWS_PAIRS * _NEWS_PAIRS
            say(f"{count:,} pairs ...")

    return on_pairs
