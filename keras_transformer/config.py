"""Every setting of the system, as frozen dataclasses: one comment a field says what it means.

`TransformerConfig` is the model (paper section 3), `TrainingConfig` its training (section 5),
`DecodingConfig` its search (section 6.1) and `DataConfig` the text. The named settings, the
paper's and ours, are in `presets.py`.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing

import keras

PAD_ID, UNK_ID, BEGIN_ID, END_ID = 0, 1, 2, 3

_MOST_TOKENS = 100_000  # of an output; what a search is asked for beyond is a slip

# In Python's typing, X | None reaches us as one of these two origins.
_UNIONS = (typing.Union, types.UnionType)


class _Config:
    """What the configurations share: presets, overrides, checking, conversion to JSON."""

    @classmethod
    def preset(cls, name: str, **overrides):
        """The part of a named preset that this class holds, with fields overridden.

        Args:
            name: A preset's name; `keras_transformer.presets.PRESETS` holds them all.
            **overrides: Fields to set, as for the constructor.

        Raises:
            ValueError: The preset or a field is unknown, or a value does not fit its field.

        Example:
            >>> TransformerConfig.preset("base", vocab_size=37000).d_model
            512
        """
        from keras_transformer.presets import find_preset  # presets.py stands on this file

        if not hasattr(cls, "_preset_part"):
            raise ValueError(f"No preset holds a {cls.__name__}. Make one with its constructor.")
        return getattr(find_preset(name), cls._preset_part).replace(**overrides)

    @classmethod
    def from_dict(cls, values: dict):
        """The configuration that `to_dict` wrote; unknown names and wrong types are errors."""
        return cls(**cls._known(values))

    def to_dict(self) -> dict:
        """All fields by name, ready for JSON."""
        return dataclasses.asdict(self)

    def replace(self, **overrides):
        """A copy with some fields changed; unknown names and wrong types are errors."""
        return dataclasses.replace(self, **self._known(overrides))

    def __post_init__(self):
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = _fit(type(self), field.name, hints[field.name], getattr(self, field.name))
            object.__setattr__(self, field.name, value)  # the way to set a frozen field

    @classmethod
    def _known(cls, values: dict) -> dict:
        fields = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in fields:
                raise ValueError(
                    f"{cls.__name__} has no field {name!r}. It has: {', '.join(sorted(fields))}."
                )
        return values

    def _require(self, condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise ValueError(
                f"{type(self).__name__}.{name} should be {expected}. "
                f"Received: {name}={getattr(self, name)!r}."
            )


def _fit(cls, name: str, hint, value):
    """`value` as the type of the field, where nothing is lost (1 -> 1.0), or a ValueError."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"{cls.__name__}.{name} should be a finite number. Received: {name}={value!r}."
        )
    if isinstance(value, bool) and bool not in kinds or not isinstance(value, tuple(kinds)):
        wanted = " or ".join("nothing" if k is type(None) else k.__name__ for k in kinds)
        raise ValueError(f"{cls.__name__}.{name} should be of type {wanted}. Received: {value!r}.")
    return value


