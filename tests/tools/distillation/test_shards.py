"""Shards of a corpus, and the lines of their files."""

from fairseq_fastdec.tools.distillation.shards import Shards, rendered
from fairseq_fastdec.tools.translation.chunks import ChunkStore


def test_every_sentence_is_in_one_shard():
    shards = list(Shards(7, 3).chunks())
    assert [shard.sentences for shard in shards] == [range(0, 3), range(3, 6), range(6, 7)]
    assert [shard.n_lines for shard in shards] == [3, 3, 1]
    assert len({shard.source for shard in shards}) == 3


def test_sentences_can_be_empty_or_absent_or_hold_odd_characters(tmp_path):
    store, shards = ChunkStore(tmp_path), Shards(7, 3)
    contents = [{2: "a\u2028b\x85c \x1c", 0: ""}, {}, {6: "ü"}]
    for shard, translations in zip(shards.chunks(), contents):
        store.write(shard, rendered(translations))
    assert list(shards.translations(store)) == [(0, ""), (2, "a\u2028b\x85c \x1c"), (6, "ü")]
