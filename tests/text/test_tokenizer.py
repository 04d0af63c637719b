"""Text comes back as it went in; ids are what the contract says; it all survives export."""

import gc
import itertools
import json
import shutil
import subprocess
import sys
import unicodedata

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNK_ID
from keras_transformer.text.lines import read_lines
from keras_transformer.text.sentencepiece import SentencePieceTokenizer, adopt_sentencepiece
from keras_transformer.text.tokenizer import (
    import_tensorflow_text,
    load_tokenizer,
    normalize_tensor,
    normalize_text,
)
from keras_transformer.text.vocabulary import learn_tokenizer

ODD = [
    "",
    " ",
    "   ",
    " a",
    "a ",
    "  a  b   c ",
    "a\tb\t",
    "a\nb\r\n",
    "\0",
    "a\0b",
    "\ufeffa",
    "x\u2585y \u2581z",
    "<s> </s> <pad> <unk> <0x41> [PAD] [UNK]",
    "##a # ### a##b",
    "b\u2028c\x85d\u00a0e\u200b",
    "cafe\u0301",
    "☃ 👩‍🚀 नमस्ते 日本語 שלום",
    "⁇ \ufffd",
    "x" * 5000,
    "ab, " * 1250,
]


def texts(tensor):
    return [text.decode("utf-8") for text in tensor.numpy()]


def round_trip(tokenizer, lines):
    return texts(tokenizer.detokenize(tokenizer.tokenize(lines)))


def expected_back(tokenizer, lines):
    """What must come back: the text for BPE; for WordPiece with "⁇" for each foreign character."""
    lines = [normalize_text(line) for line in lines]
    if tokenizer.kind == "bpe":
        return lines
    known = {piece for piece in tokenizer.pieces(range(4, tokenizer.vocab_size)) if len(piece) == 1}
    known.add(" ")
    return ["".join(char if char in known else "⁇" for char in line) for line in lines]


def test_odd_texts_come_back(tokenizer):
    assert round_trip(tokenizer, ODD) == expected_back(tokenizer, ODD)


def test_real_lines_of_other_domains_and_languages_come_back(tokenizer, real_data):
    files = [
        "newstest/newstest2013.en.gz",
        "newstest/newstest2012.de.gz",
        "newstest/newstest2012.fr.gz",
        "libreoffice-help/all.de.gz",
        "libreoffice-help/all.fr.gz",
        "tatoeba/en-fr.fr.gz",
    ]
    lines = [line for name in files for line in read_lines(real_data / name)[:3000]]
    pairs = [*zip(round_trip(tokenizer, lines), expected_back(tokenizer, lines), strict=True)]
    assert len(pairs) == 18_000
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_bpe_never_uses_the_unknown_id(bpe):
    assert UNK_ID not in bpe.tokenize(ODD).flat_values.numpy()


def test_wordpiece_makes_only_the_foreign_character_unknown(wordpiece):
    ids = wordpiece.tokenize(["a manष walks"])
    assert list(ids.flat_values.numpy()).count(UNK_ID) == 1
    assert texts(wordpiece.detokenize(ids)) == ["a man⁇ walks"]


def test_bpe_agrees_with_the_sentencepiece_package(bpe, captions, tmp_path):
    bpe.save(tmp_path / "x.model")
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    lines = captions + [normalize_text(x) for x in ODD]
    assert bpe.tokenize(lines).to_list() == reference.encode(lines)
    assert bpe.pieces(range(bpe.vocab_size)) == reference.id_to_piece(range(bpe.vocab_size))


def test_wordpiece_takes_the_longest_piece_first(wordpiece):
    pieces = set(wordpiece.pieces(range(wordpiece.vocab_size)))

    def by_hand(word):
        found, start = [], 0
        while start < len(word):
            joiner = "##" if start else ""
            end = next(e for e in range(len(word), start, -1) if joiner + word[start:e] in pieces)
            found.append(joiner + word[start:end])
            start = end
        return found

    words = ["▁Straßenmusikanten", "▁walking", "▁2012", "bicycle", "▁...", "▁Hutschachtelträger"]
    for word in words:
        ids = wordpiece.tokenize([word]).flat_values.numpy()
        assert wordpiece.pieces(ids) == by_hand(word), word


