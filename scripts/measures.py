"""Prints the structure of the package in one line of numbers, and fails when a number exceeds its bound.

The bounds are in pyproject.toml. A limit of ``[tool.annulet.measures.limits]`` is a rule of the house. A bound of
``[tool.annulet.measures.ratchets]`` is the value of today: it only shrinks, so a value far below it is an error until
the bound is lowered. Run from the root of the repository: ``python -m scripts.measures``.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import grimp

from scripts.prose import indirect, prose_of_module, prose_of_page, sentences

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "annulet"
QUEUE_MODULE: Final = f"{PACKAGE}.core.queue.queue"
ORDER_CLASS: Final = f"{PACKAGE}.core.model.order.Order"
QUEUE_NAMES: Final = frozenset({"queue", "_queue"})
"""Names of variables and attributes that hold a queue."""

DOCUMENTED: Final = frozenset({"_asdict", "_fields", "_make", "_replace", "_exit", "_getframe", "_current_frames"})
"""Names with an underscore that Python's documentation offers to everybody."""

SLACK_SHARE: Final = 20
"""A value may be below its ratchet by 1 / this of the ratchet: neither each change nor each merge edits the bound."""


class ClassFact(NamedTuple):
    """A class: the names of its bases as far as the package defines them."""

    module: str
    bases: tuple[str, ...]


