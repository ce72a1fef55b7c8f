"""Builds the compiled kernels (src/axiompath/native/*.pyx); everything else about the package is in pyproject.toml."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

DEBUG = bool(os.environ.get("AXIOMPATH_DEBUG"))  # bounds checks and sanitizers, for `make test-native`
FOLDER = Path("src/axiompath/native")
# Cython's own code for arrays, compiled once for all kernels instead of into each of them.
SHARED = "axiompath.native._shared"

if sys.platform == "win32":
    COMPILE, LINK = ["/O2"], []
elif DEBUG:
    COMPILE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-ffp-contract=off"]
    LINK = ["-fsanitize=address,undefined"]
else:  # no instruction that some 64-bit machine lacks, no reordering of sums: the same bits everywhere
    COMPILE, LINK = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno"], []


class BuildKernels(build_ext):
    """build_ext on all cores, which says what to do where there is no compiler."""

    def finalize_options(self) -> None:
        """One compiler for each core, unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        """Build, or say what is missing."""
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"Expected a C and C++ compiler to build AxiomPath's kernels ({error}); install gcc or clang "
                "(on macOS `xcode-select --install`, on Windows the Visual Studio Build Tools), or use a wheel."
            ) from error


def extension(name: str, *sources: str) -> Extension:
    """One module of kernels."""
    return Extension(name, list(sources), extra_compile_args=COMPILE, extra_link_args=LINK)


setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=cythonize(
        [
            *(extension(f"axiompath.native.{source.stem}", str(source)) for source in sorted(FOLDER.glob("*.pyx"))),
            extension(SHARED),
        ],
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    ),
)