def test_ids_are_int32_ragged_without_specials(tokenizer):
    ids = tokenizer.tokenize(["A man.", "", "Zwei Hunde rennen."])
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.shape.as_list() == [3, None]
    assert ids[1].shape == [0]
    assert min(ids.flat_values.numpy()) > END_ID
    assert tokenizer.tokenize(tf.constant([], tf.string)).shape.as_list() == [0, None]


def test_words_are_shorter_than_characters(tokenizer, captions):
    characters = sum(map(len, captions))
    assert characters / tokenizer.tokenize(captions).flat_values.shape[0] > 3


def test_batch_makes_no_difference(tokenizer, captions):
    together = tokenizer.tokenize(captions[:50]).to_list()
    assert together == [tokenizer.tokenize([line]).to_list()[0] for line in captions[:50]]


def test_detokenize_takes_every_form_of_ids(tokenizer):
    lines = ["A man rides.", "", "Hunde"]
    ids = tokenizer.tokenize(lines)
    assert texts(tokenizer.detokenize(ids.to_list())) == lines
    assert texts(tokenizer.detokenize(ids.to_tensor())) == lines  # padded with 0
    assert texts(tokenizer.detokenize(ids.to_tensor().numpy().astype(np.int64))) == lines
    assert texts(tokenizer.detokenize(tf.cast(ids, tf.int64).with_row_splits_dtype(tf.int32)))
    assert texts(tokenizer.detokenize([])) == []
    assert texts(tokenizer.detokenize([[], []])) == ["", ""]


def test_special_and_impossible_ids_do_not_crash(tokenizer):
    word = tokenizer.tokenize(["Hund"]).to_list()[0]
    size = tokenizer.vocab_size
    rows = [
        [BEGIN_ID, *word, END_ID, PAD_ID, PAD_ID],
        [UNK_ID],
        [*word, size],
        [-1, size + 7, 2**31 - 1],
    ]
    assert texts(tokenizer.detokenize(rows)) == ["Hund", "⁇", "Hund⁇", "⁇⁇⁇"]


def test_any_ids_give_valid_utf8(tokenizer):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, tokenizer.vocab_size, [200, 30]).tolist()
    rows += rng.integers(4, 260, [200, 30]).tolist()  # BPE: bytes in any order
    assert len(texts(tokenizer.detokenize(rows))) == 400


def test_bytes_that_are_not_utf8_become_replacement_characters(bpe, wordpiece):
    broken = [b"a\xffb", b"\xe2\x96", b"\xed\xa0\x80", b"ok \xf0\x9f\x98"]
    expected = [x.decode("utf-8", "replace") for x in broken]
    returned = round_trip(bpe, broken)
    # How many marks stand for one broken sequence differs by decoder.
    assert [x.rstrip("\ufffd") for x in returned] == [x.rstrip("\ufffd") for x in expected]
    assert all("\ufffd" in x for x in returned)
    assert round_trip(wordpiece, broken)[0] == "a⁇b"


def test_normalisation_is_the_same_in_python_and_in_the_graph():
    everything = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    marks = [char for char in everything if unicodedata.combining(char)]
    clusters = [a + b + "\u0323" for a, b in itertools.product("aÅ가", marks)]
    for strings in (everything, clusters):
        assert texts(normalize_tensor(tf.constant(strings))) == [*map(normalize_text, strings)]


def test_composed_and_decomposed_text_is_the_same_text(tokenizer):
    composed, decomposed = tokenizer.tokenize(["Bär über Äpfel", "Bär über Äpfel"]).to_list()
    assert composed == decomposed


def test_works_inside_a_dataset_and_a_function(tokenizer, captions):
    expected = tokenizer.tokenize(captions[:64]).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(captions[:64]).batch(16).map(tokenizer.tokenize)
    assert [row for batch in dataset for row in batch.to_list()] == expected

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def there_and_back(strings):
        return tokenizer.detokenize(tokenizer.tokenize(strings))

    assert texts(there_and_back(tf.constant(captions[:64]))) == captions[:64]


def test_wrong_shapes_are_named(tokenizer):
    with pytest.raises(ValueError, match=r"shape \[batch\]; received shape \(\)"):
        tokenizer.tokenize("a text")
    with pytest.raises(ValueError, match=r"shape \[batch, length\]; received shape \(3,\)"):
        tokenizer.detokenize(tf.constant([4, 5, 6]))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tokenizer.id_to_piece(-1)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tokenizer.id_to_piece(tokenizer.vocab_size)


