"""``--finalize hf`` and ``hf_early`` give the hypotheses of beam search in transformers."""

import itertools

import pytest
import torch
from fairseq.data import data_utils

import fairseq_fastdec
from examples.common.huggingface import deep, start_of
from examples.imported import training
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.importing import huggingface, writing
from tests.support import skips
from tests.support.ways import WAYS, decoded_by

skips.needs("transformers")
skips.needs("google.protobuf")

# Models without a forced first token and with one.
MODELS = ("marian", "mbart_50", "m2m_100")
LINES = [
    "Open the file.",
    "Click the Save button to save the changes in the current document before you close it.",
    "No",
    "Select the cells that you want to format, then choose Format - Cells.",
    "Deletes the row.",
]


class Both:
    """A model of transformers, and the imported one.

    Attributes:
        sources: the sentences in the numbers of transformers.
        sample: those of fairseq.
    """

    def __init__(self, name, directory):
        self.cases = {}
        self.model, self.tokenizer = training.opened(name, directory / "model")
        self.start = start_of(name, self.model, self.tokenizer)
        self.sources = [torch.tensor(self.tokenizer(line)["input_ids"]) for line in LINES]
        source, target = (None, None) if self.start.forced is None else ("en", "de")
        self.translator = fairseq_fastdec.load(
            directory / "imported", source_lang=source, target_lang=target
        )
        task = self.translator.task
        ours = [self.translator.codec.encode(line) for line in LINES]
        if self.start.forced is not None:
            ours = [task.surroundings.around(own) for own in ours]
        tokens = [torch.tensor(own) for own in ours]
        padded = data_utils.collate_tokens(tokens, task.source_dictionary.pad(), left_pad=True)
        lengths = torch.tensor([len(own) for own in tokens])
        net_input = {"src_tokens": padded, "src_lengths": lengths}
        self.sample = {"id": torch.arange(len(tokens)), "net_input": net_input}

    def expected(self, *case):
        """See :meth:`_expected`; both ways of decoding share the results."""
        if case not in self.cases:
            self.cases[case] = self._expected(*case)
        return self.cases[case]

    def _expected(self, beam, longest, penalty, early):
        """The hypotheses of transformers, as symbols, and their scores."""
        pad = self.model.config.pad_token_id
        inputs = torch.nn.utils.rnn.pad_sequence(self.sources, True, pad)
        given = {"decoder_start_token_id": self.start.first}
        if self.start.forced is not None:
            given["forced_bos_token_id"] = self.start.forced
        found = self.model.generate(
            inputs,
            attention_mask=inputs.ne(pad).long(),
            num_beams=beam,
            num_return_sequences=beam,
            length_penalty=penalty,
            early_stopping=early,
            # It counts the first input, and the EOS that it forces.
            max_length=longest + 2,
            forced_eos_token_id=self.model.config.eos_token_id,
            output_scores=True,
            return_dict_in_generate=True,
            **given,
        )
        rows = [[n for n in row[1:] if n != pad] for row in found.sequences.tolist()]
        symbols = [self.tokenizer.convert_ids_to_tokens(row) for row in rows]
        pairs = list(zip(symbols, found.sequences_scores.tolist()))
        return [pairs[first : first + beam] for first in range(0, len(pairs), beam)]

    def found(self, way, beam, **options):
        """Our hypotheses, as symbols, and their scores."""
        task = self.translator.task
        with decoded_by(way):
            generator = self.translator.built({"beam": beam, "decoding": "beam", **options})
            assert generator.decodes_compiled() == (way == "compiled")
            results = task.inference_step(generator, self.translator.models, self.sample)
        return [
            [
                ([task.target_dictionary[n] for n in own["tokens"]], float(own["score"]))
                for own in hypotheses
            ]
            for hypotheses in results
        ]


@pytest.fixture(scope="module", params=MODELS)
def both(request, made):
    def train(directory):
        sizes = deep(layers=1, dim=64, ffn=64, heads=2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "TINY", sizes)
            patch.setattr(training, "PIECES", 300)
            all_lines = training.training_lines
            patch.setattr(training, "training_lines", lambda language: all_lines(language)[:3000])
            training.train(request.param, directory / "model", updates=80)
        writing.write(huggingface.read(directory / "model"), directory / "imported")

    return Both(request.param, made(f"hf-{request.param}", train))


@WAYS
@pytest.mark.parametrize("penalty", [0.5, 1.0, 2.0])
def test_hypotheses_are_those_of_transformers(both, way, penalty):
    # Many outputs reach the shorter length.
    for early, (beam, longest) in itertools.product(
        (False, True), zip(range(2, 6), (40, 8, 40, 8))
    ):
        expected = both.expected(beam, longest, penalty, early)
        options = {"lenpen": penalty, "max_len_a": 0, "max_len_b": longest}
        found = both.found(way, beam, finalize="hf_early" if early else "hf", **options)
        for own, other in zip(found, expected):
            assert [tokens for tokens, _ in own] == [tokens for tokens, _ in other]
            scores = [score for _, score in other]
            assert [score for _, score in own] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("finalize", ["hf", "hf_early"])
@pytest.mark.parametrize(
    "given, message",
    [
        (dict(decoding="variable_beam"), "does not apply to --decoding variable_beam"),
        (dict(decoding="beam", prune_threshold=1.0), "--prune-threshold 1.0: cannot be combined"),
    ],
)
def test_what_transformers_does_not_have(finalize, given, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(finalize=finalize, **given).check()
