"""Text in, text out: tokenise, search, detokenise."""

from __future__ import annotations

import functools
import typing
import warnings

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, DecodingConfig
from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.ensemble import EnsembleDecoder
from keras_transformer.decoding.hypotheses import Hypotheses
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.room import GROWING, Room
from keras_transformer.decoding.sampling import greedy_search, sample
from keras_transformer.decoding.scoring import score_pairs
from keras_transformer.text.vocabulary import Vocabularies


class Translation(typing.NamedTuple):
    """A translation and its score, the penalised log probability."""

    text: str
    score: float


class TranslationGraph(tf.Module):
    """The whole way from strings to strings as TensorFlow operations.

    Args:
        models: One from `build_transformer`, or a list for an ensemble.
        vocabularies: They were trained with.
        max_source_length: Tokens that a source is cut to, end mark included.
    """

    def __init__(self, models, vocabularies: Vocabularies, max_source_length: int):
        super().__init__(name="translation_graph")
        models = list(models) if isinstance(models, (list, tuple)) else [models]
        self.max_source_length = max_source_length
        self.source_tokenizer, self.target_tokenizer = vocabularies.source, vocabularies.target
        # Hidden from an export, which keeps the weights itself and would trace the models again.
        decoders = [IncrementalDecoder(model) for model in models]
        decoder = EnsembleDecoder(decoders) if len(models) > 1 else decoders[0]
        self._untracked = lambda: (models, decoder)

    @property
    def models(self) -> list[keras.Model]:
        return self._untracked()[0]

    def source_ids(self, source) -> tf.Tensor:
        """int32 `[batch, length]` ids of string `[batch]`, with end marks, cut to the limit.

        Blanks alone are nothing to translate, and count as an empty line.
        """
        source = tf.where(tf.strings.regex_full_match(source, r"[\s\p{Z}]*"), "", source)
        ids = self.source_tokenizer.tokenize(source)[:, : self.max_source_length - 1]
        return _with_end(ids).to_tensor()

    def prefix_ids(self, prefix) -> tf.Tensor:
        """int32 `[batch, length]` ids of string `[batch]`, 0 where they pad, without marks."""
        return self.target_tokenizer.tokenize(prefix).to_tensor()

    def lay_out(self) -> list[tf.Variable]:
        """See `IncrementalDecoder.lay_out`."""
        return self._untracked()[1].lay_out()

    def source_lengths(self, source) -> tf.Tensor:
        """int64 `[batch]`: tokens of string `[batch]`, end mark included, before they are cut."""
        return self.source_tokenizer.tokenize(source).row_lengths() + 1

    def search(
        self, source_ids, config, n_best=1, prefix_ids=None, seed=None, room: Room = GROWING
    ) -> Hypotheses:
        """What the options say, of int32 `[batch, source_length]` ids: greedy, beam or drawn."""
        decoder = self._untracked()[1]
        if config.temperature:
            return sample(decoder, source_ids, config, n_best, prefix_ids, room, seed)
        if config.beam_size == n_best == 1:
            return greedy_search(decoder, source_ids, config, prefix_ids, room)
        return beam_search(decoder, source_ids, config, n_best, prefix_ids, room)

    def texts(self, found: Hypotheses):
        """string `[batch, n_best]` of a search's results."""
        batch, n_best, length = tf.unstack(tf.shape(found.ids))
        rows = tf.reshape(found.ids, (batch * n_best, length))
        ids = tf.RaggedTensor.from_tensor(rows, tf.reshape(found.lengths, (-1,)))
        # A vocabulary of bytes can spell a line feed; a translation is one line.
        texts = tf.strings.regex_replace(self.target_tokenizer.detokenize(ids), r"\n", " ")
        return tf.reshape(texts, (batch, n_best))

    def translate(self, source, config, n_best=1, prefix=None, seed=None):
        """string `[batch]` to string and float32 `[batch, n_best]`, best first.

        Args:
            source: string `[batch]`.
            config: The search options.
            n_best: Results a sentence.
            prefix: string `[batch]`, what each result begins with, or None.
            seed: int32 scalar, of drawing; `config.seed` by default.
        """
        prefix_ids = None if prefix is None else self.prefix_ids(prefix)
        found = self.search(self.source_ids(source), config, n_best, prefix_ids, seed)
        return self.texts(found), found.scores

    def score(self, source, target):
        """float32 `[batch]`: log P of string `[batch]` targets, end mark included."""
        target_ids = self.target_tokenizer.tokenize(target)
        begin = tf.fill((target_ids.nrows(), 1), BEGIN_ID)
        return score_pairs(
            self._untracked()[0],
            self.source_ids(source),
            tf.concat([begin, target_ids], axis=1).to_tensor(),
            _with_end(target_ids).to_tensor(),
        )


def _with_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    return tf.concat([ids, tf.fill((ids.nrows(), 1), END_ID)], axis=1)


