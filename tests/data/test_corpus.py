"""Pairs from files, and what is said of unfit ones."""

import gzip

import pytest

from keras_transformer.data.corpus import ParallelText, read_parallel_files, read_tsv


def test_pairs_come_line_by_line_from_plain_and_gzip_files(tmp_path):
    (tmp_path / "a.en").write_text("one\r\n\ntwo\u2028three\n", encoding="utf-8")
    with gzip.open(tmp_path / "a.de.gz", "wt", encoding="utf-8") as file:
        file.write("eins\n\nzwei\n")
    text = read_parallel_files(tmp_path / "a.en", tmp_path / "a.de.gz")
    assert text.source == ["one", "", "two\u2028three"]
    assert text.target == ["eins", "", "zwei"]


def test_different_line_counts_are_an_error_that_names_both_counts(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    with pytest.raises(ValueError, match=r"a\.en.* 2 lines and the target 1"):
        read_parallel_files(tmp_path / "a.en", tmp_path / "a.de")


def test_an_empty_file_is_an_error(tmp_path):
    (tmp_path / "a.en").write_text("")
    with pytest.raises(ValueError, match="no sentence pairs"):
        read_parallel_files(tmp_path / "a.en", tmp_path / "a.en")


def test_tsv_gives_its_first_two_columns_and_names_a_line_without_tab(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("one\teins\tCC BY\ntwo\tzwei\n")
    text = read_tsv(path)
    assert (text.source, text.target) == (["one", "two"], ["eins", "zwei"])
    path.write_text("one\teins\ntwo zwei\n")
    with pytest.raises(ValueError, match="line 2"):
        read_tsv(path)


def test_the_fingerprint_depends_on_every_line_and_on_which_side_it_is():
    texts = [
        ParallelText(["a", "b"], ["c", "d"], "1"),
        ParallelText(["a", "B"], ["c", "d"], "2"),
        ParallelText(["c", "d"], ["a", "b"], "3"),
        ParallelText(["ab", ""], ["c", "d"], "4"),
    ]
    assert len({text.fingerprint for text in texts}) == len(texts)
    assert texts[0].fingerprint == ParallelText(["a", "b"], ["c", "d"], "other").fingerprint
