"""A model of another program as a model of fairseq."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


class UnreadableModel(ValueError):
    """Files that cannot be imported; the message names the file and the reason."""


@dataclass
class Imported:
    """A model that has been read, before it is written or built.

    Attributes:
        arch: ``transformer``, ``marian_transformer`` or ``ssru_transformer``.
        options: the options of the architecture, named as in fairseq; the others have their
            defaults.
        state: the parameters, named as in the ``state_dict`` of the fairseq model, in fp32, without
            those of the output layer if it is shared with the embeddings.
        source, target: the dictionaries: all symbols in the order of the embeddings. The first four
            are ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``.
        languages: the model's languages, by the names that users give, with their tokens in the
            dictionaries; empty for a model of one pair.
        source_lang, target_lang: the names of the pair, or its default languages.
        source_format, target_format: see
            :class:`~fairseq_fastdec.translating.languages.Languages`.
        bpe: fairseq's name of the BPE, ``sentencepiece``, ``gpt2`` or ``subword_nmt``.
        files: the files of the BPE by name, such as ``sentencepiece.bpe.model``.
        defaults: decoding options that the model is published with, named as in fairseq, such as
            ``beam``, ``lenpen``, ``unkpen``, ``max_len_a`` and ``max_len_b``.
    """

    arch: str
    options: dict[str, Any]
    state: dict[str, Tensor]
    source: list[str]
    target: list[str]
    source_lang: str
    target_lang: str
    languages: dict[str, str] = field(default_factory=dict)
    source_format: str = "{text} </s>"
    target_format: str = "</s>"
    bpe: str = "sentencepiece"
    files: dict[str, bytes] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def n_parameters(self) -> int:
        """The number of parameters. Shared matrices are one tensor with several names."""
        tensors = {id(own): own for own in self.state.values()}
        return sum(own.numel() for own in tensors.values())