class GraphBackend:
    """Runs a `TranslationGraph`, traced once for each combination of options."""

    def __init__(self, graph: TranslationGraph):
        self._graph = graph
        self.score, self.source_lengths = (
            tf.function(function, autograph=False, reduce_retracing=True)
            for function in (graph.score, graph.source_lengths)
        )
        self._compiled = functools.cache(self._compile)

    def check(self, config: DecodingConfig, n_best: int, has_prefixes: bool) -> None:
        """All options are possible."""

    def translate(self, source, config: DecodingConfig, n_best: int, prefix=None):
        """As `TranslationGraph.translate`."""
        # The seed is an input, and the batch is made outside: neither is a reason to trace again.
        options = config.replace(seed=0, batch_size=1)
        seed = tf.constant(config.seed)
        if prefix is None:
            return self._compiled(options, n_best, False)(source, seed)
        return self._compiled(options, n_best, True)(source, seed, prefix)

    def _compile(self, config, n_best, has_prefix):
        def translate(source, seed, prefix=None):
            return self._graph.translate(source, config, n_best, prefix, seed)

        signature = [tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int32)]
        signature += [tf.TensorSpec([None], tf.string)] * has_prefix
        return tf.function(translate, autograph=False, input_signature=signature)


class CompiledBackend(GraphBackend):
    """The same, with the search compiled by XLA: for each of a few shapes once.

    Batches are padded to a power of two of sentences and a multiple of 16 tokens.
    """

    def __init__(self, graph: TranslationGraph):
        super().__init__(graph)
        self._source_ids, self._prefix_ids, self._texts = (
            tf.function(function, autograph=False, reduce_retracing=True)
            for function in (graph.source_ids, graph.prefix_ids, graph.texts)
        )

    def translate(self, source, config: DecodingConfig, n_best: int, prefix=None):
        options = config.replace(seed=0, batch_size=1)
        inputs = [_padded(self._source_ids(source)), tf.constant(config.seed)]
        if prefix is not None:
            inputs.append(_padded(self._prefix_ids(prefix)))
        found = self._compiled(options, n_best, prefix is not None)(*inputs)
        found = Hypotheses(*(part[: len(source)] for part in found))
        return self._texts(found), found.scores

    def _compile(self, config, n_best, has_prefix):
        def search(source_ids, seed, prefix_ids=None):
            steps = source_ids.shape[1] + config.extra_length
            steps = min(steps, config.max_length or steps)
            if prefix_ids is not None:
                steps = max(steps, prefix_ids.shape[1])
            return self._graph.search(
                source_ids, config, n_best, prefix_ids, seed, Room(steps)
            )

        return tf.function(search, autograph=False, jit_compile=True)


def _padded(ids):
    """int32 `[batch, length]` ids in one of a few shapes."""
    batch, length = ids.shape
    rows = 1 << (batch - 1).bit_length() if batch else 1
    return tf.pad(ids, ((0, rows - batch), (0, -length % 16)))


