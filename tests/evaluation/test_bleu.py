"""BLEU is sacreBLEU's, to the last digit that others' outputs were scored with."""

import pytest

from keras_transformer.evaluation.bleu import corpus_bleu
from keras_transformer.text.lines import read_lines


def test_the_stored_scores_of_other_systems_come_out(real_data):
    folder = real_data / "bleu-oracles"
    rows = [line.split("\t") for line in read_lines(folder / "ORACLE.tsv")[1:]]
    rows = [row for row in rows if row[2].startswith("sacrebleu 2.6.0")]
    assert len(rows) == 4
    for hypotheses, references, measure, expected in rows:
        tokenizer = measure.split("tok:")[1].split()[0]
        found = corpus_bleu(
            read_lines(folder / hypotheses), read_lines(folder / references), tokenizer
        )
        assert f"{found.score:.4f} {found.text}" == expected
        assert f"tok:{tokenizer}" in found.signature and "case:mixed" in found.signature


def test_case_counts_unless_it_is_told_not_to():
    hypotheses, references = ["A man rides a white horse ."], ["a man rides a white Horse ."]
    assert corpus_bleu(hypotheses, references).score < 50
    found = corpus_bleu(hypotheses, references, lowercase=True)
    assert found.score == pytest.approx(100) and "case:lc" in found.signature


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], ["a", "b"])])
def test_unequal_or_no_lines_are_an_error_with_both_numbers(hypotheses, references):
    message = f"{len(hypotheses)} translations and {len(references)} references"
    with pytest.raises(ValueError, match=message):
        corpus_bleu(hypotheses, references)


def test_a_tokenizer_that_cannot_be_had_is_said_so(monkeypatch):
    def fail(**options):
        raise RuntimeError("Japanese tokenization requires\nextra dependencies")

    monkeypatch.setattr("sacrebleu.metrics.BLEU", fail)
    with pytest.raises(ValueError, match="'ja-mecab' cannot be had: Japanese .* extra dep"):
        corpus_bleu(["a"], ["a"], "ja-mecab")
