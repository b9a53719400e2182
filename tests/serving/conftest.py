"""The distilled model and its bundle."""

from tests.support.demo_translators import bundle, bundle_path, translator  # noqa: F401
