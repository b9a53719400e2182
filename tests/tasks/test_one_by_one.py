"""Sentences one by one, and bundles, honour the tokens that tasks add and force."""

import asyncio

import pytest

import fairseq_fastdec
from fairseq_fastdec.tools.export import export

LANGUAGES = {"many_to_many": ("xx", "yy"), "mbart": ("xx", "yy"), "bart": ("xx", "yy")}
LINES = ["a b c d", "e", "h g f e d c"]


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("options", [{}, {"beam": 3}])
def test_as_whole_batches(request, tmp_path, name, options):
    trained = request.getfixturevalue(name)
    source, target = LANGUAGES[name]
    places = {"source_lang": source, "target_lang": target}
    translator = fairseq_fastdec.load(trained.paths[0], trained.data, **places, **options)
    expected = [translator.translate(line) for line in LINES]

    async def run():
        return await asyncio.gather(*map(translator.translate_async, LINES))

    assert asyncio.run(run()) == expected
    assert all(translator.job(line, {}) is not None for line in LINES)
    path = tmp_path / "model.fastdec"
    export(translator, path)
    assert fairseq_fastdec.load(path).translate(LINES) == expected
    translator.close()