class Sources:
    """The modules of a package below a folder ``src``, parsed once."""

    def __init__(self, root: Path, package: str = PACKAGE) -> None:
        self.root = root
        self.package = package
        self.folder = root / "src" / package
        self.trees = {self._module_of(path): ast.parse(path.read_text()) for path in sorted(self.folder.rglob("*.py"))}
        self.nodes = {module: list(ast.walk(tree)) for module, tree in self.trees.items()}

    def _module_of(self, path: Path) -> str:
        parts = path.relative_to(self.root / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def names(self) -> dict[str, dict[str, str]]:
        """For each module the full names of what its imports and its own classes are called there."""
        found: dict[str, dict[str, str]] = {}
        for module, nodes in self.nodes.items():
            known = found.setdefault(module, {})
            for node in nodes:
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    known.update({item.asname or item.name: f"{node.module}.{item.name}" for item in node.names})
                elif isinstance(node, ast.ClassDef):
                    known[node.name] = f"{module}.{node.name}"
        return found

    def full_name(self, module: str, expression: ast.expr) -> str:
        """Return the full name of a class, also where a package passes it on; empty for anything else."""
        if isinstance(expression, ast.Subscript):
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return ""
        name = self.names[module].get(expression.id, "")
        while (parts := name.rpartition("."))[0] in self.names:
            passed_on = self.names[parts[0]].get(parts[2], name)
            if passed_on == name:
                break
            name = passed_on
        return name

    @cached_property
    def classes(self) -> dict[str, ClassFact]:
        """All classes by their full names."""
        return {
            f"{module}.{node.name}": ClassFact(module, tuple(self.full_name(module, base) for base in node.bases))
            for module, nodes in self.nodes.items()
            for node in nodes
            if isinstance(node, ast.ClassDef)
        }

    def ancestors(self, name: str) -> Iterator[str]:
        """Yield a class and all of its bases that the package defines."""
        fact = self.classes.get(name)
        if fact is not None:
            yield name
            for base in fact.bases:
                yield from self.ancestors(base)


def dotted(expression: ast.expr) -> str:
    """Return a name with its attributes as in the source; empty for anything else."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        before = dotted(expression.value)
        return f"{before}.{expression.attr}" if before else ""
    return ""


# ---------------------------------------------------------------------- folders and imports


def folder_modules(sources: Sources) -> int:
    """Count the modules of the largest folder."""
    return max(Counter(path.parent for path in sources.folder.rglob("*.py")).values())


def circle_modules(sources: Sources) -> int:
    """Count the modules of the largest circle of imports, those for annotations included."""
    sys.path.insert(0, str(sources.root / "src"))
    try:
        graph = grimp.build_graph(sources.package, exclude_type_checking_imports=False, cache_dir=None)
    finally:
        sys.path.remove(str(sources.root / "src"))
    return largest_circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def largest_circle(imports: Mapping[str, set[str]]) -> int:
    """Count the members of the largest strongly connected component of a graph; 0 when nothing is in a circle.

    Kosaraju's algorithm: a search of the graph gives the order for a search of the reversed graph.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        for other in imported:
            importers[other].add(module)
    finished: list[str] = []
    seen: set[str] = set()
    for module in sorted(imports):
        finished += _reached(module, imports, seen)
    seen.clear()
    sizes = [len(_reached(module, importers, seen)) for module in reversed(finished)]
    return max((size for size in sizes if size > 1), default=0)


def _reached(start: str, edges: Mapping[str, set[str]], seen: set[str]) -> list[str]:
    """Return the nodes that a search in depth reaches first from ``start``, each behind those it leads to."""
    if start in seen:
        return []
    seen.add(start)
    finished: list[str] = []
    path = [(start, iter(sorted(edges.get(start, ()))))]
    while path:
        node, following = path[-1]
        child = next((other for other in following if other not in seen), None)
        if child is None:
            path.pop()
            finished.append(node)
        else:
            seen.add(child)
            path.append((child, iter(sorted(edges.get(child, ())))))
    return finished


# ---------------------------------------------------------------------- classes


def require_class(sources: Sources, name: str) -> None:
    """Raise LookupError for a class that has moved: a measure of it would be 0."""
    if name not in sources.classes:
        raise LookupError(f"class {name} does not exist; name its present place in scripts/measures.py")


def single_subclass_bases(sources: Sources) -> int:
    """Count classes that exist as the base of one class only, in another module of their folder."""
    return len(list(sliced_classes(sources)))


def sliced_classes(sources: Sources) -> Iterator[str]:
    """Yield the full names of bases with one subclass, in another module of their folder, of which nothing is made."""
    subclasses: dict[str, list[str]] = defaultdict(list)
    for fact in sources.classes.values():
        for base in fact.bases:
            subclasses[base].append(fact.module)
    made = {
        sources.full_name(module, node.func)
        for module, nodes in sources.nodes.items()
        for node in nodes
        if isinstance(node, ast.Call)
    }
    for name, fact in sources.classes.items():
        users = subclasses[name]
        if len(users) != 1 or users[0] == fact.module or name in made:
            continue
        if users[0].rpartition(".")[0] == fact.module.rpartition(".")[0]:
            yield name


def private_reach(sources: Sources) -> int:
    """Count reads and writes of private members of objects whose class is not in the same module."""
    return sum(len(list(private_accesses(nodes))) for nodes in sources.nodes.values())


def tests_private_reach(sources: Sources) -> int:
    """Count the same in tests: each breaks when something is renamed or done in another way."""
    paths = sorted((sources.root / "tests").rglob("*.py"))
    return sum(len(list(private_accesses(list(ast.walk(ast.parse(path.read_text())))))) for path in paths)


def private_accesses(nodes: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    """Yield the attributes with an underscore that are neither the module's own, nor documented by Python."""
    own = set(DOCUMENTED)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and dotted(node.value) in {"self", "cls"}:
            own.add(node.attr)
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        of_a_base = isinstance(node.value, ast.Call) and dotted(node.value.func) == "super"
        if node.attr not in own and not of_a_base:
            yield node


def order_ladders(sources: Sources) -> int:
    """Count the ``isinstance`` tests of concrete orders."""
    require_class(sources, ORDER_CLASS)
    return sum(
        any(_is_concrete_order(sources, module, kind) for kind in _alternatives(node.args[1]))
        for module, nodes in sources.nodes.items()
        for node in nodes
        if isinstance(node, ast.Call) and dotted(node.func) == "isinstance" and len(node.args) == 2
    )


def _alternatives(kinds: ast.expr) -> Iterator[ast.expr]:
    if isinstance(kinds, ast.BinOp):
        yield from _alternatives(kinds.left)
        yield from _alternatives(kinds.right)
    elif isinstance(kinds, ast.Tuple):
        yield from kinds.elts
    else:
        yield kinds


def _is_concrete_order(sources: Sources, module: str, kind: ast.expr) -> bool:
    name = sources.full_name(module, kind)
    return name != ORDER_CLASS and ORDER_CLASS in sources.ancestors(name)


# ---------------------------------------------------------------------- the queue


def queue_classes(sources: Sources) -> set[str]:
    """Return the full names of the queue's class and of its bases in its own room."""
    require_class(sources, f"{QUEUE_MODULE}.Queue")
    room = QUEUE_MODULE.rpartition(".")[0]
    return {name for name in sources.ancestors(f"{QUEUE_MODULE}.Queue") if name.startswith(f"{room}.")}


def queue_functions(sources: Sources) -> int:
    """Count the functions of the core, outside classes, with a whole queue as a parameter."""
    classes = queue_classes(sources)
    return sum(
        any(
            parameter.annotation is not None and sources.full_name(module, parameter.annotation) in classes
            for parameter in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        )
        for module, tree in sources.trees.items()
        if module.startswith(f"{sources.package}.core.")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    )


def queue_fields(sources: Sources) -> set[str]:
    """Return the names of the attributes that the queue's classes set on themselves."""
    fields: set[str] = set()
    for name in queue_classes(sources):
        module, _, class_name = name.rpartition(".")
        for part in sources.trees[module].body:
            if isinstance(part, ast.ClassDef) and part.name == class_name:
                fields |= {
                    node.attr
                    for node in ast.walk(part)
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and dotted(node.value) == "self"
                }
    return fields


def queue_readers(sources: Sources) -> int:
    """Count the modules that use fields of a queue, the queue's own excepted."""
    return len(_modules_with_fields(sources, stored=False))


def queue_writers(sources: Sources) -> int:
    """Count the modules that assign fields of a queue, the queue's own excepted."""
    return len(_modules_with_fields(sources, stored=True))


def _modules_with_fields(sources: Sources, *, stored: bool) -> set[str]:
    fields = queue_fields(sources)
    own = {name.rpartition(".")[0] for name in queue_classes(sources)}
    return {
        module
        for module, nodes in sources.nodes.items()
        if module not in own
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in fields
        and (isinstance(node.ctx, ast.Store) or not stored)
        and dotted(node.value).rpartition(".")[2] in QUEUE_NAMES
    }


# ---------------------------------------------------------------------- texts


def indirect_sentences(sources: Sources) -> int:
    """Count the sentences without a named subject among 1000 of docstrings, comments and pages."""
    texts = [text for path in sorted(sources.folder.rglob("*.py")) for text in prose_of_module(path.read_text())]
    pages = [*sorted(sources.root.glob("*.md")), *sorted((sources.root / "docs").rglob("*.md"))]
    texts += [prose_of_page(path.read_text()) for path in pages]
    found = [indirect(sentence) for text in texts for sentence in sentences(text)]
    return 1000 * sum(found) // max(1, len(found))


def architecture_bytes(sources: Sources) -> int:
    """Return the size of ARCHITECTURE.md in bytes."""
    return (sources.root / "ARCHITECTURE.md").stat().st_size


def architecture_line(sources: Sources) -> int:
    """Return the characters of the longest line of ARCHITECTURE.md."""
    return max(map(len, (sources.root / "ARCHITECTURE.md").read_text().splitlines()), default=0)


MEASURES: Final[dict[str, Callable[[Sources], int]]] = {
    "folder_modules": folder_modules,
    "circle_modules": circle_modules,
    "single_subclass_bases": single_subclass_bases,
    "private_reach": private_reach,
    "tests_private_reach": tests_private_reach,
    "queue_functions": queue_functions,
    "queue_readers": queue_readers,
    "queue_writers": queue_writers,
    "order_ladders": order_ladders,
    "indirect_sentences": indirect_sentences,
    "architecture_bytes": architecture_bytes,
    "architecture_line": architecture_line,
}


# ---------------------------------------------------------------------- bounds


def read_bounds(root: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the limits and the ratchets of pyproject.toml.

    Raises:
        ValueError: a measure has no bound or two, or a bound belongs to no measure.
    """
    tables = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["annulet"]["measures"]
    limits: dict[str, int] = tables["limits"]
    ratchets: dict[str, int] = tables["ratchets"]
    for name, count in Counter([*MEASURES, *limits, *ratchets]).items():
        if name not in MEASURES:
            raise ValueError(f"tool.annulet.measures: {name} is no measure; give one of {', '.join(MEASURES)}")
        if count != 2:
            raise ValueError(
                f"tool.annulet.measures: {name} has {count - 1} bounds; give one, in limits or in ratchets"
            )
    return limits, ratchets


def complaints(values: Mapping[str, int], limits: Mapping[str, int], ratchets: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong: values above their bounds, and ratchets that can be lowered."""
    for name, bound in {**limits, **ratchets}.items():
        if values[name] > bound:
            purpose = (MEASURES[name].__doc__ or "").partition("\n")[0]
            yield f"{name} is {values[name]}, at most {bound} is allowed. {purpose}"
    for name, bound in ratchets.items():
        if values[name] < bound - bound // SLACK_SHARE:
            yield f"{name} is {values[name]}: lower the bound in tool.annulet.measures.ratchets from {bound}"


def main(root: Path = ROOT) -> int:
    """Print all values with their bounds in one line, then what is wrong. Returns the exit status."""
    sources = Sources(root)
    limits, ratchets = read_bounds(root)
    values = {name: measure(sources) for name, measure in MEASURES.items()}
    bounds = {**limits, **ratchets}
    print(", ".join(f"{name} {value} ({bounds[name]})" for name, value in values.items()))
    wrong = list(complaints(values, limits, ratchets))
    for line in wrong:
        print(f"measures: {line}", file=sys.stderr)
    if any(line.startswith("single_subclass_bases") for line in wrong):
        for name in sliced_classes(sources):
            print(f"measures: {name} is the base of one class only", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
