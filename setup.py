"""Builds the compiled code, and names wheels without it; pyproject.toml has everything else."""

import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

try:
    import pybind11
    from pybind11.setup_helpers import ParallelCompile

    ParallelCompile().install()  # files are compiled on all cores
except ImportError:  # an installation without build isolation gets no compiled code
    pybind11 = None

if sys.platform == "win32":
    sys.exit("fastdec-runtime: Windows is not supported; use Linux, macOS, or WSL")
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("fastdec-runtime: free-threaded Python is not supported; use the build with the GIL")

FLAGS = "-std=gnu++17 -O3 -g0 -DNDEBUG -fvisibility=hidden -Wno-psabi"
ENGINE, KERNELS = "fairseq_fastdec/engine/cpp", "fairseq_fastdec/engine/kernels/cpp"


class Wheel(bdist_wheel):
    """Names a wheel without compiled code py3-none-any, like one of pure Python."""

    def run(self):
        self.run_command("build_ext")
        built = self.get_finalized_command("build_ext").get_outputs()
        if not all(Path(path).exists() for path in built):
            print("fastdec-runtime: compilation failed; the wheel has no compiled code")
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    cmdclass={"bdist_wheel": Wheel},
    # Optional: without a compiler, torch decodes.
    ext_modules=[
        Extension(
            "fairseq_fastdec.engine.kernels._engine",
            # engine.cpp includes the other files.
            [f"{ENGINE}/binding.cpp", f"{ENGINE}/engine.cpp", *sorted(glob(f"{KERNELS}/*.cpp"))],
            include_dirs=[pybind11.get_include()] if pybind11 else [],
            depends=sorted([*glob(f"{ENGINE}/*"), *glob(f"{KERNELS}/*.h")]),
            extra_compile_args=FLAGS.split(),
            language="c++",
            optional=True,
        )
    ],
)
