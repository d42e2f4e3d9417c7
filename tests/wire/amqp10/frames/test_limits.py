from __future__ import annotations

import ast
from pathlib import Path

from annulet.wire.amqp10.frames import limits


def test_every_bound_is_positive_and_has_its_reason() -> None:
    tree = ast.parse(Path(limits.__file__).with_suffix(".py").read_text(encoding="utf-8"))
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign):
            continue
        assert isinstance(following, ast.Expr), ast.unparse(statement)
        assert len(ast.literal_eval(following.value).split()) > 4
        assert ast.literal_eval(statement.value) > 0  # type: ignore[arg-type]


def test_bounds_fit_each_other() -> None:
    assert limits.MAX_ASSEMBLING_BYTES >= limits.MAX_MESSAGE_SIZE > limits.DEFAULT_MAX_FRAME_SIZE
    assert limits.MAX_LINK_BYTES >= limits.DEFAULT_MAX_FRAME_SIZE + limits.LINK_OVERHEAD_BYTES
    assert limits.MAX_LINK_BYTES >= (limits.DEFAULT_HANDLE_MAX + 1) * limits.LINK_OVERHEAD_BYTES
    assert limits.DEFAULT_CHANNEL_MAX <= 0xFFFF
    assert limits.OUTGOING_WINDOW == limits.MAX_CREDIT == 2**31 - 1
