"""Models as one file: weights as the engine keeps them, dictionaries, subword codes, options."""