@dataclasses.dataclass(frozen=True)
class TransformerConfig(_Config):
    """The model: paper section 3, and every variation of Table 3.

    Example:
        >>> TransformerConfig(vocab_size=37000, num_layers=2).num_decoder_layers_
        2
    """

    _preset_part: typing.ClassVar[str] = "model"

    vocab_size: int = 37000  # source tokens; target tokens too unless the next field says so
    target_vocab_size: int | None = None  # target tokens where the vocabularies are separate
    num_layers: int = 6  # N, of the encoder and of the decoder
    num_decoder_layers: int | None = None  # N of the decoder where it differs
    d_model: int = 512  # width of every layer's input and output
    d_ff: int = 2048  # inner width of the feed-forward sublayers
    num_heads: int = 8  # h
    d_k: int | None = None  # width of a head's queries and keys; d_model / num_heads if not given
    d_v: int | None = None  # width of a head's values; d_model / num_heads if not given
    dropout: float = 0.1  # on sublayer outputs and on the sums of embeddings and positions (5.4)
    attention_dropout: float = 0.0  # on attention weights; the paper has none
    relu_dropout: float = 0.0  # inside the feed-forward sublayer; the paper has none
    norm: str = "post"  # "post": norm(x + f(x)), the paper; "pre": x + f(norm(x)), one at the end
    activation: str = "relu"  # of the feed-forward sublayer, by its Keras name
    tie_embeddings: str = "all"  # "all" (3.4), "target" (target and output), "none"
    positions: str = "interleaved"  # "interleaved" (3.5), "concatenated" (its code), "learned"
    max_positions: int = 1024  # rows of the learned position table; sinusoids know no limit
    attention_window: int | None = None  # r of restricted self-attention (section 4); none: all
    layer_norm_epsilon: float = 1e-6  # added to the variance

    def __post_init__(self):
        super().__post_init__()
        self._require(self.vocab_size >= 5, "vocab_size", "at least 5 (four special ids, a token)")
        for name in ("num_layers", "d_model", "d_ff", "num_heads", "max_positions"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in ("target_vocab_size", "num_decoder_layers", "d_k", "d_v", "attention_window"):
            value = getattr(self, name)
            self._require(value is None or value >= 1, name, "at least 1, or nothing")
        for name in ("dropout", "attention_dropout", "relu_dropout"):
            self._require(0.0 <= getattr(self, name) < 1.0, name, "from 0 to below 1")
        self._require(self.layer_norm_epsilon > 0, "layer_norm_epsilon", "above 0")
        self._require(self.norm in ("post", "pre"), "norm", "'post' or 'pre'")
        try:
            keras.activations.get(self.activation)
        except ValueError:
            self._require(False, "activation", "the name of a Keras activation, such as 'relu'")
        self._require(
            self.tie_embeddings in ("all", "target", "none"),
            "tie_embeddings",
            "'all', 'target' or 'none'",
        )
        self._require(
            self.positions in ("interleaved", "concatenated", "learned"),
            "positions",
            "'interleaved', 'concatenated' or 'learned'",
        )
        if self.positions != "learned":
            self._require(self.d_model % 2 == 0, "d_model", "even, for sinusoidal positions")
        if self.d_k is None or self.d_v is None:
            self._require(
                self.d_model % self.num_heads == 0,
                "num_heads",
                f"a divisor of d_model={self.d_model}, or d_k and d_v be given",
            )
        if self.tie_embeddings == "all":
            self._require(
                self.target_vocab_size in (None, self.vocab_size),
                "target_vocab_size",
                f"vocab_size={self.vocab_size} when tie_embeddings='all' shares one table; "
                "separate vocabularies go with tie_embeddings='target'",
            )

    # With an underscore: the value in force, where the field may leave it to another.
    @property
    def target_vocab_size_(self) -> int:
        return self.target_vocab_size or self.vocab_size

    @property
    def num_decoder_layers_(self) -> int:
        return self.num_decoder_layers or self.num_layers

    @property
    def d_k_(self) -> int:
        return self.d_k or self.d_model // self.num_heads

    @property
    def d_v_(self) -> int:
        return self.d_v or self.d_model // self.num_heads


@dataclasses.dataclass(frozen=True)
class TrainingConfig(_Config):
    """The training: paper section 5."""

    _preset_part: typing.ClassVar[str] = "training"

    steps: int = 100_000  # optimiser updates
    max_minutes: float | None = None  # stop after so many minutes of training, resumes included
    batch_tokens: int = 25_000  # padded tokens a side, an update, all devices together (5.1)
    device_tokens: int | None = None  # of these, what a device takes at a time; more accumulates
    max_length: int = 256  # longer pairs (tokens, end mark included) are left out, and counted
    num_buckets: int = 8  # batch shapes at most; more pad less and compile longer
    warmup_steps: int = 4000  # updates over which the learning rate rises (5.3)
    schedule_factor: float = 1.0  # times the paper's learning rate
    cooldown_steps: int = 0  # last updates over which the rate falls to zero; the paper has none
    adam_beta1: float = 0.9  # (5.3)
    adam_beta2: float = 0.98  # (5.3)
    adam_epsilon: float = 1e-9  # (5.3)
    clip_norm: float | None = None  # the gradient's norm at most; the paper has no limit
    ema_decay: float | None = None  # of the weights' moving average, used in their place; or none
    label_smoothing: float = 0.1  # (5.4)
    checkpoint_steps: int = 1500  # updates between checkpoints
    keep_checkpoints: int = 20  # the newest ones kept; the best is kept besides
    average_last: int = 5  # checkpoints averaged at the end (6.1)
    evaluate_steps: int = 3000  # updates between evaluations on the validation set
    evaluate_sentences: int = 3000  # validation sentences translated for BLEU at each
    jit_compile: bool = False  # compile the training step with XLA, once a batch shape
    dtype_policy: str = "float32"  # or "mixed_bfloat16", "mixed_float16", on GPUs and TPUs
    seed: int = 1  # of initial weights, shuffling and dropout

    def __post_init__(self):
        super().__post_init__()
        positive = (
            "steps batch_tokens num_buckets warmup_steps checkpoint_steps keep_checkpoints "
            "average_last evaluate_steps evaluate_sentences"
        )
        for name in positive.split():
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(
            0 <= self.cooldown_steps <= self.steps,
            "cooldown_steps",
            f"from 0 to steps={self.steps}",
        )
        self._require(self.max_length >= 2, "max_length", "at least 2 (a token and the end mark)")
        for name in ("schedule_factor", "adam_epsilon"):
            self._require(getattr(self, name) > 0, name, "above 0")
        for name in ("adam_beta1", "adam_beta2", "label_smoothing"):
            self._require(0 <= getattr(self, name) < 1, name, "from 0 to below 1")
        for name in ("max_minutes", "clip_norm"):
            value = getattr(self, name)
            self._require(value is None or value > 0, name, "above 0, or nothing")
        self._require(
            self.device_tokens is None or self.device_tokens >= self.max_length,
            "device_tokens",
            f"at least max_length={self.max_length}, so that the longest sentence fits, or nothing",
        )
        self._require(
            self.ema_decay is None or 0 < self.ema_decay < 1,
            "ema_decay",
            "above 0 and below 1, or nothing",
        )
        self._require(self.seed >= 0, "seed", "0 or more")
        self._require(
            self.dtype_policy in ("float32", "mixed_bfloat16", "mixed_float16"),
            "dtype_policy",
            "'float32', 'mixed_bfloat16' or 'mixed_float16'",
        )
        self._require(
            self.batch_tokens >= self.max_length,
            "batch_tokens",
            f"at least max_length={self.max_length}, so that the longest sentence fits a batch",
        )
        self._require(
            self.keep_checkpoints >= self.average_last,
            "keep_checkpoints",
            f"at least average_last={self.average_last}, so that these are there to average",
        )


@dataclasses.dataclass(frozen=True)
class DecodingConfig(_Config):
    """The search: paper section 6.1, and what others add to it."""

    _preset_part: typing.ClassVar[str] = "decoding"

    beam_size: int = 4  # hypotheses kept a sentence; 1 is greedy search
    alpha: float = 0.6  # length penalty: score = log P / ((5 + n) / 6)^alpha; 0 is none
    beta: float = 0.0  # coverage penalty (Wu et al. 2016, equation 14); the paper has none
    patience: float | None = None  # stop once so many beams have ended; None: once none can win
    extra_length: int = 50  # output tokens at most: the source's length and so many
    max_length: int | None = None  # output tokens at most besides, end mark included
    min_length: int = 0  # output tokens at least, end mark not counted
    no_repeat_ngram: int = 0  # no sequence of so many tokens comes twice; 0 allows all
    temperature: float = 0.0  # above 0 tokens are drawn, from softmax(logits / temperature)
    top_k: int = 0  # drawn from the so many likeliest; 0 is all
    top_p: float = 1.0  # drawn from the likeliest that have this probability together
    seed: int = 0  # of drawing; the same sentence and seed draw the same
    max_source_length: int = 512  # longer sources are cut (tokens, end mark included)
    batch_size: int = 64  # sentences translated at a time

    def __post_init__(self):
        super().__post_init__()
        for name in ("beam_size", "extra_length", "batch_size"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name, most in (
            ("beam_size", 1000),
            ("batch_size", 100_000),
            ("alpha", 100),
            ("beta", 100),
            ("extra_length", _MOST_TOKENS),
            ("min_length", _MOST_TOKENS),
            ("no_repeat_ngram", 64),
            ("top_k", 2**31 - 1),
        ):
            value = getattr(self, name)
            self._require(value >= 0, name, "0 or more")
            self._require(value <= most, name, f"at most {most}")
        drawn = self.temperature == 0 or 0.001 <= self.temperature <= 1000
        self._require(drawn, "temperature", "0, or from 0.001 to 1000")
        self._require(self.max_source_length >= 2, "max_source_length", "at least 2")
        self._require(0 < self.top_p <= 1, "top_p", "above 0, at most 1")
        self._require(-(2**31) <= self.seed < 2**31, "seed", "a number of 32 bits")
        if self.patience is not None:
            self._require(1 <= self.patience <= 1000, "patience", "from 1 to 1000, or nothing")
        at_least = max(1, self.min_length)
        fits = self.max_length is None or at_least <= self.max_length <= _MOST_TOKENS
        self._require(fits, "max_length", f"from {at_least} to {_MOST_TOKENS}, or nothing")
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise ValueError(
                "top_k and top_p choose what tokens are drawn from. Set temperature above 0 (1 for "
                f"the model's own distribution) to draw. Received: top_k={self.top_k}, "
                f"top_p={self.top_p}, temperature=0."
            )


@dataclasses.dataclass(frozen=True)
class DataConfig(_Config):
    """The text: a TFDS dataset, files, or (with neither) the built-in demo corpus."""

    dataset: str | None = None  # a TFDS translation dataset, such as "wmt14_translate/de-en"
    data_dir: str | None = None  # where TFDS keeps its data
    source: str = "en"  # the language translated from
    target: str = "de"  # the language translated to
    train_source: str | None = None  # files, UTF-8, plain or .gz, one sentence a line
    train_target: str | None = None
    train_tsv: str | None = None  # or one file of source, tab, target
    valid_source: str | None = None
    valid_target: str | None = None
    test_source: str | None = None  # scored at the end, from the exported model
    test_target: str | None = None
    vocab_kind: str = "bpe"  # "bpe" (SentencePiece), "wordpiece", or "t2t", which is not learnt
    shared_vocab: bool = True  # one vocabulary for both languages
    vocab_sample: int | None = None  # learn it from so many lines a side, drawn; None: see below
    max_length_ratio: float | None = None  # leave out training pairs with one side so much longer
    drop_duplicates: bool = False  # ... that came before
    drop_identical: bool = False  # ... whose sides are the same
    drop_control: bool = False  # ... with control, private or unassigned characters
    source_script: str | None = None  # ... most of whose letters are of another: "Latin", "Han"
    target_script: str | None = None
    normalize: str | None = None  # training text to "NFC", "NFKC", ... before
    vocab: str | None = None  # a folder that `keras-transformer vocab` made, in place of learning
    prepared: str | None = None  # a folder that `keras-transformer prepare` made: text to train on
    stream: bool = False  # prepare the training text in the run's folder; else it is in memory

    def __post_init__(self):
        super().__post_init__()
        ratio = self.max_length_ratio
        self._require(ratio is None or ratio >= 1, "max_length_ratio", "1 or more, or None")
        for name in ("source_script", "target_script"):
            self._require(getattr(self, name) != "", name, "a script of Unicode, or None")
        forms = (None, "NFC", "NFD", "NFKC", "NFKD")
        self._require(self.normalize in forms, "normalize", "NFC, NFD, NFKC, NFKD or None")
        if self.vocab_sample is not None:
            self._require(self.vocab_sample > 0, "vocab_sample", "above 0, or None")
        kinds = ("bpe", "wordpiece", "t2t")
        self._require(self.vocab_kind in kinds, "vocab_kind", "'bpe', 'wordpiece' or 't2t'")
        for part in ("train", "valid", "test"):
            one, other = getattr(self, f"{part}_source"), getattr(self, f"{part}_target")
            if (one is None) != (other is None):
                given, lacking = ("source", "target") if other is None else ("target", "source")
                raise ValueError(
                    f"{part}_{given} is given without {part}_{lacking}. Parallel text needs both."
                )
        ways = [self.dataset, self.train_source, self.train_tsv]
        if self.dataset is not None and self.source == self.target:
            raise ValueError(
                f"source and target should be two languages. Received: {self.source!r} twice."
            )
        beside = [*ways[1:], self.stream, self.vocab, self.vocab_sample, *self.cleaning.values()]
        if self.prepared is not None and any(beside):
            raise ValueError(
                "data.prepared is training text that is clean and has its vocabulary: give no "
                "other files to train on, no vocab, vocab_sample, stream or filter beside it."
            )
        if self.is_demo and (self.valid_source or self.test_source):
            raise ValueError(
                "There is validation or test text without training text. Give dataset, "
                "train_source with train_target, or train_tsv; or none of all for the demo."
            )
        if sum(way is not None for way in ways) > 1:
            raise ValueError(
                "The training text should come from one of dataset, train_source with "
                f"train_target, or train_tsv. Received several: {[w for w in ways if w]}."
            )

    @property
    def vocab_sample_(self) -> int | None:
        """As `vocab_sample`; where that is None, all lines of what is in memory, else a million."""
        return 1_000_000 if self.vocab_sample is None and self.stream else self.vocab_sample

    @property
    def cleaning(self) -> dict:
        """What is left out of the training text, or changed in it."""
        names = (
            "max_length_ratio drop_duplicates drop_identical drop_control source_script "
            "target_script normalize"
        )
        return {name: getattr(self, name) for name in names.split()}

    @property
    def is_demo(self) -> bool:
        """Whether the text is the built-in demo corpus, since no other is named."""
        return not any([self.dataset, self.train_source, self.train_tsv, self.prepared])
