import re
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before 70.1, which builds no wheels here: see pyproject.toml
    bdist_wheel = object

try:
    import pybind11
except ImportError:  # an installation without build isolation: everything works without the engine
    pybind11 = None

ENGINE, KERNELS = "fairseq_fastdec/engine/cpp", "fairseq_fastdec/engine/kernels/cpp"
INIT = Path(__file__).with_name("fairseq_fastdec") / "__init__.py"
VERSION = re.search(r'^__version__ = "(.+)"$', INIT.read_text(encoding="utf-8"), re.M).group(1)
WHEELED = "sys_platform == 'linux' and platform_machine == 'x86_64'"
# matplotlib writes from right to left by itself from 3.11 on, which needs Python 3.11.
VIZ = [
    "matplotlib>=3.8,<4",
    "python-bidi; python_version < '3.11'",
    "arabic-reshaper; python_version < '3.11'",
]


class Wheel(bdist_wheel):
    """A wheel without the compiled code is named py3-none-any, as one of pure Python."""

    def run(self):
        self.run_command("build_ext")
        built = self.get_finalized_command("build_ext").get_outputs()
        if not all(Path(path).exists() for path in built):
            print("fairseq_fastdec: compilation failed; the wheel has no compiled code")
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    name="fairseq_fastdec",
    version=VERSION,
    description="Fast decoding for fairseq sequence-to-sequence models, as a plugin",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    keywords=["fairseq", "machine translation", "non-autoregressive", "parallel decoding", "int8"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: C++",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    python_requires=">=3.10,<3.13",
    packages=find_packages(include=["fairseq_fastdec", "fairseq_fastdec.*"]),
    # Said, so that an editable installation makes the whole repository importable, and with it the
    # package of examples. Otherwise setuptools would look for this package alone.
    package_dir={"": "."},
    package_data={
        "fairseq_fastdec": ["py.typed"],
        "fairseq_fastdec.tools.visualize": ["page.html"],
    },
    # The same commands as scripts/ and ``python -m fairseq_fastdec``.
    entry_points={
        "console_scripts": [
            "fastdec-average-checkpoints = fairseq_fastdec.tools.average_checkpoints:main",
            "fastdec-benchmark = fairseq_fastdec.tools.benchmark.command:main",
            "fastdec-build-shortlist = fairseq_fastdec.tools.shortlisting.command:main",
            "fastdec-ddgviz = fairseq_fastdec.tools.visualize.command:main",
            "fastdec-distill = fairseq_fastdec.tools.distillation.command:main",
            "fastdec-prepare-data = fairseq_fastdec.tools.prepare_data:main",
            "fastdec-profile-engine = fairseq_fastdec.tools.profiling.command:main",
            "fastdec-translate-corpus = fairseq_fastdec.tools.translation.command:main",
        ]
    },
    cmdclass={} if bdist_wheel is object else {"bdist_wheel": Wheel},
    # Optional: without a compiler all works, more slowly.
    ext_modules=[
        Extension(
            "fairseq_fastdec.engine.kernels._engine",
            [f"{KERNELS}/dispatch.cpp", *sorted(glob(f"{ENGINE}/*.cpp"))],
            include_dirs=[pybind11.get_include()] if pybind11 else [],
            depends=sorted([*glob(f"{ENGINE}/*.h"), *glob(f"{KERNELS}/*.h")]),
            extra_compile_args=["-std=gnu++17", "-O3", "-Wno-psabi"],
            language="c++",
            optional=True,
        )
    ],
    install_requires=[
        # fairseq 0.12.2 dies at import on Python 3.11 (mutable dataclass defaults). The two
        # redistributions are upstream's main branch plus that fix: with wheels; for any platform.
        "fairseq==0.12.2; python_version < '3.11'",
        f"ve-fairseq==0.12.3; python_version >= '3.11' and {WHEELED}",
        "fairseq-fixed==0.12.3.1; python_version >= '3.11' and (sys_platform != 'linux'"
        " or platform_machine != 'x86_64')",
        # 2.4 is the first torch whose safe checkpoint loading can be told of fairseq's classes.
        "torch>=2.4,<2.16",
        "sacremoses",
        "subword-nmt",
        "sacrebleu>=2.0",
        "tqdm",
    ],
    extras_require={
        # ruff of one version: tests/test_style.py checks what others would format otherwise.
        # pytest-xdist and filelock: tests run on all cores, and share what they train.
        # setuptools: it builds the compiled code after a change, and a wheel in a test.
        "dev": [
            "setuptools>=70.1",
            "pybind11>=2.12,<4",
            "pytest",
            "pytest-xdist",
            "filelock",
            "hypothesis",
            "ruff==0.14.6",
            "zstandard",
            *VIZ,
        ],
        "viz": VIZ,
        "zstd": ["zstandard"],
        "cluster": ["ray[client]>=2.10,<3"],
        # 4.8.1 is the first that reads fairseq's checkpoints with torch's restricted unpickler.
        "bench": ["ctranslate2>=4.8.1,<5", *VIZ],
    },
)
