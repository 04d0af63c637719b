"""Text in, text out: tokenise, search, detokenise."""

from __future__ import annotations

import concurrent.futures
import typing
import warnings

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.graph import CompiledBackend, GraphBackend, TranslationGraph
from keras_transformer.machine import cores
from keras_transformer.text.vocabulary import Vocabularies

_MOST_AT_A_TIME = 8  # batches, each of which takes memory


class Translation(typing.NamedTuple):
    """A translation and its score, the penalised log probability."""

    text: str
    score: float


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
        config = config.replace(max_source_length=graph.max_source_length)
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
        self._backend.check(config, n_best, prefixes is not None)
        most = max(n_best, 1) if config.temperature else config.beam_size
        if not isinstance(n_best, int) or not 1 <= n_best <= most:
            raise ValueError(
                f"`n_best` should be at least 1 and at most beam_size={most}. Received: "
                f"n_best={n_best}. Raise beam_size to get more."
            )
        self._warn_of_cut(lines)

        def found(source, prefix=None):
            texts, scores = self._backend.translate(source, config, n_best, prefix)
            return [
                [
                    Translation(text.decode("utf-8", "replace"), float(score))
                    for text, score in zip(row, row_scores, strict=True)
                ]
                for row, row_scores in zip(texts.numpy(), scores.numpy(), strict=True)
            ]

        return _in_batches(found, config.batch_size, lines, prefixes)

    def score(self, lines: list[str], targets: list[str]) -> list[float]:
        """Log probability of each target given its line, in nats, end mark included."""
        _check_lines("lines", lines)
        _check_lines("targets", targets, len(lines))

        def scores(source, target):
            return self._backend.score(source, target).numpy().tolist()

        return _in_batches(scores, self.config.batch_size, lines, targets)

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


def _in_batches(function, batch_size: int, lines, others) -> list:
    """What `function` makes of string `[batch]`, or two of these, in the order of the lines."""
    # Sentences of like length together; the longest first: it shows at once what fits into memory.
    order = np.argsort([-len(line) for line in lines], kind="stable")
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def of(indices):
        sides = (lines,) if others is None else (lines, others)
        return function(*(_strings([side[i] for i in indices]) for side in sides))

    at_a_time = _batches_at_a_time()
    found = map(of, batches) if at_a_time == 1 else _side_by_side(of, batches, at_a_time)
    results = [None] * len(lines)
    for indices, its in zip(batches, found, strict=True):
        for i, one in zip(indices, its, strict=True):
            results[i] = one
    return results


def _side_by_side(function, batches, at_a_time: int):
    """As `map`, so many at a time, on the device that is the caller's."""
    device = tf.constant(0).device

    def on_device(batch):
        with tf.device(device):  # a thread of its own does not know the caller's
            return function(batch)

    yield from map(on_device, batches[:1])  # alone: it traces what the others run
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        yield from pool.map(on_device, batches[1:])


def _batches_at_a_time() -> int:
    """On CPUs one a core: the many small operations of a search leave most cores idle."""
    if tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"):
        return 1
    threads = tf.config.threading.get_intra_op_parallelism_threads() or cores()
    return min(threads, _MOST_AT_A_TIME)


def _strings(lines: list[str]) -> tf.Tensor:
    """string `[batch]`; a lone surrogate, which is no text, becomes "?"."""
    return tf.constant([line.encode("utf-8", "replace") for line in lines])


def _check_lines(name: str, lines, expected: int | None = None) -> None:
    if not tf.executing_eagerly():
        raise ValueError(
            "A Translator takes and gives Python strings, which a tf.function has not. Call it "
            "outside, or a signature of an export inside."
        )
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
