"""Shards of a corpus, and the lines of their files."""

from fairseq_fastdec.corpora.chunks import ChunkStore
from fairseq_fastdec.tools.distillation.shards import rendered, shards_of, translations_in


def test_every_sentence_is_in_one_shard():
    shards = list(shards_of(7, 3))
    assert [shard.lines for shard in shards] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
    assert [(shard.number, shard.first, shard.n_lines) for shard in shards] == [
        (0, 0, 3), (1, 3, 3), (2, 6, 1),
    ]  # fmt: skip


def test_sentences_can_be_empty_or_absent_or_hold_odd_characters(tmp_path):
    store = ChunkStore(tmp_path)
    contents = [{2: "a\u2028b\x85c \x1c", 0: ""}, {}, {6: "ü"}]
    for shard, translations in zip(shards_of(7, 3), contents):
        store.write(shard, rendered(translations))
    assert list(translations_in(store, 3)) == [(0, ""), (2, "a\u2028b\x85c \x1c"), (6, "ü")]