class Translator:
    """Translates lists of lines, of any number and length, in their order.

    Made by `Translator.from_run`, by `from_model`, or from an export by `keras_transformer.load`.

    Args:
        backend: What computes: `translate(source, config, n_best, prefix)`,
            `score(source, target)` and `source_lengths(source)` of string `[batch]`; and
            `check(config, n_best, has_prefixes)`, which raises ValueError for what it cannot.
        config: The options in force where a call gives none.

    Example:
        >>> translator = Translator.from_run("runs/demo")
        >>> translator(["A man rides a horse."])
        ['Ein Mann reitet ein Pferd.']
    """

    def __init__(self, backend, config: DecodingConfig):
        self._backend, self.config = backend, config

    @classmethod
    def from_model(
        cls,
        model: keras.Model | list[keras.Model],
        vocabularies: Vocabularies,
        config: DecodingConfig | None = None,
        jit_compile: bool = False,
    ) -> Translator:
        """A translator around a Keras model, whose weights may go on changing.

        Args:
            model: From `build_transformer`, or several, whose probabilities are averaged.
            vocabularies: They were trained with.
            config: The search options.
            jit_compile: Whether XLA compiles the search: quicker once it has, which takes its time.
        """
        config = config or DecodingConfig()
        graph = TranslationGraph(model, vocabularies, config.max_source_length)
        return cls((CompiledBackend if jit_compile else GraphBackend)(graph), config)

    @classmethod
    def from_run(
        cls, run_dir, checkpoint: str | int | list = "average", jit_compile: bool = False
    ) -> Translator:
        """A translator of a run directory that `trainers/train_wmt.py` made.

        Args:
            run_dir: The directory, or a list of several for an ensemble.
            checkpoint: "average" of the last ones, "best", "last", or a step's number; a list of
                these for an ensemble of several of one run, or one for each run.
            jit_compile: See `from_model`.

        Raises:
            ValueError: A run or checkpoint is not there, or their vocabularies differ.
        """
        from keras_transformer.run_directory import load_runs  # it stands on training; we do not

        return cls.from_model(*load_runs(run_dir, checkpoint), jit_compile=jit_compile)

    def __call__(
        self, lines: list[str], n_best: int = 1, prefixes: list[str] | None = None, **options
    ) -> list[str] | list[list[str]]:
        """The translations of `lines`, in their order; an empty or blank line gives an empty one.

        Args:
            lines: Sentences, without line ends. What is longer than `max_source_length` tokens is
                cut, with a warning.
            n_best: With more than 1, each line gives a list of so many translations.
            prefixes: What each translation begins with, one a line; "" for nothing.
            **options: Fields of `DecodingConfig` to replace, such as `beam_size=1, alpha=1.0`.

        Raises:
            ValueError: An option is unknown or out of range.
        """
        found = self.translations(lines, n_best, prefixes, **options)
        texts = [[translation.text for translation in one] for one in found]
        return texts if n_best > 1 else [one[0] for one in texts]

    def translations(self, lines, n_best=1, prefixes=None, **options) -> list[list[Translation]]:
        """As `__call__`, with scores, always as lists."""
        config = self.config.replace(**options)
        if config.max_source_length != self.config.max_source_length:
            raise ValueError("max_source_length is the model's to say: make another Translator.")
        _check_lines("lines", lines)
        if prefixes is not None:
            _check_lines("prefixes", prefixes, len(lines))
        most = max(n_best, 1) if config.temperature else config.beam_size
        if not isinstance(n_best, int) or not 1 <= n_best <= most:
            raise ValueError(
                f"`n_best` should be at least 1 and at most beam_size={most}. Received: "
                f"n_best={n_best}. Raise beam_size to get more."
            )
        self._backend.check(config, n_best, prefixes is not None)
        self._warn_of_cut(lines)
        results: list[list[Translation]] = [[]] * len(lines)
        for indices, *batch in self._batches(config.batch_size, lines, prefixes):
            texts, scores = self._backend.translate(batch[0], config, n_best, *batch[1:])
            for i, row, row_scores in zip(indices, texts.numpy(), scores.numpy(), strict=True):
                results[i] = [
                    Translation(text.decode("utf-8", "replace"), float(score))
                    for text, score in zip(row, row_scores, strict=True)
                ]
        return results

    def score(self, lines: list[str], targets: list[str]) -> list[float]:
        """Log probability of each target given its line, in nats, end mark included."""
        _check_lines("lines", lines)
        _check_lines("targets", targets, len(lines))
        results = [0.0] * len(lines)
        for indices, *batch in self._batches(self.config.batch_size, lines, targets):
            for i, score in zip(indices, self._backend.score(*batch).numpy(), strict=True):
                results[i] = float(score)
        return results

    def _batches(self, batch_size, lines, others):
        """Index arrays and string tensors: sentences of like length together."""
        # The longest first: it shows at once what fits into memory.
        order = np.argsort([-len(line) for line in lines], kind="stable")
        for start in range(0, len(lines), batch_size):
            indices = order[start : start + batch_size]
            texts = [lines] if others is None else [lines, others]
            yield indices, *(_strings([text[i] for i in indices]) for text in texts)

    def _warn_of_cut(self, lines) -> None:
        limit = self.config.max_source_length
        # A token is a byte at least, two are marks, and NFC may make three bytes of one.
        suspects = [line for line in lines if 3 * len(line.encode("utf-8", "replace")) + 2 > limit]
        if not suspects:
            return
        lengths = self._backend.source_lengths(_strings(suspects)).numpy()
        cut = [line for line, length in zip(suspects, lengths, strict=True) if length > limit]
        if cut:
            warnings.warn(
                f"{len(cut)} of {len(lines)} lines have more than max_source_length={limit} tokens "
                f"and are cut there. The first begins: {cut[0][:40]!r}.",
                stacklevel=3,
            )


def _strings(lines: list[str]) -> tf.Tensor:
    """string `[batch]`; a lone surrogate, which is no text, becomes "?"."""
    return tf.constant([line.encode("utf-8", "replace") for line in lines])


def _check_lines(name: str, lines, expected: int | None = None) -> None:
    if isinstance(lines, str):
        raise ValueError(
            f"`{name}` should be a list of sentences. Received one string; give [string]."
        )
    if not isinstance(lines, (list, tuple)):
        raise ValueError(f"`{name}` should be a list of sentences. Received: {lines!r}.")
    for i, line in enumerate(lines):
        if not isinstance(line, str):
            raise ValueError(f"`{name}` should hold strings. Received: {name}[{i}]={line!r}.")
    if expected is not None and len(lines) != expected:
        raise ValueError(f"`{name}` should be {expected}, one a line. Received: {len(lines)}.")
