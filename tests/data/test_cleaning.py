"""Pairs that are no translations are left out where asked, and counted."""

import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data.cleaning import clean
from keras_transformer.data.corpus import ParallelText

PAIRS = {
    "good": ("Two men ride.", "Zwei Männer reiten."),
    "good too": ("It costs 5 € – right?", "Es kostet 5 € – nicht?"),
    "the first again": ("Two men ride.", "Zwei Männer reiten."),
    "the same on both sides": ("Copyright 2014", "Copyright 2014"),
    "too long": ("one", "eins zwei drei vier fünf"),
    "nothing on one side": ("one two three", ""),
    "control": ("a \x07 bell", "ein Ton"),
    "broken": ("a \ufffd b", "a b c"),
    "another script": ("Hello there", "Привет там друг"),
    "a name in it": ("He said Привет to us", "Er sagte Привет zu uns"),
    "no letters": ("1 2 3 :", "1 2 3 .",),
}  # fmt: skip
EXPECTED = {
    "drop_control": (True, {"control", "broken"}),
    "max_length_ratio": (2.0, {"too long", "nothing on one side"}),
    "target_script": ("Latin", {"another script"}),
    "source_script": ("Cyrillic", set(PAIRS) - {"no letters"}),
    "drop_identical": (True, {"the same on both sides"}),
    "drop_duplicates": (True, {"the first again"}),
}


def text(names=tuple(PAIRS)):
    return ParallelText(*map(list, zip(*(PAIRS[n] for n in names), strict=True)), name="pairs")


@pytest.mark.parametrize("name", EXPECTED)
def test_each_filter_leaves_out_what_it_says_and_counts_it(name):
    value, unfit = EXPECTED[name]
    found, counts = clean(text(), DataConfig(**{name: value}))
    kept = [PAIRS[n] for n in PAIRS if n not in unfit]
    assert list(zip(found.source, found.target, strict=True)) == kept
    assert counts == {name: len(unfit)}


def test_all_together_count_each_pair_once():
    options = {name: value for name, (value, _) in EXPECTED.items() if name != "source_script"}
    found, counts = clean(text(), DataConfig(**options))
    assert found.source == [PAIRS[n][0] for n in ("good", "good too", "a name in it", "no letters")]
    assert sum(counts.values()) == len(PAIRS) - 4 and set(counts) == set(options)


def test_without_options_nothing_is_touched_and_normalising_comes_first():
    given = text()
    assert clean(given, DataConfig()) == (given, {})
    twice = ParallelText(["caf\u00e9", "cafe\u0301"], ["x", "x"], "twice")
    assert len(clean(twice, DataConfig(drop_duplicates=True))[0]) == 2
    found, counts = clean(twice, DataConfig(drop_duplicates=True, normalize="NFC"))
    assert found.source == ["caf\u00e9"] and counts == {"drop_duplicates": 1}


def test_filters_that_leave_nothing_or_do_not_exist_are_errors():
    with pytest.raises(ValueError, match="leaves nothing of 1 pairs.*'source_script': 1"):
        clean(text(["good"]), DataConfig(source_script="Han"))
    with pytest.raises(ValueError, match="target_script should be a script of Unicode.*'Klingon'"):
        clean(text(), DataConfig(target_script="Klingon"))
    with pytest.raises(ValueError, match="max_length_ratio"):
        DataConfig(max_length_ratio=0.5)
    with pytest.raises(ValueError, match="normalize"):
        DataConfig(normalize="NFX")
