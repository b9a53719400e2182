"""The first symbols of inputs and outputs of models of Hugging Face, and their languages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Optional

from .huggingface_generation import Generation
from .vocabularies import NumberedVocabulary

ENGLISH = ("eng_Latn", "en_XX", "en")
FRENCH = ("fra_Latn", "fr_XX", "fr")


@dataclass(frozen=True)
class Format:
    """The beginning of outputs, and the default languages.

    Attributes:
        target_format, source_lang, target_lang: see :class:`~.imported.Imported`.
        first_input: ``pad`` or ``eos``; see
            :class:`~fairseq_fastdec.models.marian_transformer.MarianTransformerDecoder`.
    """

    target_format: str
    source_lang: str
    target_lang: str
    first_input: str

    @classmethod
    def of(cls, vocabulary: NumberedVocabulary, generation: Generation) -> "Format":
        """
        Raises:
            UnreadableModel: if a type that decoding begins with is not in the vocabulary.
        """
        tokens = vocabulary.languages
        names = {token: name for name, token in tokens.items()}
        start = _symbol(vocabulary, generation, "decoder_start_token_id", generation.start)
        forced = _symbol(vocabulary, generation, "forced_bos_token_id", generation.forced)
        symbols = [_first(vocabulary, start, names)]
        if forced in names or (forced is None and vocabulary.forces_language):
            symbols.append("{target}")
        elif forced is not None:
            symbols.append(forced)
        given = names.get(forced or "") or names.get(start or "") or vocabulary.target_lang
        source = _language(tokens, vocabulary.source_lang, ENGLISH, "source")
        target = _language(tokens, given, FRENCH, "target", other_than=source)
        if vocabulary.is_of_several_targets:
            source = vocabulary.source_lang or "source"
        first_input = "pad" if start == "<pad>" else "eos"
        return cls(" ".join(symbols), source, target, first_input)


def _symbol(
    vocabulary: NumberedVocabulary, generation: Generation, name: str, number: Optional[int]
) -> Optional[str]:
    if number is None:
        return None
    if number >= len(vocabulary.target):
        raise generation.fields.problem(name, f"the model has {len(vocabulary.target)} types")
    return vocabulary.target[number]


def _first(vocabulary: NumberedVocabulary, start: Optional[str], names: Mapping[str, str]) -> str:
    """The symbol of the decoder's first input; that of padding is EOS, whose embedding differs."""
    if start in names or (start is None and vocabulary.starts_with_language):
        return "{target}"
    return "</s>" if start in (None, "<pad>") else start


def _language(
    tokens: Mapping[str, str],
    given: Optional[str],
    usual: Iterable[str],
    name: str,
    other_than: Optional[str] = None,
) -> str:
    """The given language, or else a usual one, or else the first of the model.

    Args:
        tokens: of the languages by name; empty for a model of one pair.
        name: of a language that has none.
        other_than: a language that is not returned, if there is another.
    """
    if not tokens:
        return given or name
    if given is not None and given in tokens:
        return given
    candidates = [*(language for language in usual if language in tokens), *tokens]
    return next((language for language in candidates if language != other_than), candidates[0])
