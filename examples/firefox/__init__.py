"""Models of Firefox, imported."""
