"""The example of super-resolution: its patches and symbols, and tiny models through all stages."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import options, utils
from fairseq.data import Dictionary
from fairseq.modules import SinusoidalPositionalEmbedding
from PIL import Image

from examples.common import commands
from examples.super_resolution import (
    beginning,
    intensities,
    patches,
    photographs,
    picture,
    recipe,
    results,
)
from examples.super_resolution import run as example
from fairseq_fastdec.decoding.methods.acceptance import acceptance_of
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import command_line, example_in_process, tiny

EMPTY = "<!-- images -->\n<!-- end of images -->\n"


def photograph(height=32, width=64, seed=0):
    """A slope with some noise."""
    slope = np.add.outer(np.arange(height), np.arange(width)).astype(float)
    return (slope + np.random.default_rng(seed).integers(40, 50, slope.shape)).astype(np.uint8)


def test_halved_pixels_are_means():
    pixels = np.array([[0, 1, 255, 255, 9], [2, 3, 255, 255, 9], [7, 7, 7, 7, 7]], dtype=np.uint8)
    assert patches.halved(pixels).tolist() == [[2, 255]]
    assert patches.halved(np.stack([pixels] * 3)).shape == (3, 1, 2)


def test_tiles_make_the_photograph_again():
    pixels = photograph(50, 70)
    tiles = patches.tiles(pixels)
    assert tiles.shape == (3 * 4, patches.HIGH, patches.HIGH)
    assert np.array_equal(tiles[1], pixels[:16, 16:32])
    assert np.array_equal(patches.joined(tiles, 4), pixels[:48, :64])


def test_a_square_has_eight_images():
    patch = photograph(16, 16)
    images = {patches.symmetry(patch, number).tobytes() for number in range(patches.N_SYMMETRIES)}
    assert len(images) == 8
    # The sources go along: it is all one whether a patch is first turned or first halved.
    for number in range(patches.N_SYMMETRIES):
        turned, halved = patches.symmetry(patch, number), patches.halved(patch)
        assert np.array_equal(patches.halved(turned), patches.symmetry(halved, number))


def test_patches_are_drawn_from_both_sizes_and_of_any_brightness():
    flat, dotted = np.full((64, 80), 255, dtype=np.uint8), np.zeros((40, 40), dtype=np.uint8)
    dotted[::2, ::2] = 40  # 10 when halved, and flat
    dotted[:, :2] = 200
    drawn = patches.draw([flat, dotted], 300, seed=3)
    assert np.array_equal(drawn, patches.draw([flat, dotted], 300, seed=3))
    contrasts = np.ptp(drawn.reshape(300, -1), axis=1)
    assert {0, 40} < set(contrasts.tolist()) <= {0, 40, 160, 190, 200}
    assert 60 < (contrasts == 40).sum() < 100
    levels = drawn[contrasts == 0][:, 0, 0]
    assert levels.min() < 10 and levels.max() > 245 and len(set(levels.tolist())) > 100


def test_lines_and_back(tmp_path):
    made = patches.draw([photograph()], 5, seed=1)
    patches.write_pairs(tmp_path / "train", made)
    low, high = (
        (tmp_path / f"train.{language}").read_text().splitlines() for language in ("low", "high")
    )
    assert high[0].split()[:17] == [str(value) for value in made[0].flatten()[:17]]
    assert np.array_equal(patches.from_lines(high), made)
    sources = patches.from_lines(low)
    assert np.array_equal(sources[:, 1::2, 1::2], patches.halved(made))
    assert np.array_equal(patches.gathered(sources), patches.halved(made))
    with pytest.raises(ValueError):
        patches.from_lines([*low, "7 8"])


def test_psnr():
    truth = np.full((2, 16, 16), 100, dtype=np.uint8)
    assert patches.psnr(truth + 1, truth) == pytest.approx(48.13, abs=0.005)
    assert patches.psnr(truth - 1, truth) == pytest.approx(48.13, abs=0.005)


def test_a_flat_patch_is_enlarged_to_itself():
    low = np.stack([np.full((8, 8), value, dtype=np.uint8) for value in (7, 200)])
    for method in results.SCALE.values():
        made = patches.enlarged(low, method)
        assert np.array_equal(made, low.repeat(2, axis=1).repeat(2, axis=2))


def test_the_dictionary_has_the_distances_of_intensities(tmp_path):
    intensities.write_dictionary(tmp_path / "dict.txt")
    words = Dictionary.load(str(tmp_path / "dict.txt"))
    assert len(words) == words.nspecial + 256
    best = [0, 100, 100, 100, 255, 99]
    proposed = [2, 98, 103, 10, 0, 101]
    tokens = [
        torch.tensor([[words.index(str(value)) for value in values]]) for values in (proposed, best)
    ]
    proposed, best = tokens
    log_probs = torch.full((1, 6, len(words)), -1.0).scatter_(-1, best[..., None], 0.0)
    options = DecodingOptions(decoding="blockwise", acceptance="distance", acceptance_distance=2)
    test, _ = acceptance_of(options, words)
    verdict = test(proposed, log_probs)
    assert verdict.tolist() == [[True, True, False, False, False, True]]


def test_embeddings_of_near_intensities_are_alike(tmp_path):
    intensities.write_embeddings(tmp_path / "embeddings.txt", 64)
    loaded = utils.parse_embedding(str(tmp_path / "embeddings.txt"))
    rows = torch.stack([loaded[str(value)] for value in range(256)])
    assert torch.allclose(rows.norm(dim=1), torch.ones(256), atol=1e-3)
    alike = rows @ rows[100]
    assert 1 > alike[101] > alike[102] > alike[104] > alike[108] > alike[200]
    assert max(alike[:80].max(), alike[120:].max()) < 0.5


@pytest.mark.parametrize("offset", [0, beginning.ABOVE])
def test_the_first_head_looks_at_one_position(offset):
    """With what a new model has: waves of positions, embeddings that leave the quickest free."""
    task = tiny.task(20)
    model = tiny.build_model(task, encoder_embed_dim=128, decoder_embed_dim=128)
    layer = model.decoder.layers[1]
    attention = layer.encoder_attn if offset == 0 else layer.self_attn
    model.load_state_dict(beginning.look(model.state_dict()))
    positions = SinusoidalPositionalEmbedding.get_embedding(200, 128, None)
    symbols = torch.from_numpy(intensities.waves(128)).float() * 128**0.5
    generator = torch.Generator().manual_seed(1)
    states = positions + symbols[torch.randint(256, (200,), generator=generator)]
    states = torch.nn.functional.layer_norm(states, [128])
    with torch.no_grad():
        queries, keys = (
            projection(states)[:, : beginning.HEAD_DIM]
            for projection in (attention.q_proj, attention.k_proj)
        )
    shares = (queries @ keys.t() / beginning.HEAD_DIM**0.5).softmax(dim=1)[50:150]
    places = torch.arange(50, 150) + offset
    near = [shares[torch.arange(100), places + step].mean() for step in (-2, -1, 0, 1, 2)]
    assert near[2] > 0.4 and sum(near) > 0.9
    assert near[1] > 5 * near[0] and near[3] > 5 * near[4]


def test_no_photograph_is_trained_on_and_tested():
    names = [*photographs.TRAIN, *photographs.VALID, *photographs.TEST]
    assert len(set(names)) == len(names)
    readme = (Path(example.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in readme for name in names)


def test_colours_become_grey():
    pixels = np.zeros((2, 3, 3), dtype=np.uint8)
    pixels[0] = 255
    assert photographs.grey(pixels).tolist() == [[255] * 3, [0] * 3]
    assert photographs.grey(pixels[..., 0]) is not None


def test_without_scikit_image(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.delitem(sys.modules, "skimage.data", raising=False)
    with pytest.raises(SystemExit, match="pip install scikit-image"):
        photographs.load(photographs.TEST)


def test_all_commands_parse(tmp_path, monkeypatch):
    ran = []

    def run(command):
        ran.append(command)
        assert os.environ["OMP_NUM_THREADS"] == "1"

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(recipe, "write_first_heads", lambda *arguments: None)
    monkeypatch.setattr(recipe, "rewrite", lambda *arguments: None)
    for name in ("new", "base", "frozen", "fine-tuned-2", "sequential"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "argv", ["run.py", "--workdir", str(tmp_path), "--block-sizes", "2"])
    methods = example.train(tmp_path, example.parse_args())
    assert [method.model.parent.name for method in methods] == [
        "base", "frozen", "frozen", "fine-tuned-2", "fine-tuned-2", "sequential", "sequential",
    ]  # fmt: skip
    parsed = []
    for words in ran:
        parser = options.get_training_parser()
        parsed.append(options.parse_args_and_arch(parser, [str(word) for word in words[1:]]))
    names = [Path(args.save_dir).name for args in parsed]
    assert sorted(names[2:4]) == ["frozen", "sequential"]  # side by side
    assert [*names[:2], names[4]] == ["new", "base", "fine-tuned-2"]
    assert [args.freeze_base for args in parsed[2:]] == [True, True, False]
    assert [args.block_size for args in parsed[2:]] == [10, 10, 2]
    assert Path(parsed[1].finetune_from_model).name == "looking.pt"
    assert Path(parsed[4].finetune_from_model).name == "first_2.pt"


def test_block_sizes_do_not_depend_on_the_machine():
    """Sequential heads propose less often where their proposals save no time."""
    for setting in example.SETTINGS.values():
        words = [str(word) for word in setting.options(4)]
        assert words[words.index("--proposal-confidence") + 1] == "0"


@pytest.fixture
def small(monkeypatch, caplog):
    """The example on small photographs, its commands in this process; returns what was run."""
    programs, run = example_in_process.runner(caplog)
    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(
        photographs, "load", lambda names: [photograph(seed=len(name)) for name in names]
    )
    monkeypatch.setattr(example, "load", photographs.load)
    monkeypatch.setattr(recipe, "DIM", 64)
    sizes = ["--max-source-positions", "257", "--max-target-positions", "257"]
    sizes += ["--encoder-embed-dim", "64", "--decoder-embed-dim", "64"]
    monkeypatch.setattr(recipe, "NETWORK", [*command_line.TINY, *sizes])
    monkeypatch.setattr(recipe, "PATCHES_PER_UPDATE", 4)
    monkeypatch.setattr(recipe, "SIZES", {"full": recipe.Size(64, 6, 6, 6)})
    return programs


def test_all_stages(small, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(EMPTY, encoding="utf-8")
    monkeypatch.setattr(example, "PAGE", page)
    monkeypatch.setattr(example, "PICTURE", tmp_path / "here" / "super_resolution.png")
    example.PICTURE.parent.mkdir()
    arguments = ["--workdir", str(tmp_path), "--block-sizes", "2", "--rounds", "1"]
    arguments += ["--size", "full"]
    settings = ["approximate", "both", "sequential heads"]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments, "--settings", *settings])
    example.main()
    assert small.count("fairseq-train") == 5 and small.count("fairseq-generate") == 4
    printed = capsys.readouterr().out
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert tables in printed
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in tables.splitlines()]
    assert ["k", "", *results.COLUMNS] in rows
    assert ["1", "ours", "1.00", "", "", ""] in rows
    assert ["2", "paper", *results.THE_PAPER[2]] in rows
    (blocks,) = (row[2:] for row in rows if row[:2] == ["2", "ours"])
    qualities = {tuple(row[:2]): row[2:] for row in rows if len(row) == 7}
    assert qualities["greedy", "1"][1:3] == ["1.00", str(2 * 2 * 257)]
    # p_1 is the base where that is frozen, and accepts no other token than its own.
    exact = ("sequential heads", "2")
    assert qualities[exact][0] == qualities["greedy", "1"][0]
    assert all(float(qualities[setting, "2"][1]) > 0 for setting in settings)
    own = [qualities[setting, "2"][1] for setting in ("approximate", "both")]
    assert blocks == ["", own[0], "", own[1]]
    assert float(qualities["bicubic", ""][0]) > float(qualities["nearest neighbour", ""][0])
    for setting in settings:
        folder = f"{setting}-2-round-1".replace(" ", "-")
        results_of = (tmp_path / "decoded" / folder / "generate-test.txt").read_text()
        hypotheses = results.numbered(r"H-(\d+)\t[^\t\n]*", results_of)
        assert len(hypotheses) == 4
        assert {len(text.split()) for text in hypotheses.values()} == {patches.N_PIXELS}
    with Image.open(tmp_path / "super_resolution.png") as drawn:
        assert drawn.size == (4 * (64 + picture.GAP) - picture.GAP, 32 + picture.CAPTION)
    before = len(small)
    assert page.read_text(encoding="utf-8") == EMPTY
    monkeypatch.setattr(example, "SETTINGS", {name: example.SETTINGS[name] for name in settings})
    monkeypatch.setattr(example, "BLOCK_SIZES", (2,))
    example.main()
    # The whole table of this size, without another command.
    assert len(small) == before and tables in page.read_text(encoding="utf-8")
    assert example.PICTURE.read_bytes() == (tmp_path / "super_resolution.png").read_bytes()


def test_times_are_medians_of_rounds_beside_greedys(tmp_path):
    patch = np.zeros((1, 16, 16), dtype=np.uint8)
    low = np.ones((1, 8, 8), dtype=np.uint8)

    def decoded(setting, block_size, mean, *seconds):
        times = [float(s) for s in seconds]
        return results.Decoded(
            setting, block_size, patch + 1, low, patch, mean, 9, times, "12345678 and more"
        )

    runs = [decoded(results.GREEDY, 1, 1.0, 2, 4, 4), decoded("both", 4, 3.2, 1, 1, 4)]
    rows = results.qualities(runs).splitlines()
    assert rows[-1] == "| both | 4 | 48.13 | 3.20 | 9 | 2.00x (1.00 to 4.00) | `12345678` |"
    assert results.block_sizes(runs).splitlines()[-2:] == [
        "| 1 | ours | 1.00 |  |  |  |", "| 4 | ours |  |  |  | 3.20 |",
    ]  # fmt: skip


def test_a_picture_has_all_versions(tmp_path):
    low, high = np.full((4, 8), 10, dtype=np.uint8), np.full((8, 16), 200, dtype=np.uint8)
    picture.write(tmp_path / "p.png", {"a": low, "b": high}, magnification=3)
    with Image.open(tmp_path / "p.png") as drawn:
        pixels = np.asarray(drawn)
    assert pixels.shape == (3 * 8 + picture.CAPTION, 2 * 3 * 16 + picture.GAP)
    shown = pixels[picture.CAPTION :]
    assert (shown[:, : 3 * 16] == 10).all() and (shown[:, -3 * 16 :] == 200).all()
