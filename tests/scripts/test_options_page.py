"""docs/options.md says what the parsers say."""

from dataclasses import fields
from pathlib import Path

from fairseq_fastdec.decoding.options import DecodingOptions
from scripts import options_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"


def test_the_page_is_what_would_be_generated():
    assert PAGE.read_text(encoding="utf-8") == options_page.page(), (
        "run: python scripts/options_page.py docs/options.md"
    )


def test_all_options_are_listed_once():
    listed = [option.flag for group in options_page.grouped_options().values() for option in group]
    assert len(listed) == len(set(listed))
    own = {f"--{option.name.replace('_', '-')}" for option in fields(DecodingOptions)}
    trained = {"--block-size", "--sub-loss", "--token-order", "--cpu-autocast"}
    assert (own - {"---name"}) | trained <= set(listed)


def test_every_group_is_introduced():
    assert set(options_page.grouped_options()) == set(options_page.INTRODUCTIONS)


def test_values_and_defaults():
    options = {
        option.flag: option for group in options_page.grouped_options().values() for option in group
    }
    assert options["--acceptance"].values == "exact, topk, distance"
    assert options["--acceptance"].default == "exact"
    assert (options["--jacobi-block-size"].values, options["--jacobi-block-size"].default) == (
        "N", "3"
    )  # fmt: skip
    assert (options["--freeze-base"].values, options["--freeze-base"].default) == ("", "")
    assert options["--decoding"].default == "fairseq"


def test_main_writes_the_page(tmp_path, capsys):
    options_page.main([str(tmp_path / "options.md")])
    options_page.main([])
    assert (tmp_path / "options.md").read_text(encoding="utf-8") == capsys.readouterr().out
