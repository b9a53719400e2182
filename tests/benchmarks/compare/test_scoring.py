"""BLEU: sacrebleu's of detokenised text, and nothing else."""

import pytest
import sacrebleu

from benchmarks.compare.scoring import Scorer, read_references

REFERENCES = {
    0: "Klicken Sie auf die Schaltfläche Speichern, um das Dokument zu sichern.",
    2: "Wählen Sie die Zellen aus.",
    1: "Das ist (fast) alles.",
}
TRANSLATIONS = {
    1: "Das ist (fast) alles.",
    0: "Klicken Sie auf die Schaltfläche Speichern, um Ihr Dokument zu sichern.",
    2: "Wählen Sie eine Zelle aus.",
    7: "Zu diesem Satz gibt es keine Referenz.",
}


def test_the_score_is_sacrebleus():
    scorer = Scorer()
    pairs = [(TRANSLATIONS[number], REFERENCES[number]) for number in range(3)]
    hypotheses, references = map(list, zip(*pairs))
    expected = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert 0 < expected < 100
    assert scorer.score(TRANSLATIONS, REFERENCES) == pytest.approx(expected)


def test_the_signature_is_known_before_anything_is_scored():
    before = Scorer().signature
    scorer = Scorer()
    scorer.score(TRANSLATIONS, REFERENCES)
    assert before == scorer.signature
    assert before == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert "tok:char" in Scorer("char", "de").signature


def test_what_cannot_be_scored_is_told():
    with pytest.raises(ValueError, match="there are no references"):
        Scorer().score(TRANSLATIONS, {})
    with pytest.raises(ValueError, match="2 of 3 references have no translation"):
        Scorer().score({1: "Ja."}, REFERENCES)


def test_references_are_the_lines_of_a_file(tmp_path):
    text = tmp_path / "test.de"
    text.write_text('Der "Name".\n\nEin\u2028Satz\n', encoding="utf-8")
    assert read_references(text, 3) == {0: 'Der "Name".', 1: "", 2: "Ein\u2028Satz"}
    with pytest.raises(
        ValueError, match=r"^--reference-text .*: has 3 lines, but the subset has 4 s"
    ):
        read_references(text, 4)