def test_saved_file_gives_the_same_tokenizer(tokenizer, captions, tmp_path):
    tokenizer.save(tmp_path / "any.name")
    loaded = load_tokenizer(tmp_path / "any.name")
    assert type(loaded) is type(tokenizer)
    assert (loaded.kind, loaded.vocab_size) == (tokenizer.kind, 2000)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.tokenize(captions[:99]).to_list() == tokenizer.tokenize(captions[:99]).to_list()


ZERO = b'{"kind": "wordpiece", "pieces": ["[PAD]", "[UNK]", "[BEGIN]", "[END]", "a", "\\u0000"]}'


@pytest.mark.parametrize(
    "content",
    [b"", b"\x0a\x03abc", b"{}", b"[PAD]\n[UNK]\n", b'{"kind": "wordpiece"}', b"{\xff", ZERO],
)
def test_what_is_no_vocabulary_is_named(tmp_path, content):
    (tmp_path / "bad.model").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.model.*"):
        load_tokenizer(tmp_path / "bad.model")
    with pytest.raises(ValueError, match="nowhere.*cannot be read"):
        load_tokenizer(tmp_path / "nowhere")


def train_foreign(tmp_path, captions, **options):
    (tmp_path / "text").write_text("\n".join(captions[:500]), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "foreign"),
        vocab_size=300,
        minloglevel=2,
        **options,
    )
    return tmp_path / "foreign.model"


def test_other_special_ids_are_refused_and_named(tmp_path, captions):
    path = train_foreign(tmp_path, captions)  # SentencePiece's own ids
    with pytest.raises(ValueError, match="found pad missing, unknown 0, begin 1, end 2"):
        load_tokenizer(path)
    pieces = ["[UNK]", "[PAD]", "[BEGIN]", "a"]
    path.write_text(json.dumps({"kind": "wordpiece", "pieces": pieces}))
    with pytest.raises(ValueError, match="found pad 1, unknown 0, begin 2, end missing"):
        load_tokenizer(path)


@pytest.mark.parametrize("options", [{}, {"add_dummy_prefix": False, "model_type": "bpe"}])
def test_foreign_sentencepiece_models_work(tmp_path, captions, options):
    options |= {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "character_coverage": 1.0}
    foreign = SentencePieceTokenizer(train_foreign(tmp_path, captions, **options))
    known = [line for line in captions[:100] if "  " not in line.strip() and line == line.strip()]
    assert round_trip(foreign, known) == known
    assert round_trip(foreign, ["a ☃"]) == ["a ⁇"]


def test_missing_tensorflow_text_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(ImportError, match=r'pip install "tensorflow-text>=2\.21\.1,<2\.22"'):
        import_tensorflow_text()


FRESH_PROCESS = """
import sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8", newline="\\n").read().split("\\n")
for kind in ("bpe", "wordpiece"):
    ids = model.signatures[kind + "_encode"](source=tf.constant(lines))
    back = model.signatures[kind + "_decode"](ids=ids["ids"], lengths=ids["lengths"])["text"]
    open(sys.argv[3] + kind, "wb").write(b"\\n".join(back.numpy()))
assert not [name for name in sys.modules if name.startswith(("keras_transformer", "sentencepiece"))]
"""


class Exported(tf.Module):
    """Both tokenizers behind dense signatures, as a served translator would hold them."""

    def __init__(self, tokenizers):
        super().__init__()
        self.tokenizers = tokenizers

    def signatures(self):
        for tokenizer in self.tokenizers:
            yield tokenizer.kind + "_encode", self.encode(tokenizer)
            yield tokenizer.kind + "_decode", self.decode(tokenizer)

    def encode(self, tokenizer):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "source")])
        def encode(source):
            ids = tokenizer.tokenize(source)
            return {"ids": ids.to_tensor(), "lengths": ids.row_lengths()}

        return encode

    def decode(self, tokenizer):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None], tf.int32, "ids"),
                tf.TensorSpec([None], tf.int64, "lengths"),
            ]
        )
        def decode(ids, lengths):
            return {"text": tokenizer.detokenize(tf.RaggedTensor.from_tensor(ids, lengths))}

        return decode


