"""The models of Table 1 of Stern et al. (2018), and the ways to accept their proposals."""

from typing import NamedTuple

BLOCK_SIZES = (1, 2, 4, 6, 8, 10)
SHARED = ["--block-ffn", "shared"]
HEADS: dict[str, list[str]] = {
    # One feed-forward layer for all heads, p_1 included; each update trains one head.
    "paper": [*SHARED, "--sub-loss", "random"],
    # The same heads and the loss that the paper's estimates, the mean of all.
    "mean": [*SHARED, "--sub-loss", "mean"],
    # This package's: p_1 is the base, each position trains one head, the first ones most.
    "split": [
        "--block-ffn", "split", "--identity-first-head", "--sub-loss", "random-position",
        "--head-decay", "0.65",
    ],
}  # fmt: skip


class Setting(NamedTuple):
    """A column of the table."""

    distilled: bool
    fine_tuned: bool

    @property
    def data(self) -> str:
        """The folder of the training data in the work directory."""
        return "distilled/data" if self.distilled else "data"


SETTINGS = {
    "regular": Setting(distilled=False, fine_tuned=False),
    "distillation": Setting(distilled=True, fine_tuned=False),
    "fine tuning": Setting(distilled=False, fine_tuned=True),
    "both": Setting(distilled=True, fine_tuned=True),
}
ACCEPTANCE: dict[str, list[str]] = {
    "exact": [],
    "top 2": ["--acceptance", "topk", "--acceptance-topk", "2"],
    "top 3": ["--acceptance", "topk", "--acceptance-topk", "3"],
    "at least 2": ["--min-block-size", "2"],
    "at least 3": ["--min-block-size", "3"],
}


class Cell(NamedTuple):
    """A model of the table, and the way in which its proposals are accepted."""

    heads: str
    block_size: int
    setting: str
    seed: int
    acceptance: str = "exact"

    @property
    def start(self) -> "Cell":
        """The model without heads with which the training begins."""
        setting = "distillation" if SETTINGS[self.setting].distilled else "regular"
        return Cell("", 1, setting, self.seed)

    @property
    def base(self) -> "Cell":
        """The model without heads that is trained as long, on the same data."""
        return Cell("", 1, self.setting, self.seed)

    @property
    def model(self) -> str:
        """The folder of its checkpoint in the work directory."""
        if self == self.start:
            return f"{'single' if SETTINGS[self.setting].distilled else 'baseline'}-{self.seed}"
        heads = self.heads or "single"
        return f"{heads}-{self.setting}-{self.block_size}-{self.seed}".replace(" ", "-")
