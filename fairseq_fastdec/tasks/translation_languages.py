"""Translation with models whose inputs name the languages, such as NLLB-200, M2M-100 and mBART."""

import copy
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks import register_task
from torch import Tensor

from ..data.model_files import DICTIONARY_OF_ALL, LANGUAGES
from ..translating.languages import Languages, Pair, Surroundings
from .translation_fastdec import TranslationFastdecConfig, TranslationFastdecTask


@dataclass
class TranslationLanguagesConfig(TranslationFastdecConfig):
    """The options of ``translation``, and the languages of a model."""

    language_tokens: str = field(
        default="{}",
        metadata={
            "help": 'the symbol of each language, as JSON: {"en": "__en__", "de": "__de__"}',
            "group": "languages",
        },
    )
    source_format: str = field(
        default="{text} </s>",
        metadata={
            "help": "the encoder's input: symbols, and the places {source}, {target} and {text}",
            "group": "languages",
        },
    )
    target_format: str = field(
        default="</s>",
        metadata={
            "help": "the decoder's first input, followed by the forced first symbols of outputs",
            "group": "languages",
        },
    )


@register_task("translation_languages", dataclass=TranslationLanguagesConfig)
class TranslationLanguagesTask(TranslationFastdecTask):
    """Translation with tokens of languages around sentences.

    ``--source-lang`` and ``--target-lang`` choose the pair. The dictionary is ``dict.LANGUAGE.txt``
    of the data or, if there is none, ``dict.all.txt``. If no languages and formats are given, they
    are those of ``languages.json`` in the data, if it exists.
    """

    cfg: TranslationLanguagesConfig

    def __init__(self, cfg: Any, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        """
        Raises:
            ValueError: for a language that the model does not have.
        """
        super().__init__(cfg, src_dict, tgt_dict)
        self.languages = languages_of(cfg)
        self.pair = self.languages.pair(cfg.source_lang, cfg.target_lang)

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """See fairseq; the dictionary of all languages serves those without one of their own."""
        if not os.path.exists(filename):
            common = os.path.join(os.path.dirname(filename), DICTIONARY_OF_ALL)
            filename = common if os.path.exists(common) else filename
        return super().load_dictionary(filename)

    def of_pair(self, pair: Pair) -> "TranslationLanguagesTask":
        """A copy of the task for another pair, with the same dictionaries."""
        if pair == self.pair:
            return self
        other = copy.copy(self)
        other.__dict__.pop("surroundings", None)
        other.pair = pair
        return other

    @cached_property
    def surroundings(self) -> Surroundings:
        """The tokens around the sentences of the pair."""
        dictionaries = (self.source_dictionary, self.target_dictionary)
        return self.languages.surroundings(self.pair, *dictionaries)

    def build_criterion(self, *arguments: Any, **options: Any) -> Any:
        """See fairseq, whose datasets feed EOS to decoders as their first input.

        Raises:
            ValueError: for a model with another first input.
        """
        self._check_first_input("training")
        return super().build_criterion(*arguments, **options)

    def build_generator(self, models: list[Any], args: Any, **options: Any) -> Any:  # type: ignore[override]
        """See fairseq; the tokens of languages are not part of the text.

        Raises:
            ValueError: with ``--score-reference`` for a model whose first input is not EOS.
        """
        if getattr(args, "score_reference", False):
            self._check_first_input("--score-reference")
        removed = self.languages.symbols_of(self.target_dictionary)
        removed.update((self.target_dictionary.eos(), self.target_dictionary.bos()))
        extra = {**(options.pop("extra_gen_cls_kwargs", None) or {})}
        extra["symbols_to_strip_from_output"] = removed
        return super().build_generator(models, args, extra_gen_cls_kwargs=extra, **options)

    def build_dataset_for_inference(
        self, src_tokens: Sequence[Tensor], src_lengths: Any, **options: Any
    ) -> Any:
        """See fairseq; the sentences get the tokens of the pair."""
        tokens = [self._with_languages(sentence) for sentence in src_tokens]
        lengths = [len(sentence) for sentence in tokens]
        return super().build_dataset_for_inference(tokens, lengths, **options)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """See fairseq; the sentences and their translations get the tokens of the pair."""
        super().load_dataset(split, epoch, combine, **kwargs)
        data, around = self.datasets[split], self.surroundings
        data.src = _Changed(data.src, self._with_languages)
        data.src_sizes = data.src.sizes
        if data.tgt is not None and around.prefix:
            forced = torch.tensor(around.prefix)
            data.tgt = _Changed(data.tgt, lambda tokens: torch.cat([forced, tokens]))
            data.tgt_sizes = data.tgt.sizes

    def inference_step(
        self,
        generator: Any,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> Any:
        """See fairseq; outputs begin with the tokens of the pair."""
        around, forced = self.surroundings, prefix_tokens
        if around.prefix:
            n_sentences = sample["net_input"]["src_tokens"].size(0)
            forced = sample["net_input"]["src_tokens"].new_tensor([around.prefix])
            forced = forced.expand(n_sentences, -1)
            if prefix_tokens is not None:
                # With --prefix-size the prefix is from the target, which begins with these tokens.
                n_own = len(around.prefix)
                begins = prefix_tokens[:, :n_own].eq(forced[:, : prefix_tokens.size(1)]).all()
                forced = prefix_tokens if begins else torch.cat([forced, prefix_tokens], dim=1)
        with torch.no_grad():
            return generator.generate(
                models,
                sample,
                prefix_tokens=forced,
                constraints=constraints,
                bos_token=around.bos,
            )

    def _check_first_input(self, use: str) -> None:
        if self.surroundings.bos != self.target_dictionary.eos():
            raise ValueError(
                f"--target-format {self.languages.target_format}: {use} needs </s> as the first "
                "symbol; this model can only be decoded"
            )

    def _with_languages(self, sentence: Tensor) -> Tensor:
        return sentence.new_tensor(self.surroundings.around(sentence.tolist()))


def languages_of(cfg: Any) -> Languages:
    """The languages that the options of the task give, or else those of the data.

    Raises:
        ValueError: for a damaged file.
    """
    given = (json.loads(cfg.language_tokens), cfg.source_format, cfg.target_format)
    path = os.path.join((utils.split_paths(cfg.data) or [""])[0], LANGUAGES)
    if Languages(*given) != Languages() or not os.path.isfile(path):
        return Languages(*given)
    try:
        with open(path, encoding="utf-8") as file:
            return Languages(**json.load(file))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: is not valid ({error}); prepare the data again") from error


class _Changed(FairseqDataset):
    """The sentences of a dataset after a change, which adds the same number of tokens to each."""

    def __init__(self, dataset: Any, change: Any) -> None:
        self._dataset, self._change = dataset, change
        added = len(change(dataset[0])) - len(dataset[0]) if len(dataset) else 0
        self.sizes = dataset.sizes + added

    def __getitem__(self, index: int) -> Tensor:
        return self._change(self._dataset[index])

    def __len__(self) -> int:
        return len(self._dataset)

    def prefetch(self, indices: Any) -> None:
        """See fairseq."""
        self._dataset.prefetch(indices)

    @property
    def supports_prefetch(self) -> bool:
        """See fairseq."""
        return getattr(self._dataset, "supports_prefetch", False)
