"""Where the time of a decoding step goes, and what it could not fall below."""
