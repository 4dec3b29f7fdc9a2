"""Import railcore with its powers, logarithms, angles and products off by one unit in the last place, as elsewhere.

Libraries of another machine round these elsewhere: libm, NumPy's SIMD loops, BLAS. `install(seed)` rewrites the modules
of railcore as they are imported; `Rewrite` does the same to a notebook's cells.
"""

import ast
import builtins
import functools
import hashlib
import sys
from importlib.machinery import PathFinder, SourceFileLoader

import numpy as np

FUNCTIONS = set(
    "exp exp2 expm1 log log2 log10 log1p power float_power pow cbrt hypot logaddexp logspace geomspace interp "
    "sin cos tan asin acos atan atan2 arcsin arccos arctan arctan2 sinh cosh tanh erf erfc gamma lgamma "
    "dot vdot inner matmul tensordot einsum convolve polyfit polyval corrcoef cov".split()
)
EXACT = {"**", "@", "dot", "einsum", "convolve"}  # where a whole result is exact on every machine
BOUNDED = ("sin", "cos", "tanh", "erf", "bdtr", "bdtrc")
MODULES = ("np", "math", "special")
HOOK = "__ulp__"


def few_bits(values):
    """True for whole numbers and short binary fractions, which come out exact."""
    size = np.abs(values)
    return ((size < 2.0**50) & (values == np.rint(values))) | ((size < 2.0**32) & (values * 2**20 % 1 == 0))


@np.errstate(all="ignore")
def nudged(values, name, seed):
    """Floats one unit up or down, by a hash of seed, function, scalar or array, and value; 0 and what is exact stay."""
    if np.iscomplexobj(values):
        return nudged(values.real, name, seed) + 1j * nudged(values.imag, name, seed)
    digest = hashlib.blake2b(f"{seed} {name} {np.ndim(values) > 0}".encode(), digest_size=8).digest()
    bits = np.ascontiguousarray(values, float).view(np.uint64) ^ np.uint64(int.from_bytes(digest, "little"))
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    up = ((bits >> np.uint64(40)) & np.uint64(1)).astype(bool).reshape(np.shape(values))
    result = np.nextafter(values, np.where(up, np.inf, -np.inf))
    if name in BOUNDED:
        result = np.clip(result, -1, 1)
    stay = (values == 0) | ~np.isfinite(values)
    if name == "geomspace":  # its ends are as given
        stay[[0, -1]] = True
    if name in EXACT:
        stay |= few_bits(values)
    return np.where(stay, values, result)


def off(value, name, seed):
    """The result of a function with its floats off by one unit; integers and what is no number as they are."""
    if isinstance(value, float | complex):
        return type(value)(nudged(np.asarray(value), name, seed))
    if isinstance(value, np.ndarray):
        return nudged(value, name, seed) if value.dtype.kind in "fc" else value
    if hasattr(value, "indptr"):  # a sparse product
        value.data = off(value.data, name, seed)
        return value
    if hasattr(value, "to_numpy"):
        labels = {"columns": value.columns} if value.ndim == 2 else {"name": value.name}
        return type(value)(off(value.to_numpy(), name, seed), index=value.index, **labels)
    return tuple(off(each, name, seed) for each in value) if isinstance(value, tuple) else value


class Rewrite(ast.NodeTransformer):
    """a ** b and a @ b, and the functions above of np, math and scipy.special, go through the hook."""

    def visit_FunctionDef(self, node):
        compiled = {"njit", "inlined"} & {getattr(each, "id", "") for each in node.decorator_list}
        return node if compiled else self.generic_visit(node)  # Numba cannot call the hook

    def visit_BinOp(self, node):
        self.generic_visit(node)
        name = {ast.Pow: "**", ast.MatMult: "@"}.get(type(node.op))
        return self.hooked(node, name) if name else node

    def visit_AugAssign(self, node):
        left = ast.parse(ast.unparse(node.target), mode="eval").body
        if isinstance(node.op, ast.Pow | ast.MatMult):
            return ast.copy_location(ast.Assign([node.target], self.visit(ast.BinOp(left, node.op, node.value))), node)
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        base = ast.unparse(node.value)
        if base == "special" or base == "np.linalg" or (base in MODULES and node.attr in FUNCTIONS):
            return self.hooked(node, node.attr)
        return node

    def visit_ImportFrom(self, node):
        if node.module not in ("scipy.special", "math"):
            return node
        names = [alias.asname or alias.name for alias in node.names]
        return [node, *(ast.copy_location(ast.parse(f"{n} = {HOOK}({n}, {n!r})").body[0], node) for n in names)]

    @staticmethod
    def hooked(node, name):
        called = ast.Call(ast.Name(HOOK, ast.Load()), [node, ast.Constant(name)], [])
        return ast.copy_location(called, node)


def code(source, path):
    return compile(ast.fix_missing_locations(Rewrite().visit(ast.parse(source))), path, "exec", dont_inherit=True)


class Loader(SourceFileLoader):
    def get_code(self, fullname):
        return code(self.get_data(self.path), self.path)


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname.partition(".")[0] != "railcore":
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def install(seed):
    """From here on railcore is imported with its last bits changed; nothing of it may be imported yet."""
    if "railcore" in sys.modules:
        raise RuntimeError("railcore is imported already: install first")

    def hook(what, name):
        if not callable(what):
            return off(what, name, seed)
        return functools.wraps(what, updated=())(lambda *given, **named: off(what(*given, **named), name, seed))

    setattr(builtins, HOOK, hook)
    sys.meta_path.insert(0, Finder)
