"""Text in, text out: tokenise, search, detokenise."""

from __future__ import annotations

import typing
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, DecodingConfig
from keras_transformer.decoding.incremental import IncrementalDecoder, score_pairs
from keras_transformer.decoding.search import beam_search, check_search
from keras_transformer.text.vocabulary import Vocabularies


class Translation(typing.NamedTuple):
    """A translation and its score, the length-penalised log probability."""

    text: str
    score: float


class TranslationGraph(tf.Module):
    """The whole way from strings to strings as TensorFlow graph functions.

    Args:
        model: From `build_transformer`.
        vocabularies: It was trained with.
        config: How to search.
    """

    def __init__(self, model: keras.Model, vocabularies: Vocabularies, config: DecodingConfig):
        super().__init__(name="translation_graph")
        self.config = config
        self.source_tokenizer, self.target_tokenizer = vocabularies.source, vocabularies.target
        # An export tracks the variables and not the Keras model, which it would trace again.
        self.weights = [variable.value for variable in model.weights]
        self._untracked = lambda: (model, IncrementalDecoder(model))

    def source_ids(self, source) -> tf.Tensor:
        """int32 `[batch, length]` ids of string `[batch]`, with end marks, cut to the limit.

        Blanks alone are nothing to translate, and count as an empty line.
        """
        source = tf.where(tf.strings.regex_full_match(source, r"[\s\p{Z}]*"), "", source)
        ids = self.source_tokenizer.tokenize(source)[:, : self.config.max_source_length - 1]
        return _with_end(ids).to_tensor()

    @tf.function(autograph=False, reduce_retracing=True)
    def search(self, source_ids, beam_size, alpha, n_best):
        """`beam_search` of int32 `[batch, source_length]` ids; the options are Python numbers."""
        return beam_search(
            self._untracked()[1], source_ids, beam_size, alpha, self.config.extra_length, n_best
        )

    @tf.function(autograph=False, reduce_retracing=True)
    def translate(self, source, beam_size, alpha, n_best):
        """string `[batch]` to string and float32 `[batch, n_best]`, best first."""
        found = self.search(self.source_ids(source), beam_size, alpha, n_best)
        batch = tf.shape(source)[0]
        rows = tf.reshape(found.ids, (batch * n_best, tf.shape(found.ids)[2]))
        ids = tf.RaggedTensor.from_tensor(rows, tf.reshape(found.lengths, (-1,)))
        # A vocabulary of bytes can spell a line feed; a translation is one line.
        texts = tf.strings.regex_replace(self.target_tokenizer.detokenize(ids), r"\n", " ")
        return tf.reshape(texts, (batch, n_best)), found.scores

    @tf.function(autograph=False, reduce_retracing=True)
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


class Translator:
    """Translates lists of lines, of any number and length, in their order.

    Made by `Translator.from_run`, by `from_model`, or from an export by `keras_transformer.load`.

    Args:
        translate: Maps string `[batch]`, beam_size, alpha and n_best to strings and scores
            `[batch, n_best]`.
        config: The options in force where a call gives none.

    Example:
        >>> translator = Translator.from_run("runs/demo")
        >>> translator(["A man rides a horse."])
        ['Ein Mann reitet ein Pferd.']
    """

    def __init__(self, translate: Callable, config: DecodingConfig):
        self._translate, self.config = translate, config

    @classmethod
    def from_model(
        cls,
        model: keras.Model,
        vocabularies: Vocabularies,
        config: DecodingConfig | None = None,
    ) -> Translator:
        """A translator around a Keras model, whose weights may go on changing."""
        config = config or DecodingConfig()
        graph = TranslationGraph(model, vocabularies, config)
        # (A method under tf.function does not keep its object alive; this does.)
        return cls(lambda *arguments: graph.translate(*arguments), config)

    @classmethod
    def from_run(cls, run_dir, checkpoint: str | int = "average") -> Translator:
        """A translator of a run directory that `trainers/train_wmt.py` made.

        Args:
            run_dir: The directory.
            checkpoint: "average" of the last ones, "best", "last", or a step's number.
        """
        from keras_transformer.run_directory import load_run  # it stands on training, as we do not

        model, vocabularies, config = load_run(run_dir, checkpoint)
        return cls.from_model(model, vocabularies, config)

    def __call__(
        self,
        lines: list[str],
        beam_size: int | None = None,
        alpha: float | None = None,
        n_best: int = 1,
    ) -> list[str] | list[list[str]]:
        """The translations of `lines`, in their order; an empty or blank line gives an empty one.

        Args:
            lines: Sentences, without line ends.
            beam_size, alpha: See `DecodingConfig`, whose values they replace.
            n_best: With more than 1, each line gives a list of so many translations.
        """
        found = self.translations(lines, beam_size, alpha, n_best)
        texts = [[translation.text for translation in one] for one in found]
        return texts if n_best > 1 else [one[0] for one in texts]

    def translations(self, lines, beam_size=None, alpha=None, n_best=1) -> list[list[Translation]]:
        """As `__call__`, with scores, always as lists."""
        if isinstance(lines, str):
            raise ValueError(
                "`lines` should be a list of sentences. Received one string; give [string]."
            )
        beam_size = self.config.beam_size if beam_size is None else beam_size
        alpha = float(self.config.alpha if alpha is None else alpha)
        check_search(beam_size, alpha, self.config.extra_length, n_best)
        results: list[list[Translation]] = [[]] * len(lines)
        # Sentences of like length go together, the longest first: it shows at once what fits.
        order = np.argsort([-len(line) for line in lines], kind="stable")
        for start in range(0, len(lines), self.config.batch_size):
            indices = order[start : start + self.config.batch_size]
            batch = tf.constant([lines[i] for i in indices])
            texts, scores = self._translate(batch, beam_size, alpha, n_best)
            for i, row, row_scores in zip(indices, texts.numpy(), scores.numpy(), strict=True):
                results[i] = [
                    Translation(text.decode("utf-8", "replace"), float(score))
                    for text, score in zip(row, row_scores, strict=True)
                ]
        return results
