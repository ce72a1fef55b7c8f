"""Function -> machine code, with everything that it calls optimised together and once.

Numba optimises each function that it compiles, links it into whoever calls it, and optimises that again: what lies ten
calls deep is optimised ten times, and made machine code that nobody runs. Here a loop that other loops call stays what
it says, a `_Part`, until one that Python calls, a `_Whole`, takes in everything below it.

What numba itself compiles for one of our loops (a sort, say) becomes a part, too; another program's function that needs
it gets it with all that lies below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen, compiler

PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # what numba need not make of what Python never calls


class _Whole(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a loop and of all that it calls."""

    def finalize(self) -> None:
        """Link callers before what they call: what nobody calls yet would be left out."""
        parts, others = _below(self)
        for part in parts:
            self._reload_init.update(part._reload_init)
            self._final_module.link_in(part.alone(), preserve=True)
        self._linking_libraries = others
        super().finalize()
        for part in parts:
            for name, environment in part.environments.items():
                if self._codegen._engine.get_global_value_address(name):
                    self._codegen.set_env(name, environment)


class _Part(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What a loop says, for those that call it; also in place of its generator of code, of which nothing is asked."""

    def __init__(self, generator: Any, name: str) -> None:
        super().__init__(generator, name)
        self.environments: dict[str, Any] = {}
        self._joined: Any = None

    @property
    def codegen(self) -> Any:
        """Who is told of environments."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Keep it for the whole."""
        self.environments[name] = environment

    def _optimize_functions(self, ll_module: Any) -> None:
        """That is done with the whole."""
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """It is all there."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is none."""
        return 0

    def alone(self) -> Any:
        """The module without what it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """With what it calls, for libraries that are none of ours."""
        if self._joined is None:
            parts, others = _below(self)
            joined = self.alone().clone()
            for module in (*(part.alone() for part in parts), *(other._get_module_for_linking() for other in others)):
                joined.link_in(module, preserve=True)
            self._joined = joined
        return self._joined

    @classmethod
    def _unserialize(cls, generator: Any, state: Any) -> Any:
        """What comes from the disk is machine code."""
        with _making(generator, codegen.JITCodeLibrary):
            return codegen.JITCodeLibrary._unserialize(generator, state)


def _below(library: Any) -> tuple[list[_Part], list[Any]]:
    """The parts that a library calls, however deep, callers first; and the libraries of another kind."""
    found: dict[Any, None] = {}

    def visit(caller: Any) -> None:
        for called in caller._linking_libraries:
            if called not in found:
                if isinstance(called, _Part):
                    visit(called)
                found[called] = None

    visit(library)
    parts = [called for called in reversed(found) if isinstance(called, _Part)]
    return parts, [called for called in found if not isinstance(called, _Part)]


@contextmanager
def _making(generator: Any, kind: type) -> Iterator[None]:
    """Libraries made meanwhile are of this kind; numba holds a lock while it compiles."""
    usual = generator._library_class
    generator._library_class = kind
    try:
        yield
    finally:
        generator._library_class = usual


class WholeCompiler(compiler.Compiler):  # type: ignore[misc]
    """Compiles a loop that Python calls."""

    kind: type = _Whole

    def compile_extra(self, func: Any) -> Any:
        """As numba does, into a library of ours."""
        state = self.state
        generator = state.targetctx.codegen()
        if state.library is None:
            state.library = self.kind(generator, func.__qualname__)
            state.library.enable_object_caching()
        with _making(generator, _Part):
            return super().compile_extra(func)


class PartCompiler(WholeCompiler):
    """Compiles a loop that loops alone call."""

    kind = _Part
