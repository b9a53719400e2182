"""Changes to fairseq: fixes, faster functions, compatibility with current versions of torch."""
