"""The reference for the engine: logits of the full forward pass, for all kinds of decoders."""

import torch

ARCHITECTURES = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True),
    "no positions": dict(no_token_positional_embeddings=True),
    "shared embeddings": dict(share_all_embeddings=True),
    "shared output": dict(share_decoder_input_output_embed=True),
    "embedding norm": dict(layernorm_embedding=True, no_scale_embedding=True),
    "differing dimensions": dict(encoder_embed_dim=24, decoder_input_dim=20, decoder_output_dim=28),
    "gelu": dict(activation_fn="gelu", decoder_normalize_before=True),
    "no final norm": dict(decoder_normalize_before=True, no_decoder_final_norm=True),
    "layer drop": dict(decoder_layerdrop=0.5),
    "normformer": dict(
        decoder_normalize_before=True,
        scale_attn=True,
        scale_fc=True,
        scale_heads=True,
        scale_resids=True,
    ),
    "marian": dict(arch="marian_transformer"),
    "marian, pre-norm": dict(
        arch="marian_transformer",
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        no_final_norms=True,
        sinusoids="transformers",
    ),
    "ssru": dict(arch="ssru_transformer"),
    "ssru, pre-norm": dict(arch="ssru_transformer", decoder_normalize_before=True),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def full_logits(model, batch, tokens):
    """Reference logits ``[B, T, V]`` of the stock decoder, without incremental state."""
    with torch.no_grad():
        encoded = model.encoder(batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"])
        return model.decoder(tokens, encoder_out=encoded)[0]


def random_targets(task, n_sentences, length, seed=0):
    words = task.target_dictionary
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(words.nspecial, len(words), (n_sentences, length), generator=generator)
    tokens[:, 0] = words.eos()
    return tokens
