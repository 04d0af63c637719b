"""The way from strings to strings as TensorFlow operations, run as they are or compiled by XLA."""

from __future__ import annotations

import functools
import threading

import keras
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


class TranslationGraph(tf.Module):
    """The whole way from strings to strings as TensorFlow operations.

    Args:
        models: One from `build_transformer`, or a list for an ensemble.
        vocabularies: They were trained with.
        max_source_length: Tokens that a source is cut to, end mark included.

    Attributes:
        max_source_length: The same, or fewer where a model's learned positions end before.
    """

    def __init__(self, models, vocabularies: Vocabularies, max_source_length: int):
        super().__init__(name="translation_graph")
        models = list(models) if isinstance(models, (list, tuple)) else [models]
        self.source_tokenizer, self.target_tokenizer = vocabularies.source, vocabularies.target
        # Hidden from an export, which keeps the weights itself and would trace the models again.
        decoders = [IncrementalDecoder(model) for model in models]
        decoder = EnsembleDecoder(decoders) if len(models) > 1 else decoders[0]
        self._untracked = lambda: (models, decoder)
        # A model knows as many positions of sources as of targets.
        limits = max_source_length, decoder.max_positions
        self.max_source_length = min(limit for limit in limits if limit is not None)

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
        self, source_ids, config, n_best=1, prefix_ids=None, seed=None, room=GROWING
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
    """Runs a `TranslationGraph`, traced once for each combination of options, in any thread."""

    def __init__(self, graph: TranslationGraph):
        self._graph = graph
        self.score, self.source_lengths = (
            tf.function(function, autograph=False, reduce_retracing=True)
            for function in (graph.score, graph.source_lengths)
        )
        self._once, self._lock = functools.cache(self._traced), threading.Lock()

    def _search(self, *options):
        with self._lock:  # two threads would each make their own
            return self._once(*options)

    def check(self, config: DecodingConfig, n_best: int, has_prefixes: bool) -> None:
        """All options are possible."""

    def translate(self, source, config: DecodingConfig, n_best: int, prefix=None):
        """As `TranslationGraph.translate`."""
        # The seed is an input, and the batch is made outside: neither is a reason to trace again.
        options = config.replace(seed=0, batch_size=1)
        inputs = [source, tf.constant(config.seed)] + [prefix] * (prefix is not None)
        return self._search(options, n_best, len(inputs))(*inputs)

    def _traced(self, config, n_best, num_inputs):
        def translate(source, seed, prefix=None):
            return self._graph.translate(source, config, n_best, prefix, seed)

        text = tf.TensorSpec([None], tf.string)
        return _concrete(translate, [text, tf.TensorSpec([], tf.int32), text][:num_inputs])


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
        source_ids = _padded(self._source_ids(source))
        prefix_ids = None if prefix is None else _padded(self._prefix_ids(prefix))
        steps = source_ids.shape[1] + config.extra_length
        steps = min(steps, config.max_length or steps)
        if prefix is not None:  # a result holds its prefix at least
            steps = max(steps, prefix_ids.shape[1])
        options = config.replace(seed=0, batch_size=1)
        inputs = [source_ids, tf.constant(config.seed)] + [prefix_ids] * (prefix is not None)
        shapes = (tuple(tensor.shape) for tensor in inputs)
        found = self._search(options, n_best, steps, *shapes)(*inputs)
        found = Hypotheses(*(part[: len(source)] for part in found))
        return self._texts(found), found.scores

    def _traced(self, config, n_best, steps, *shapes):  # for each shape once
        def search(source_ids, seed, prefix_ids=None):
            return self._graph.search(source_ids, config, n_best, prefix_ids, seed, Room(steps))

        signature = [tf.TensorSpec(shape, tf.int32) for shape in shapes]
        return _concrete(search, signature, jit_compile=True)


def _concrete(function, signature, jit_compile=None):
    """A graph of `function`. (Of a `tf.function` for each shape TensorFlow warns as of a slip.)"""
    graph = tf.function(function, signature, autograph=False, jit_compile=jit_compile)
    return graph.get_concrete_function()


def _padded(ids):
    """int32 `[batch, length]` ids in one of a few shapes."""
    batch, length = ids.shape
    rows = 1 << (batch - 1).bit_length() if batch else 1
    return tf.pad(ids, ((0, rows - batch), (0, -length % 16)))
