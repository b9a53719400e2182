"""The table of methods: a new one is one file and one line, and decodes from the command line."""

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import DecodingGenerator
from fairseq_fastdec.decoding.methods.lookahead import LookaheadOptions
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.translating.registry import (
    METHODS,
    decoding_names,
    generator_class,
    register_decoding,
)
from tests.support import after_import, command_line, tiny
from tests.support.against_fairseq import (
    assert_as_fairseq,
    lengths_strategy,
    options_strategy,
    our_generator,
)
from tests.support.blockwise import always
from tests.support.trained_models import TASK, stock_model

EXAMPLE = "tests.support.example_method"
SOURCE = Path(__file__).resolve().parents[1] / "support" / "example_method.py"
OWN = sorted(METHODS)
DECORATOR = '@register_decoding("with_options", OwnOptions)'


@pytest.fixture(scope="module", autouse=True)
def table_as_before():
    """The table has its own methods again after these tests."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture(scope="module")
def example():
    """The name of the example, which its import registers."""
    sys.modules.pop(EXAMPLE, None)
    METHODS.pop("two_tokens", None)
    importlib.import_module(EXAMPLE)
    return "two_tokens"


@pytest.mark.parametrize("name", OWN)
def test_every_line_of_the_table_is_a_generator_with_a_first_line_of_help(name):
    generator = generator_class(name)
    assert issubclass(generator, DecodingGenerator)
    assert generator.__doc__.splitlines()[0].strip()


def test_a_plugin_of_ones_own_adds_a_method(corpus, baseline, tmp_path):
    """Its package imports ours, registers a class, and is the --user-dir."""
    plugin = tmp_path / "plugin_with_a_method"
    plugin.mkdir()
    text = SOURCE.read_text(encoding="utf-8").replace('"two_tokens"', '"of_a_plugin"')
    (plugin / "__init__.py").write_text(text, encoding="utf-8")
    options = (corpus, baseline, "--batch-size", 5, "--max-len-b", 20)
    printed = command_line.generate(*options, "--decoding", "of_a_plugin", "--user-dir", plugin)
    greedy = command_line.generate(*options, "--decoding", "greedy")
    assert "of_a_plugin" in METHODS
    assert command_line.hypotheses(printed) == command_line.hypotheses(greedy)


OPTIONS = """
from dataclasses import dataclass

from fairseq_fastdec.decoding.option_rules import option


@dataclass
class OwnOptions:
    first_guess: int = option(
        0, "the first token that is guessed", methods=("with_options",), at_least=0
    )

"""


def test_a_plugin_of_ones_own_adds_options(corpus, baseline, tmp_path):
    """In a process of its own: options are added for good."""
    plugin = tmp_path / "plugin_with_options"
    plugin.mkdir()
    text = SOURCE.read_text(encoding="utf-8")
    text = text.replace('@register_decoding("two_tokens")', OPTIONS + DECORATOR, 1)
    text = text.replace("self.rules.pad)", "self.options.first_guess)", 1)
    assert text.count("OwnOptions") == 2 and "self.options.first_guess" in text
    (plugin / "__init__.py").write_text(text, encoding="utf-8")

    def generate(*options):
        fixed = [corpus, "--path", baseline, "--user-dir", plugin, "--max-len-b", 20]
        return after_import.run_command("generate", *fixed, *options)

    done = generate("--decoding", "with_options", "--first-guess", 5)
    assert done.returncode == 0, done.stderr
    expected = command_line.generate(corpus, baseline, "--decoding", "greedy", "--max-len-b", 20)
    assert command_line.hypotheses(done.stdout) == command_line.hypotheses(expected)
    refused = generate("--decoding", "greedy", "--first-guess", 5)
    assert "--first-guess 5: does not apply to --decoding greedy" in refused.stderr
    refused = generate("--decoding", "with_options", "--first-guess", -1)
    assert "--first-guess -1: must be at least 0" in refused.stderr


def test_an_option_is_declared_once():
    with pytest.raises(
        ValueError, match="LookaheadOptions: the option lookahead_window already exists"
    ):
        register_decoding("of_no_use", LookaheadOptions)(DecodingGenerator)


def test_a_line_in_the_table_adds_a_method(corpus, baseline, example, monkeypatch):
    monkeypatch.setitem(METHODS, "of_a_line", f"{EXAMPLE}:TwoTokens")
    options = (corpus, baseline, "--batch-size", 5, "--max-len-b", 20)
    printed = command_line.generate(*options, "--decoding", "of_a_line")
    greedy = command_line.generate(*options, "--decoding", "greedy")
    assert command_line.hypotheses(printed) == command_line.hypotheses(greedy)


@settings(max_examples=25)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_the_example_is_fairseqs_beam_1(example, options, lengths, seed):
    models = [stock_model()]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_as_fairseq(models, sample, example, **options)


def test_the_example_takes_two_steps_in_one_where_it_guesses_right(example):
    """A model that says the same word for ever is easy to guess."""
    model = always(7, tiny.build_model(TASK))
    generator = our_generator([model], example, max_len_b=21)
    (hypothesis,) = generator.generate([model], tiny.random_batch(TASK, [4]))[0]
    assert hypothesis["tokens"].tolist() == [7] * 21 + [TASK.target_dictionary.eos()]
    assert generator.statistics.decoder_invocations == 12


def test_options_of_other_methods_are_refused_for_it(example):
    DecodingOptions(decoding=example, engine_precision="fp32").check()
    with pytest.raises(ValueError, match="--guess pad: does not apply to --decoding two_tokens"):
        DecodingOptions(decoding=example, guess="pad").check()


def test_a_name_is_given_once(example):
    for name in ("greedy", "fairseq", example):
        with pytest.raises(ValueError, match=f"--decoding {name}: already registered"):
            register_decoding(name)(DecodingGenerator)
    assert set(decoding_names()) == {"fairseq", *METHODS}
