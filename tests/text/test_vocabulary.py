"""Learning is exact, repeatable and loud about what it cannot do; saving is checked on loading."""

import json
import os
import re
import subprocess
import sys

import pytest

from keras_transformer.text.lines import write_lines
from keras_transformer.text.vocabulary import Vocabularies, learn_tokenizer

KINDS = pytest.mark.parametrize("kind", ["bpe", "wordpiece"])


@KINDS
@pytest.mark.parametrize("vocab_size", [500, 777])
def test_the_size_asked_for_is_the_size_got(captions, kind, vocab_size):
    tokenizer = learn_tokenizer(captions[:600], kind, vocab_size)
    assert tokenizer.vocab_size == vocab_size
    ids = tokenizer.tokenize(captions).flat_values.numpy()
    assert 3 < ids.max() < vocab_size


@pytest.mark.slow
def test_the_same_text_gives_the_same_vocabulary_in_another_process(captions, tmp_path):
    lines = captions[:400]
    write_lines(tmp_path / "lines", lines)
    code = (
        "import sys\n"
        "from keras_transformer.text.lines import iter_lines\n"
        "from keras_transformer.text.vocabulary import learn_tokenizer\n"
        "for kind in ('bpe', 'wordpiece'):\n"
        "    tokenizer = learn_tokenizer(iter_lines(sys.argv[1]), kind, 600)\n"
        "    print('fingerprint', tokenizer.fingerprint)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "lines")],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = re.findall(r"^fingerprint (\w{64})$", result.stdout, re.M)
    assert theirs == [learn_tokenizer(lines, kind, 600).fingerprint for kind in KINDS.args[1]]
    assert "sentencepiece" not in result.stderr.lower() and "normalizer.cc" not in result.stderr


@KINDS
def test_too_large_a_vocabulary_names_the_largest_which_then_works(captions, kind):
    lines = captions[:20]
    with pytest.raises(ValueError, match="vocab_size=8000 is too large") as error:
        learn_tokenizer(lines, kind, 8000)
    largest = int(re.search(r"at most (\d+) pieces", str(error.value))[1])
    assert learn_tokenizer(lines, kind, largest).vocab_size == largest
    with pytest.raises(ValueError, match="too large"):
        learn_tokenizer(lines, kind, largest + 1)


@KINDS
def test_too_small_a_vocabulary_names_the_smallest_which_then_works(captions, kind):
    lines = captions[:20]
    with pytest.raises(ValueError, match="vocab_size=20 is too small") as error:
        learn_tokenizer(lines, kind, 20)
    smallest = int(re.search(r"need (\d+)", str(error.value))[1])
    tokenizer = learn_tokenizer(lines, kind, smallest)
    assert tokenizer.vocab_size == smallest
    assert tokenizer.detokenize(tokenizer.tokenize(lines)).numpy()[0].decode() == lines[0]
    with pytest.raises(ValueError, match="too small"):
        learn_tokenizer(lines, kind, smallest - 1)


@KINDS
@pytest.mark.parametrize("lines", [[], [""], ["", "  ", "\t"]])
def test_text_without_text_is_refused(kind, lines):
    with pytest.raises(ValueError, match="no text to learn a vocabulary from"):
        learn_tokenizer(lines, kind, 300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "unigram"}, r"kind must be one of \['bpe', 'wordpiece'\]; received 'unigram'"),
        ({"vocab_size": 0}, "vocab_size must be a positive whole number.*; received 0"),
        ({"vocab_size": 300.0}, "vocab_size must be a positive whole number.*; received 300.0"),
        ({"sample_size": -1}, "sample_size must be a positive whole number.*; received -1"),
        ({"lines": "one text"}, "received one str"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        learn_tokenizer(**{"lines": ["a b"], **arguments})


@KINDS
def test_odd_lines_are_learnt_from_and_not_dropped(kind):
    rare = {"qq": "\u2585", "jj": "\0", "zz": "\u2028", "yy": "\t"}
    lines = [f"{word} {odd} {word}" for word, odd in rare.items()] * 30
    lines += ["long " * 3000 + "xx xx xx"] * 30  # over SentencePiece's limit of 4,192 bytes
    low = {"bpe": 285, "wordpiece": 43}[kind]
    tokenizer = learn_tokenizer(lines, kind, low)
    pieces = set(tokenizer.pieces(range(low)))
    assert {"▁qq", "▁jj", "▁zz", "▁yy", "▁xx", "▁long"} <= pieces


@KINDS
def test_decomposed_text_teaches_composed_pieces(kind):
    size = {"bpe": 270, "wordpiece": 17}[kind]
    tokenizer = learn_tokenizer(["u\u0308ber u\u0308ber u\u0308ben"] * 9, kind, size)
    pieces = "".join(tokenizer.pieces(range(tokenizer.vocab_size)))
    assert "ü" in pieces
    assert "\u0308" not in pieces


def test_sample_is_drawn_by_the_seed_from_all_lines(captions):
    def learn(seed, size=300):
        return learn_tokenizer(iter(captions), "bpe", 500, seed, size).fingerprint

    assert learn(1) == learn(1)
    assert learn(1) != learn(2)
    assert learn(1, len(captions)) == learn_tokenizer(captions, "bpe", 500).fingerprint
    # English stands first: German words are in the sample only if all lines have their chance.
    sampled = learn_tokenizer(captions, "bpe", 1000, 1, 1000)
    assert {"▁the", "▁eine"} <= set(sampled.pieces(range(1000)))


@KINDS
@pytest.mark.parametrize("shared", [True, False])
def test_vocabularies_come_back_from_their_folder(captions, tmp_path, kind, shared):
    folder = tmp_path / "run" / "vocab"
    made = Vocabularies.learn(captions[:300], captions[-300:], kind, 400, shared)
    made.save(folder)
    read = Vocabularies.load(folder)
    suffix = {"bpe": ".model", "wordpiece": ".json"}[kind]
    names = ["shared" + suffix] if shared else ["source" + suffix, "target" + suffix]
    assert sorted(os.listdir(folder)) == sorted([*names, "vocab.json"])
    assert (read.source is read.target) == shared == read.shared
    assert (read.source.fingerprint == read.target.fingerprint) == shared
    assert read.fingerprint == made.fingerprint
    assert read.target.tokenize(captions).to_list() == made.target.tokenize(captions).to_list()
    index = json.loads((folder / "vocab.json").read_text())
    assert index["special_ids"] == {"pad": 0, "unknown": 1, "begin": 2, "end": 3}
    assert index["target"]["size"] == 400
    assert index["target"]["kind"] == kind
    assert index["fingerprint"] == made.fingerprint


def test_sides_are_not_mixed_up(captions):
    made = Vocabularies.learn(captions[:2000], captions[2000:], shared=False, vocab_size=1000)
    swapped = Vocabularies(made.target, made.source, False)
    assert made.fingerprint != swapped.fingerprint
    assert "▁the" in made.source.pieces(range(1000))
    assert "▁eine" in made.target.pieces(range(1000))
    assert "▁eine" not in made.source.pieces(range(1000))


def test_shared_means_one_tokenizer(bpe, wordpiece):
    with pytest.raises(ValueError, match="one tokenizer as both"):
        Vocabularies(bpe, wordpiece, True)


def test_the_side_at_fault_is_named(captions):
    with pytest.raises(ValueError, match="target side: there is no text"):
        Vocabularies.learn(captions[:300], [""], vocab_size=400, shared=False)


def test_a_folder_that_does_not_hold_together_is_refused(bpe, captions, tmp_path):
    with pytest.raises(ValueError, match="no vocabulary in"):
        Vocabularies.load(tmp_path)
    Vocabularies(bpe, bpe, True).save(tmp_path)
    learn_tokenizer(captions[:300], "bpe", 400).save(tmp_path / "shared.model")
    with pytest.raises(ValueError, match=r"shared\.model.*is not the vocabulary"):
        Vocabularies.load(tmp_path)
    (tmp_path / "shared.model").unlink()
    with pytest.raises(ValueError, match=r"shared\.model.*cannot be read"):
        Vocabularies.load(tmp_path)
    (tmp_path / "vocab.json").write_text('{"shared": true}')
    with pytest.raises(ValueError, match=r"vocab\.json.*damaged"):
        Vocabularies.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot be made"):
        Vocabularies(bpe, bpe, True).save(tmp_path / "file")
