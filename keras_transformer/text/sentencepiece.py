"""SentencePiece BPE: the default vocabulary, which loses nothing.

Every character outside the vocabulary is spelt as its UTF-8 bytes (256 byte pieces are part of the
vocabulary), so any text comes back as it went in and the unknown id never occurs.
"""

from __future__ import annotations

import io
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable

import sentencepiece as spm
import tensorflow as tf
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2 as spm_proto

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNK_ID
from keras_transformer.text.tokenizer import (
    SPACE_MARK,
    UNKNOWN_SURFACE,
    Tokenizer,
    check_special_ids,
    import_tensorflow_text,
)

# Characters that make up the last ten-thousandth of the text are left to the byte pieces: web
# corpora hold thousands of them, and each would take a place from a useful piece.
_CHARACTER_COVERAGE = 0.9999
# SentencePiece drops a line that holds this character, which it uses for itself, without a word.
_RESERVED = "\u2585"


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model in the graph; see `Tokenizer` for what it does.

    Args:
        model: The model's bytes, or the path of a `.model` file. Any SentencePiece model with pad
            0, unknown 1, begin 2, end 3 will do; a normalisation of its own then comes on top.

    Raises:
        ValueError: No SentencePiece model, or other special ids.
    """

    kind = "bpe"
    file_suffix = ".model"

    def __init__(self, model: bytes | str | os.PathLike):
        content = model if isinstance(model, bytes) else pathlib.Path(model).read_bytes()
        try:
            processor = spm.SentencePieceProcessor(model_proto=content)
        except (RuntimeError, TypeError):
            raise ValueError(
                "this is no SentencePiece model; expected a file that learn_tokenizer(...).save "
                f"or spm_train wrote, received {len(content)} bytes {content[:16]!r}"
            ) from None
        check_special_ids(
            {
                "pad": processor.pad_id(),
                "unknown": processor.unk_id(),
                "begin": processor.bos_id(),
                "end": processor.eos_id(),
            }
        )
        super().__init__(content, [processor.id_to_piece(i) for i in range(len(processor))])
        # The plain op, not FastSentencepieceTokenizer: that one gives other ids for BPE models and
        # knows no byte pieces.
        self._op = import_tensorflow_text().SentencepieceTokenizer(content, out_type=tf.int32)
        self._keep_resource()
        # How the model itself shows an unknown piece, and whether it puts a space before a text.
        self._unknown = processor.decode([UNK_ID])
        first = processor.decode([UNK_ID, *processor.encode("a")])
        self._adds_space = first.startswith(self._unknown + " ")

    def _keep_resource(self) -> None:
        """Names the op's resource, so that it outlives the kernel that made it.

        TensorFlow drops all eager kernels when a seed is set (`keras.utils.set_random_seed`), and a
        nameless resource goes with its kernel: every later call would fail ("does not exist").
        """
        from tensorflow_text.python.ops import sentencepiece_tokenizer

        resource, name = self._op._model_resource, f"sentencepiece_{self.fingerprint}"
        make = sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op
        resource._create_resource = lambda: make(model=self._content, shared_name=name)
        resource._resource_handle = None  # the next access makes it, by the new name
        _ = resource.resource_handle

    def _tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._op.tokenize(strings)

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # SentencePiece drops all spaces at the start of a text, not only the one it added. Behind
        # an unknown piece nothing is the start: put one there, then take it and one space away.
        shield = tf.fill([ids.nrows(), 1], UNK_ID)
        texts = self._op.detokenize(tf.concat([shield, ids], axis=1))
        texts = tf.strings.substr(texts, len(self._unknown.encode()), tf.int32.max)
        if self._adds_space:
            texts = tf.strings.regex_replace(texts, "^ ", "", replace_global=False)
        if self._unknown != UNKNOWN_SURFACE:
            texts = tf.strings.regex_replace(texts, re.escape(self._unknown), UNKNOWN_SURFACE)
        return texts


def adopt_sentencepiece(path: str | os.PathLike) -> SentencePieceTokenizer:
    """Any SentencePiece model, its special pieces moved to the ids that are ours.

    Texts are cut into the same pieces as before, by BPE or by a unigram model, and normalised as
    before (often NFKC); only the pieces' numbers are others, and a pad piece is added where there
    is none.

    Raises:
        ValueError: The file is missing or no SentencePiece model, or it has no begin or end piece.

    Example:
        >>> tokenizer = adopt_sentencepiece("wmt.ende.model")  # unknown 0, begin 1, end 2
        >>> tokenizer.id_to_piece(2)
        '<s>'
    """
    try:
        proto = spm_proto.ModelProto.FromString(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise ValueError(f"the vocabulary file {str(path)!r} cannot be read: {error}") from None
    except DecodeError:
        proto = spm_proto.ModelProto()
    spec, kinds = proto.trainer_spec, spm_proto.ModelProto.SentencePiece
    last = max(spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id)
    if spec.unk_id < 0 or last >= len(proto.pieces):
        raise ValueError(
            f"{str(path)!r} is neither a SentencePiece model nor a tensor2tensor vocabulary"
        )
    if spec.model_type == spec.WORD:
        raise ValueError(f"{str(path)!r} is a model of whole words, which knows no others")
    special = {PAD_ID: spec.pad_id, UNK_ID: spec.unk_id, BEGIN_ID: spec.bos_id, END_ID: spec.eos_id}
    names = [piece.piece for piece in proto.pieces]
    if spec.pad_id < 0 and spec.pad_piece in names:
        place = names.index(spec.pad_piece)
        if proto.pieces[place].type == kinds.CONTROL:
            special[PAD_ID] = place
        else:  # what a text may hold is no padding
            spec.pad_piece = "<no token>"
    pad = kinds(piece=spec.pad_piece, score=0.0, type=kinds.CONTROL)
    if missing := [i for i, old in special.items() if i != PAD_ID and old < 0]:
        names = {UNK_ID: "unknown", BEGIN_ID: "begin", END_ID: "end"}
        raise ValueError(
            f"{str(path)!r} has no {names[missing[0]]} piece, and a translation needs one: learn "
            "it again without --bos_id=-1 or --eos_id=-1"
        )
    first = [pad if special[i] < 0 else proto.pieces[special[i]] for i in sorted(special)]
    rest = [piece for i, piece in enumerate(proto.pieces) if i not in special.values()]
    moved = [kinds.FromString(piece.SerializeToString()) for piece in [*first, *rest]]
    del proto.pieces[:]
    proto.pieces.extend(moved)
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD_ID, UNK_ID, BEGIN_ID, END_ID
    spec.vocab_size, spec.unk_surface = len(moved), UNKNOWN_SURFACE
    return SentencePieceTokenizer(proto.SerializeToString(deterministic=True))


def learn_bpe(lines: Iterable[str], vocab_size: int) -> SentencePieceTokenizer:
    """Learns a BPE vocabulary from normalised lines; `learn_tokenizer` is the public way.

    The same lines give the same model, byte for byte.

    Raises:
        ValueError: `vocab_size` is too large or too small for the text.
    """
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        # One rule (mark to space, already done to the lines) in place of the identity: with an
        # empty rule set tensorflow-text prints a line at every load.
        rules.write(f"{ord(SPACE_MARK):X}\t20\n")
        rules.flush()
        try:
            spm.SentencePieceTrainer.train(
                sentence_iterator=(line.replace(_RESERVED, " ") for line in lines),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                character_coverage=_CHARACTER_COVERAGE,
                byte_fallback=True,
                normalization_rule_tsv=rules.name,
                remove_extra_whitespaces=False,
                max_sentence_length=2**30,  # by default longer lines are dropped silently
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BEGIN_ID,
                eos_id=END_ID,
                unk_surface=UNKNOWN_SURFACE,
                num_threads=2,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _explained(error, vocab_size) from None
    proto = spm_proto.ModelProto.FromString(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # the temporary file's name
    return SentencePieceTokenizer(proto.SerializeToString(deterministic=True))


def _explained(error: RuntimeError, vocab_size: int) -> ValueError:
    """SentencePiece's complaint about the vocabulary size as one that names the remedy."""
    message = str(error)
    if too_large := re.search(r"too high.*<= (\d+)", message):
        return ValueError(
            f"vocab_size={vocab_size} is too large for this text: at most {too_large[1]} pieces "
            "can be learnt from it. Give that or less, or more text"
        )
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ValueError(
            f"vocab_size={vocab_size} is too small for this text: its characters, the 256 bytes "
            f"and the special ids alone need {too_small[1]}. Give more than that"
        )
    return ValueError(f"vocab_size={vocab_size} cannot be learnt from this text: {message}")
