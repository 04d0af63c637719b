"""Each measure gives what the programs of the field printed for other systems' outputs."""

import pytest

from keras_transformer.cli import main
from keras_transformer.evaluation.bleu import corpus_bleu
from keras_transformer.evaluation.measures import MEASURES, make_measure
from keras_transformer.evaluation.multi_bleu import (
    make_multi_bleu,
    moses_tokens,
    only_perls_spaces,
    split_compounds,
)
from keras_transformer.text.lines import read_lines

HYPOTHESES = ["Der Hund schläft im Garten des Hauses .", "Es regnet usw.", "", "Ja, a-b-c und d"]
REFERENCES = ["Der Hund schlief im Garten des Hauses .", "Es regnet usw.", "x", "Ja, a-b-c und d"]


def of_tokens(hypotheses, references):
    metric = make_multi_bleu()
    return metric.corpus_score(only_perls_spaces(hypotheses), [only_perls_spaces(references)])


def scored(measure, hypotheses, references):
    """By what ORACLE.tsv calls a measure."""
    if measure == "multi-bleu":
        return of_tokens(hypotheses, references)
    if measure == "atat+multi-bleu":
        return of_tokens(*(list(map(split_compounds, side)) for side in (hypotheses, references)))
    if measure.startswith("sacrebleu"):
        tokenizer = measure.split("tok:")[1].split()[0]
        return make_measure("sacrebleu", tokenizer=tokenizer).metric.corpus_score(
            hypotheses, [references]
        )
    name = "paper" if measure == "get_ende_bleu.sh pipeline" else "tokenized"
    measure = make_measure(name, "de")
    sides = measure.prepare(hypotheses, False), [measure.prepare(references, True)]
    return measure.metric.corpus_score(*sides)


def test_every_stored_score_comes_out_with_all_its_parts(real_data):
    folder = real_data / "bleu-oracles"
    rows = [line.split("\t") for line in read_lines(folder / "ORACLE.tsv")[1:]]
    assert len(rows) == 20
    for hypotheses, references, measure, expected in rows:
        found = scored(measure, read_lines(folder / hypotheses), read_lines(folder / references))
        if measure.startswith("sacrebleu"):
            assert f"{found.score:.4f} {found}" == expected
            continue
        precisions = "/".join(f"{one:.1f}" for one in found.precisions)
        ratio = found.sys_len / found.ref_len
        assert (
            f"BLEU = {found.score:.2f}, {precisions} (BP={found.bp:.3f}, ratio={ratio:.3f}, "
            f"hyp_len={found.sys_len}, ref_len={found.ref_len})"
        ) == expected, (hypotheses, measure)


def test_moses_splits_the_last_full_stop_and_escapes_what_xml_means():
    lines = ["Es regnet usw.", "Mr. X & z. B. <b>", "So...", "1.", ""]
    assert moses_tokens(lines, "de") == [
        "Es regnet usw .",
        "Mr. X &amp; z. B. &lt; b &gt;",
        "So ...",
        "1 .",
        "",
    ]
    unified = moses_tokens(["“So” ja…"], "de", unify_punctuation=True)
    assert unified == ["&quot; So &quot; ja ..."]


def test_spaces_beyond_ascii_are_no_ends_of_tokens():
    (line,) = only_perls_spaces(["a\u00a0b c\u2028d\te"])
    assert [len(token) for token in line.split()] == [3, 3, 1]
    assert of_tokens(["a\u00a0b c d e f"], ["a\u2009b c d e f"]).precisions[0] == 80


def test_chrf_ter_and_case_are_sacrebleus():
    chrf = make_measure("chrf")(HYPOTHESES, REFERENCES)
    ter = make_measure("ter")(HYPOTHESES, REFERENCES)
    assert chrf.text.startswith("chrF2 = ") and "nc:6" in chrf.signature
    assert 0 < ter.score < 50 and "case:mixed" in ter.signature
    upper = [line.upper() for line in HYPOTHESES]
    for name in ("sacrebleu", "chrf", "ter"):
        score = make_measure(name)(HYPOTHESES, REFERENCES).score
        assert make_measure(name)(upper, REFERENCES).score != pytest.approx(score)
        lower = make_measure(name, lowercase=True)(upper, REFERENCES).score
        assert lower == pytest.approx(score)
    assert (
        make_measure("sacrebleu")(HYPOTHESES, REFERENCES)[:2]
        == corpus_bleu(HYPOTHESES, REFERENCES)[:2]
    )


def test_resampling_says_how_sure_a_score_is_and_a_difference_too():
    hypotheses, references = HYPOTHESES * 30, REFERENCES * 30
    plain = make_measure("sacrebleu")(hypotheses, references)
    sure = make_measure("sacrebleu")(hypotheses, references, resamples=200)
    assert sure.score == plain.score and "μ" in sure.text and "bs:200" in sure.signature
    worse = [line.replace("Garten", "Haus") for line in hypotheses]
    for name in MEASURES:
        first, second, third = make_measure(name, "de").compare(
            {"a": hypotheses, "b": worse, "c": list(hypotheses)}, references, resamples=200
        )
        assert first.p_value is None and second.p_value < 0.05 < third.p_value
        assert (first.name, second.name, third.score) == ("a", "b", first.score)
        assert abs(first.mean - first.score) < 3 * first.margin


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "bleu"}, "no measure 'bleu'. There are: sacrebleu, tokenized, paper, chrf, ter"),
        ({"name": "paper"}, "'paper' cuts into tokens .* --language de"),
        ({"name": "tokenized", "language": "de", "lowercase": True}, "is cased"),
        ({"name": "paper", "language": "german"}, "languages .*de.*Received: 'german'"),
        ({"name": "sacrebleu", "tokenizer": "x"}, "no tokenizer 'x'"),
    ],
)
def test_what_cannot_be_measured_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        make_measure(**options)


def test_unequal_lines_are_an_error_with_both_numbers():
    for name in MEASURES:
        with pytest.raises(ValueError, match="1 translations and 2 references"):
            make_measure(name, "de")(["a"], ["a", "b"])


def test_the_command_scores_texts_that_are_there(tmp_path, capsys):
    files = {"a": HYPOTHESES, "b": REFERENCES, "ref": REFERENCES}
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "short").write_text("a\n")
    a, b, reference = (str(tmp_path / name) for name in files)
    evaluate = ["evaluate", "--reference", reference, "--hypothesis"]
    assert main([*evaluate, a, "--measure", "paper", "ter", "--language", "de"]) == 0
    expected = [make_measure(name, "de")(HYPOTHESES, REFERENCES) for name in ("paper", "ter")]
    lines = [line for score in expected for line in (score.text, score.signature)]
    assert capsys.readouterr().out.splitlines() == lines
    assert main([*evaluate, a, b, "--resamples", "100"]) == 0
    title, first, second = capsys.readouterr().out.splitlines()
    assert title.startswith("sacrebleu|") and title.endswith("|resamples:100")
    assert first.startswith(f"{a}\t") and "\tp = 0." in second
    for wrong, message in (
        ([a, "--model", "runs/x"], "one of --model"),
        ([a, "--source", b], "--source"),
        ([a, a], "twice"),
        ([a, "--resamples", "1"], "at least 2"),
        ([a, "--resamples", "99999999999"], "at most 100000"),
        ([a, "--measure", "paper"], "--language de"),
        ([a, str(tmp_path / "short")], "short has 1 lines"),
    ):
        assert main([*evaluate, *wrong]) == 2
        assert message in capsys.readouterr().err
