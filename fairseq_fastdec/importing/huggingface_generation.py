"""The decoding options of directories of Hugging Face, as fairseq's."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .fields import Fields

logger = logging.getLogger(__name__)

# Values that leave the search as it is; others are not supported. Options that only sampling reads
# are not listed.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    "num_return_sequences": (1,),
    "min_new_tokens": (0,),
    "max_time": (),
    "stop_strings": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_decoder_ids": ([],),
    "exponential_decay_length_penalty": (),
    "sequence_bias": ({}, []),
    "constraints": ([],),
    "force_words_ids": ([],),
    "watermarking_config": (),
    "dola_layers": (),
}


@dataclass(frozen=True)
class Generation:
    """The decoding options of a directory.

    Attributes:
        fields: their values.
        start: the number of the decoder's first input.
        forced: the number of the forced first token of outputs; ``None`` without one.
        forced_eos: whether outputs that reach the maximum length end with EOS.
    """

    fields: Fields
    start: Optional[int]
    forced: Optional[int]
    forced_eos: bool

    @classmethod
    def read(cls, directory: Path, config: Fields, forced_eos: Optional[int]) -> "Generation":
        """Read ``generation_config.json``; older directories have its values in ``config.json``.

        Args:
            forced_eos: the default of the class for a config without ``forced_eos_token_id``.

        Raises:
            UnreadableModel: for a damaged file, or a value of another kind.
        """
        path = directory / "generation_config.json"
        fields = Fields.read(path)
        if not path.exists():
            values = config.values
            fields = Fields(config.path, {"forced_eos_token_id": forced_eos, **values})
        start = fields.type_number("decoder_start_token_id")
        if start is None:
            start = config.type_number("decoder_start_token_id")
        return cls(
            fields,
            start,
            fields.type_number("forced_bos_token_id"),
            fields.type_number("forced_eos_token_id") is not None,
        )

    def bans_only(self, pad: int) -> bool:
        """Whether probabilities are those of all types but padding, which is never generated."""
        banned = self.fields.values.get("bad_words_ids")
        return banned == [[pad]] and self.fields.flag("renormalize_logits", False)

    def defaults(self, pad: int) -> dict[str, Any]:
        """The options, named as fairseq's.

            num_beams               beam; 1 without it, as in transformers
            length_penalty          lenpen
            max_length              max_len_a = 0, max_len_b; without it none, although the default
                                    of transformers is 20
            max_new_tokens          likewise
            min_length              min_len
            no_repeat_ngram_size    no_repeat_ngram_size
            early_stopping          finalize = hf, or hf_early if it is true; none for greedy

        Lengths of both count forced first tokens. Those of transformers also count the decoder's
        first input, and EOS if the maximum length forces it; otherwise outputs of the maximum
        length have no EOS. Padding in ``bad_words_ids`` needs no option, since fairseq never
        generates it. A warning names options that are not supported.

        Args:
            pad: the number of padding.
        """
        fields = self.fields
        beam = fields.count("num_beams", 1, least=1)
        least = fields.count("min_length", 0)
        options: dict[str, Any] = {
            "beam": beam,
            "lenpen": fields.number("length_penalty", 1.0),
            "min_len": max(least - 1, 0),
        }
        most = fields.count("max_length", 0)
        if "max_new_tokens" in fields.values:
            most = 1 + fields.count("max_new_tokens")
        if most > 0:
            options["max_len_a"] = 0
            options["max_len_b"] = max(most - 1 - self.forced_eos, 1)
        if ngram := fields.count("no_repeat_ngram_size", 0):
            options["no_repeat_ngram_size"] = ngram
        if beam > 1:
            stops_early = fields.values.get("early_stopping", False) is True
            options["finalize"] = "hf_early" if stops_early else "hf"
        self._warn_of_others(pad)
        return options

    def _warn_of_others(self, pad: int) -> None:
        values = self.fields.values
        odd = [n for n, neutral in NEUTRAL.items() if values.get(n, None) not in (None, *neutral)]
        banned = values.get("bad_words_ids")
        if banned not in (None, [], [[pad]]):
            odd.append("bad_words_ids")
        changes_scores = {"no_repeat_ngram_size", "min_length"} & set(values)
        if values.get("renormalize_logits") and (changes_scores or "bad_words_ids" in odd):
            odd.append("renormalize_logits")
        if values.get("early_stopping") == "never":
            odd.append("early_stopping")
        if odd:
            logger.warning(
                "%s: decoding differs from transformers, since these options are not supported: %s",
                self.fields.path, ", ".join(f"{name} = {values[name]!r:.60}" for name in odd),
            )  # fmt: skip