def test_saved_model_works_in_a_fresh_process_from_a_moved_folder(
    bpe, wordpiece, captions, tmp_path
):
    module = Exported([bpe, wordpiece])
    signatures = dict(module.signatures())
    tf.saved_model.save(module, str(tmp_path / "made"), signatures=signatures)
    shutil.move(tmp_path / "made", tmp_path / "moved")
    lines = captions[:500] + [odd for odd in ODD if "\n" not in odd]
    (tmp_path / "lines").write_bytes("\n".join(lines).encode())
    arguments = [tmp_path / "moved", tmp_path / "lines", tmp_path / "back."]
    subprocess.run([sys.executable, "-c", FRESH_PROCESS, *arguments], check=True, cwd="/")
    for tokenizer in (bpe, wordpiece):
        back = (tmp_path / f"back.{tokenizer.kind}").read_bytes().decode("utf-8").split("\n")
        assert back == round_trip(tokenizer, lines)


def test_only_ops_of_the_stock_server_are_used(bpe, wordpiece):
    used = set()
    for _, function in Exported([bpe, wordpiece]).signatures():
        graph = function.get_concrete_function().graph.as_graph_def()
        nodes = itertools.chain(graph.node, *(f.node_def for f in graph.library.function))
        used |= {node.op for node in nodes}
    # tf.raw_ops has TensorFlow's own ops, which every server carries.
    assert {op for op in used if not hasattr(tf.raw_ops, op)} == {
        "NormalizeUTF8",
        "SentencepieceTokenizeOp",
        "SentencepieceDetokenizeOp",
        "FastWordpieceTokenizeWithOffsets",
    }


def test_a_tokenizer_outlives_a_seed_being_set_and_a_twin_being_deleted():
    lines = ["the old man reads a book"] * 20
    tokenizer, twin = (learn_tokenizer(lines, vocab_size=280) for _ in range(2))
    tokenize = tf.function(lambda strings: tokenizer.tokenize(strings).flat_values)
    before = tokenize(tf.constant(lines[:1])).numpy().tolist()
    del twin
    keras.utils.set_random_seed(1)
    gc.collect()
    assert tokenizer.tokenize(lines[:1]).to_list() == [before]
    assert tokenize(tf.constant(lines[:1])).numpy().tolist() == before


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "unigram"},
        {"model_type": "bpe", "byte_fallback": True, "user_defined_symbols": ["<x>"]},
        {"model_type": "bpe", "pad_id": 3, "normalization_rule_name": "identity"},
        {"model_type": "bpe", "user_defined_symbols": ["<pad>"], "unk_surface": ""},
        {"model_type": "char", "control_symbols": ["<pad>"]},
    ],
)
def test_any_sentencepiece_model_is_adopted_and_cuts_as_before(tmp_path, captions, options):
    (tmp_path / "text").write_text("\n".join(captions), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "theirs"),
        minloglevel=2,
        **({"vocab_size": 600} | ({"vocab_size": 60} if "control_symbols" in options else {})),
        **options,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    ours = adopt_sentencepiece(tmp_path / "theirs.model")
    assert ours.pieces(range(4))[1:] == ["<unk>", "<s>", "</s>"]
    has_pad = theirs.pad_id() >= 0 or theirs.is_control(theirs.piece_to_id("<pad>"))
    assert ours.vocab_size == theirs.get_piece_size() + (not has_pad)
    lines = [*captions[:300], "Zoë <x> ½", "日本", "<pad> a"]
    for line, ids in zip(lines, ours.tokenize(lines).to_list(), strict=True):
        expected = [theirs.id_to_piece(i) for i in theirs.encode(line)]
        assert ours.pieces(ids) == expected
    ours.save(tmp_path / "ours.model")
    assert load_tokenizer(tmp_path / "ours.model").fingerprint == ours.fingerprint


def test_what_cannot_be_adopted_is_named(tmp_path, captions):
    with pytest.raises(ValueError, match="gone.*cannot be read"):
        adopt_sentencepiece(tmp_path / "gone")
    (tmp_path / "text").write_text("\n".join(captions), encoding="utf-8")
    for content in (b"", b"\n\0", b"text"):
        (tmp_path / "empty").write_bytes(content)
        with pytest.raises(ValueError, match="empty' is neither a SentencePiece model nor"):
            adopt_sentencepiece(tmp_path / "empty")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "x"), vocab_size=600, bos_id=-1,
        minloglevel=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match="has no begin piece.*--bos_id=-1"):
        adopt_sentencepiece(tmp_path / "x.model")
