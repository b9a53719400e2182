"""The searches of bundles, also of those that earlier versions have written."""

from typing import Any

from ..engine.searches import SearchOptions

# The names in the first version of bundles, in which acceptance and drafts were groups of options.
KINDS = {"BlockOptions": "blocks", "JacobiOptions": "jacobi", "BeamOptions": "beam"}
NAMES = {
    "n_heads": "decoding_block_size",
    "confidence": "proposal_confidence",
    "by_time": "by_time",
    "window": "lookahead_window",
    "acceptance.kind": "acceptance",
    "acceptance.n_best": "acceptance_topk",
    "acceptance.distance": "acceptance_distance",
    "acceptance.values": "values",
    "acceptance.min_block": "min_block_size",
    "drafts.kind": "guess",
    "drafts.order": "ngram_order",
    "drafts.replaces_answers": "replaces_answers",
    "drafts.target_types": "target_types",
    "block_size": "jacobi_block_size",
    "ends_inside_blocks": "ends_within_block",
    "waits_behind_eos": "waits_behind_eos",
    "width": "beam",
    "threshold": "prune_threshold",
    "n_per_entry": "max_candidates",
}


def search_of(kind: str, options: dict[str, Any]) -> SearchOptions:
    """The search that a bundle describes.

    Args:
        kind, options: of :class:`~..engine.searches.SearchOptions`, or of the first version.
    """
    if kind not in KINDS:
        return SearchOptions(kind, options)
    given: dict[str, Any] = {}
    for name, value in options.items():
        group = value if isinstance(value, dict) else {"": value}
        given.update({f"{name}.{part}".rstrip("."): one for part, one in group.items()})
    # Trees of proposals (n_in_tree) are gone; chains have the same output.
    found = {NAMES[name]: value for name, value in given.items() if name in NAMES}
    if "lets_wait" in given:
        found["finalize"] = "paper" if given["lets_wait"] else "fairseq"
    if "drafts.across_sentences" in given:
        found["ngram_pool"] = "run" if given["drafts.across_sentences"] else "sentence"
    if kind == "JacobiOptions":
        found.pop("decoding_block_size", None)  # always 1
    return SearchOptions(KINDS[kind], found)
