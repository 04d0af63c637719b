"""tensor2tensor's vocabularies cut text as its own code does, which is written out here."""

import collections
import re
import unicodedata

import pytest
import tensorflow as tf

from keras_transformer.text.subwords import SubwordTokenizer
from keras_transformer.text.tokenizer import load_tokenizer, normalize_text
from keras_transformer.text.vocabulary import Vocabularies, adopt_tokenizer

ODD = [
    "",
    " ",
    "  ",
    " a",
    "a ",
    "a b c d",
    "a  b",
    "Dude - that's so cool.",
    "snake_case __init__ _",
    "back\\slash \\u \\\\ \\8364; \\",
    "5 € – 日本 х",
    "a\tb\nc",
    "x\u00a0y",
    "'quoted' \"twice\"",
    "naïve café",
]


@pytest.fixture(scope="module")
def file(captions, tmp_path_factory):
    """A vocabulary of the captions' characters and of frequent starts, parts and words."""
    counts = collections.Counter()
    for line in captions[::4]:
        for token in tokens_of(line):
            escaped = token.replace("\\", "\\\\").replace("_", "\\u") + "_"
            counts.update(escaped[i:j] for i in range(3) for j in range(i + 1, len(escaped) + 1))
    characters = {c for piece in counts for c in piece} | set("\\_u;0123456789<pad>EOS")
    frequent = [piece for piece, _ in counts.most_common(800) if len(piece) > 1]
    pieces = ["<pad>", "<EOS>", *frequent, *sorted(characters - {"é"})]
    path = tmp_path_factory.mktemp("t2t") / "vocab.subwords"
    path.write_text("".join(f"'{piece}'\n" for piece in pieces), encoding="utf-8")
    return path


def is_word(char):
    return unicodedata.category(char)[0] in "LN"


def tokens_of(text):
    """tokenizer.encode of tensor2tensor."""
    tokens = [text[:1]]
    for before, char in zip(text, text[1:], strict=False):
        if is_word(before) == is_word(char):
            tokens[-1] += char
        else:
            tokens.append(char)
    inner = [token for token in tokens[1:-1] if token != " "]
    return [token for token in (tokens[0], *inner, *tokens[1:][-1:]) if token]


def pieces_of(text, vocabulary, alphabet):
    """SubwordTextEncoder.encode of tensor2tensor, as strings."""
    found = []
    for token in tokens_of(text):
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        rest = "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_"
        while rest:
            found.append(next(rest[:n] for n in range(len(rest), 0, -1) if rest[:n] in vocabulary))
            rest = rest[len(found[-1]) :]
    return found


def text_of(pieces):
    """SubwordTextEncoder.decode of tensor2tensor."""

    def undone(match):
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        return chr(int(match[1])) if int(match[1]) < 0x110000 else "\u3013"

    tokens = [re.sub(r"\\u|\\\\|\\([0-9]+);", undone, t) for t in "".join(pieces).split("_") if t]
    text = "".join(tokens[:1])
    for before, token in zip(tokens, tokens[1:], strict=False):
        text += " " * (is_word(before[0]) and is_word(token[0])) + token
    return text


def test_pieces_and_texts_are_tensor2tensors(file, captions):
    tokenizer = SubwordTokenizer(file)
    lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vocabulary = {line[1:-1] for line in lines}
    assert tokenizer.vocab_size == len(lines) + 2
    alphabet = {c for piece in vocabulary for c in piece} | set("\\_u;0123456789")
    texts = [normalize_text(text) for text in [*ODD, *captions[:500]]]
    ids = tokenizer.tokenize(texts)
    for text, row in zip(texts, ids.to_list(), strict=True):
        assert tokenizer.pieces(row) == pieces_of(text, vocabulary, alphabet)
    back = [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    assert back == texts == [text_of(tokenizer.pieces(row)) for row in ids.to_list()]


def test_any_pieces_in_any_order_give_the_text_that_tensor2tensor_gives(file):
    tokenizer = SubwordTokenizer(file)
    generator = tf.random.Generator.from_seed(1)
    ids = generator.uniform([300, 12], 4, tokenizer.vocab_size, tf.int32)
    found = [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    assert found == [text_of(tokenizer.pieces(row)) for row in ids.numpy()]
    number = [tokenizer._pieces.index(c) for c in "\\99999999999;_"]
    assert tokenizer.detokenize([number]).numpy()[0].decode() == "\u3013"


def test_a_vocabulary_is_adopted_kept_and_exported(file, tmp_path):
    tokenizer = adopt_tokenizer(file)
    assert tokenizer.kind == "t2t"
    Vocabularies(tokenizer, tokenizer, True).save(tmp_path / "vocab")
    again = Vocabularies.load(tmp_path / "vocab").source
    assert again.fingerprint == tokenizer.fingerprint == load_tokenizer(file).fingerprint

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def there_and_back(self, texts):
            return self.tokenizer.detokenize(self.tokenizer.tokenize(texts))

    tf.saved_model.save(Module(), str(tmp_path / "export"))
    found = tf.saved_model.load(str(tmp_path / "export")).there_and_back(tf.constant(ODD))
    assert [text.decode() for text in found.numpy()] == [normalize_text(text) for text in ODD]


def test_what_is_no_vocabulary_is_refused(tmp_path):
    for content in (b"'<pad>'\n'x'\n", b"'<pad>'\n'<EOS>'\n", b"'<pad>\xff'\n"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ValueError, match="no tensor2tensor vocabulary"):
            adopt_tokenizer(tmp_path / "x")
    for piece in (b"=" * 300, b"\0", "\ufdd0".encode()):
        (tmp_path / "x").write_bytes(b"\xef\xbb\xbf'<pad>'\n'<EOS>'\n'" + piece + b"'\n")
        with pytest.raises(ValueError, match="line 3: a piece should have at most"):
            adopt_tokenizer(tmp_path / "x")
