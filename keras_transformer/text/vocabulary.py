"""Learning vocabularies from text, and keeping the pair that a translation model needs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import random
from collections.abc import Iterable, Iterator

from keras_transformer.files import write_bytes
from keras_transformer.text.sentencepiece import adopt_sentencepiece, learn_bpe
from keras_transformer.text.subwords import is_subword_file
from keras_transformer.text.tokenizer import (
    SPECIAL_IDS,
    Tokenizer,
    load_tokenizer,
    normalize_text,
)
from keras_transformer.text.wordpiece import learn_wordpiece

_LEARNERS = {"bpe": learn_bpe, "wordpiece": learn_wordpiece}
VOCAB_KINDS = tuple(_LEARNERS)
_INDEX = "vocab.json"


def learn_tokenizer(
    lines: Iterable[str],
    kind: str = "bpe",
    vocab_size: int = 8000,
    seed: int = 0,
    sample_size: int | None = None,
) -> Tokenizer:
    """Learns a vocabulary; the same lines and arguments give the same one, byte for byte.

    Args:
        lines: Texts, one sentence each; read once, so a generator will do.
        kind: "bpe" (SentencePiece; loses nothing) or "wordpiece".
        vocab_size: Number of ids, the four special ones included; reached exactly.
        seed: Of the sample; without `sample_size` nothing is random.
        sample_size: Learn from this many lines, drawn at random from all. All are held in memory
            otherwise, so give it for a corpus of many millions.

    Raises:
        ValueError: No text in the lines, an unknown kind, or a `vocab_size` that is too small for
            the text's characters or larger than the text gives (the message names the limit).

    Example:
        >>> tokenizer = learn_tokenizer(read_lines("train.en"), vocab_size=8000)
    """
    if kind not in _LEARNERS:
        raise ValueError(f"kind must be one of {sorted(_LEARNERS)}; received {kind!r}")
    _check_counts(vocab_size=vocab_size, sample_size=sample_size)
    if isinstance(lines, (str, bytes)):
        raise ValueError(
            f"lines must be several strings, one a sentence; received one {type(lines).__name__}. "
            "Use split_lines(text) or read_lines(path)"
        )
    texts = (normalize_text(line) for line in lines)
    chosen = list(texts) if sample_size is None else _sample(texts, sample_size, seed)
    if not any(line.strip() for line in chosen):
        raise ValueError(
            f"there is no text to learn a vocabulary from: {len(chosen)} lines, all empty; "
            "check the training files"
        )
    return _LEARNERS[kind](chosen, vocab_size)


def adopt_tokenizer(path: str | os.PathLike) -> Tokenizer:
    """A vocabulary of another program's: any SentencePiece model, or tensor2tensor's subwords.

    Raises:
        ValueError: It is neither.

    Example:
        >>> tokenizer = adopt_tokenizer("vocab.translate_ende_wmt32k.32768.subwords")
    """
    try:
        with open(path, "rb") as file:
            is_subwords = is_subword_file(file.read(100))
    except OSError as error:
        raise ValueError(
            f"the vocabulary file {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    return load_tokenizer(path) if is_subwords else adopt_sentencepiece(path)


def _sample(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """`size` of the lines, each as likely as any other, in one pass."""
    rng, lines = random.Random(seed), iter(lines)
    kept = list(itertools.islice(lines, size))
    for seen, line in enumerate(lines, size + 1):
        place = rng.randrange(seen)
        if place < size:
            kept[place] = line
    return kept


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of a translation model: one for both languages, or one each.

    Attributes:
        source: Tokenizer of the source language.
        target: Tokenizer of the target language; the same object if `shared`.
        shared: One vocabulary for both, as in the paper, so that embeddings can be shared.

    Example:
        >>> vocabularies = Vocabularies.learn(english, german, vocab_size=8000)
        >>> vocabularies.save("runs/demo/vocab")
        >>> Vocabularies.load("runs/demo/vocab").fingerprint == vocabularies.fingerprint
        True
    """

    source: Tokenizer
    target: Tokenizer
    shared: bool

    def __post_init__(self):
        if self.shared and self.source is not self.target:
            raise ValueError("shared vocabularies need one tokenizer as both source and target")

    @classmethod
    def learn(
        cls,
        source_lines: Iterable[str],
        target_lines: Iterable[str],
        kind: str = "bpe",
        vocab_size: int = 8000,
        shared: bool = True,
        seed: int = 0,
        sample_size: int | None = None,
        target_vocab_size: int | None = None,
    ) -> Vocabularies:
        """Learns one vocabulary from both sides together, or one from each.

        The arguments and errors are those of `learn_tokenizer`; a shared vocabulary draws
        `sample_size` lines from each side, and separate ones may have another size for the target.
        """
        _check_counts(vocab_size=vocab_size, sample_size=sample_size)
        arguments = {"kind": kind, "vocab_size": vocab_size, "seed": seed}
        if shared:
            both = _both(source_lines, target_lines, sample_size, seed)
            one = learn_tokenizer(both, **arguments)
            return cls(one, one, True)
        arguments["sample_size"] = sample_size
        target_size = vocab_size if target_vocab_size is None else target_vocab_size
        return cls(
            _learn_side("source", source_lines, arguments),
            _learn_side("target", target_lines, arguments | {"vocab_size": target_size}),
            False,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of both vocabularies and their roles."""
        both = f"{self.source.fingerprint} {self.target.fingerprint}"
        return hashlib.sha256(both.encode()).hexdigest()

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the vocabulary files, then `vocab.json`, which names and describes them.

        The files are `shared.model`, or `source.model` and `target.model` (`.json` for WordPiece).

        Raises:
            ValueError: The folder cannot be made or written to.
        """
        folder = pathlib.Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"the vocabulary folder {str(folder)!r} cannot be made: {error.strerror}"
            ) from None
        index = {"shared": self.shared, "special_ids": SPECIAL_IDS}
        for role, tokenizer in (("source", self.source), ("target", self.target)):
            name = ("shared" if self.shared else role) + tokenizer.file_suffix
            tokenizer.save(folder / name)
            index[role] = {
                "file": name,
                "kind": tokenizer.kind,
                "size": tokenizer.vocab_size,
                "fingerprint": tokenizer.fingerprint,
            }
        index["fingerprint"] = self.fingerprint
        write_bytes(folder / _INDEX, (json.dumps(index, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Vocabularies:
        """Reads what `save` wrote.

        Raises:
            ValueError: `vocab.json` or a file it names is missing, damaged, or not the one that
                was saved with it.
        """
        folder = pathlib.Path(folder)
        try:
            index = json.loads((folder / _INDEX).read_bytes())
            shared, source, target = index["shared"], index["source"], index["target"]
            roles = {"source": source} if shared else {"source": source, "target": target}
            named = {r: (entry["file"], entry["fingerprint"]) for r, entry in roles.items()}
        except OSError as error:
            raise ValueError(
                f"no vocabulary in {str(folder)!r}: {_INDEX} cannot be read: {error.strerror}. "
                "Expected a folder that keras-transformer vocab wrote (from another program's "
                "file, with --from)"
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{str(folder / _INDEX)!r} is damaged ({error!r}); save the vocabulary again"
            ) from None
        read = {}
        for role, (name, fingerprint) in named.items():
            read[role] = load_tokenizer(folder / name)
            if read[role].fingerprint != fingerprint:
                raise ValueError(
                    f"{str(folder / name)!r} is not the vocabulary that {_INDEX} describes: "
                    f"expected SHA-256 {fingerprint}, found {read[role].fingerprint}. Restore the "
                    "file that belongs to this model"
                )
        return cls(read["source"], read.get("target", read["source"]), bool(shared))


def _check_counts(vocab_size, sample_size) -> None:
    for name, value in {"vocab_size": vocab_size, "sample_size": sample_size}.items():
        if name == "sample_size" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
            raise ValueError(
                f"{name} must be a positive whole number below 2^31; received {value!r}"
            )


def _both(
    source: Iterable[str], target: Iterable[str], sample_size: int | None, seed: int
) -> Iterator[str]:
    """The lines of both sides, or a sample of each."""
    for side, lines in (("source", source), ("target", target)):
        is_empty = True
        for line in lines if sample_size is None else _sample(lines, sample_size, seed):
            is_empty = is_empty and not line.strip()
            yield line
        if is_empty:
            raise ValueError(f"{side} side: there is no text to learn a vocabulary from")


def _learn_side(side: str, lines: Iterable[str], arguments: dict) -> Tokenizer:
    try:
        return learn_tokenizer(lines, **arguments)
    except ValueError as error:
        raise ValueError(f"{side} side: {error}") from None
