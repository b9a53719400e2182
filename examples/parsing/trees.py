"""Converts Python statements to parallel data: words as source, a bracketed tree as target.

    return a < 3      return NAME < NUMBER
                      (Return (Compare NAME Lt NUMBER )Compare )Return

Identifiers, numbers and strings are replaced by their kinds, like words by parts of speech in
natural-language trees. Leaves are in source order.
"""

import ast
import bisect
import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import Optional

Position = tuple[int, int]

# Tokens without syntactic meaning.
_IGNORED = {tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER}
# Since Python 3.12 an f-string consists of many tokens. Its tree is the leaf STRING in all
# versions.
_F_STRING_START = getattr(tokenize, "FSTRING_START", None)
_F_STRING_END = getattr(tokenize, "FSTRING_END", None)
# Lists of statements that need a bracket to separate them from the body.
_BRACKETED_FIELDS = ("orelse", "finalbody")
# Parameters that differ only by stars.
_STARRED_FIELDS = ("vararg", "kwarg")


class Words:
    """The anonymised tokens of a module, and their positions."""

    def __init__(self, source: str) -> None:
        """
        Args:
            source: a module in ASCII, since Python counts columns in bytes in trees, but not in
                tokens.

        Raises:
            SyntaxError, tokenize.TokenError: if it cannot be split into tokens.
        """
        self._starts: list[Position] = []
        self._texts: list[str] = []
        open_strings = 0
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == _F_STRING_END:
                open_strings -= 1
            elif token.type == _F_STRING_START:
                open_strings += 1
                if open_strings == 1:
                    self._append(token.start, "STRING")
            elif not open_strings and token.type not in _IGNORED:
                self._append(token.start, _anonymous(token))

    def of(self, node: ast.stmt) -> list[str]:
        """The words of a statement, without leading dedents, which belong to the previous
        statement.
        """
        first = bisect.bisect_left(self._starts, (node.lineno, node.col_offset))
        last = bisect.bisect_left(self._starts, (node.end_lineno, node.end_col_offset))
        while self._texts[first] == "DEDENT":
            first += 1
        return self._texts[first:last]

    def _append(self, start: Position, text: str) -> None:
        self._starts.append(start)
        self._texts.append(text)


def _anonymous(token: tokenize.TokenInfo) -> str:
    is_keyword = token.type == tokenize.NAME and keyword.iskeyword(token.string)
    if is_keyword or token.type == tokenize.OP:
        return token.string
    return tokenize.tok_name[token.type]


def linearised(node: ast.AST) -> list[str]:
    """A tree as brackets and leaves. A node without children is a leaf."""
    leaf = _leaf(node)
    if leaf is not None:
        return [leaf]
    operator = _operator_in_label(node)
    label = type(operator or node).__name__
    inner = [token for child in _children(node, operator) for token in child]
    return _bracketed(label, inner)


def _bracketed(label: str, inner: list[str]) -> list[str]:
    return [f"({label}", *inner, f"){label}"] if inner else [label]


def _leaf(node: ast.AST) -> Optional[str]:
    """The token of a name or a literal; ``None`` for other nodes."""
    if isinstance(node, ast.Name) or (isinstance(node, ast.arg) and node.annotation is None):
        return "NAME"
    if isinstance(node, ast.JoinedStr):
        return "STRING"
    if not isinstance(node, ast.Constant):
        return None
    if isinstance(node.value, (str, bytes)):
        return "STRING"
    if node.value is None or node.value is ... or isinstance(node.value, bool):
        return repr(node.value)
    return "NUMBER"


def _operator_in_label(node: ast.AST) -> Optional[ast.AST]:
    """The operator of an operation, which is its label: ``a + b`` is ``(Add NAME NAME )Add``."""
    is_operation = isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp))
    return node.op if is_operation else None


def _children(node: ast.AST, left_out: Optional[ast.AST]) -> Iterator[list[str]]:
    """The children of a node as brackets and leaves, in source order.

    Children without a position (identifiers, operators) follow the previous field.
    """
    position = _position(node) or (0, 0)
    placed: list[tuple[Position, list[str]]] = []
    for field, value in _fields(node):
        if value is left_out or isinstance(value, ast.expr_context):
            continue
        if isinstance(value, str):
            placed.append((position, ["NAME"]))
            continue
        position = _position(value) or position
        tokens = linearised(value)
        if field in _STARRED_FIELDS:
            tokens = _bracketed(field, tokens)
        if not (isinstance(value, ast.arguments) and len(tokens) == 1):
            placed.append((position, tokens))
    placed.sort(key=lambda part: part[0])
    yield from (tokens for _, tokens in placed)
    for field in _BRACKETED_FIELDS:
        statements = getattr(node, field, None)
        if isinstance(statements, list) and statements:
            yield _bracketed(field, [token for each in statements for token in linearised(each)])


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    """The nodes and identifiers in a node with the names of their fields."""
    if isinstance(node, ast.Compare):
        # Interleave operators and operands, which are in separate fields.
        yield "left", node.left
        for operator, compared in zip(node.ops, node.comparators):
            yield "ops", operator
            yield "comparators", compared
        return
    for field, value in ast.iter_fields(node):
        if isinstance(value, list) and field in _BRACKETED_FIELDS:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (ast.AST, str)):
                yield field, item


def _position(node: object) -> Optional[Position]:
    """The position where a node begins; ``None`` for operators, which have none."""
    if hasattr(node, "lineno"):
        return node.lineno, node.col_offset
    inner = (_position(child) for child in ast.iter_child_nodes(node))
    return min((position for position in inner if position), default=None)


def brackets(tree: list[str]) -> Optional[Counter]:
    """The labelled brackets of a linearised tree with the leaves that they span.

    Args:
        tree: tokens such as those of :func:`linearised`.

    Returns:
        the count of each ``(label, first leaf, last leaf + 1)``; ``None`` if the tokens are not a
        tree
    """
    found: Counter = Counter()
    under_way: list[tuple[str, int]] = []
    n_leaves = 0
    for token in tree:
        if token.startswith("("):
            under_way.append((token[1:], n_leaves))
        elif token.startswith(")"):
            if not under_way or under_way[-1][0] != token[1:]:
                return None
            label, first = under_way.pop()
            found[(label, first, n_leaves)] += 1
        else:
            n_leaves += 1
    return None if under_way else found
