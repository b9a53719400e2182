"""Target sequences in the order in which they are decoded."""
