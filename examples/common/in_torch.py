"""fairseq-generate without this package's compiled code: ``python examples/common/in_torch.py``."""

from fairseq_cli import generate

from fairseq_fastdec.engine.kernels import loading


def main() -> None:
    """Decode with the methods in torch."""
    loading.library = lambda: None
    generate.cli_main()


if __name__ == "__main__":
    main()
