"""Files: text in UTF-8, models, drafts; no torch, no fairseq."""
