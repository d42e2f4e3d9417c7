from __future__ import annotations

import json

import pytest

from annulet.admin.rabbitmq.framework.errors import answer_error, not_authorised, not_found
from annulet.admin.requests.responses import ResourceError, bad_request, missing_field
from annulet.core.base.errors import AccessRefused, CoreError, NotFound, PreconditionFailed
from annulet.store.files.errors import CatalogueError


@pytest.mark.parametrize(
    ("error", "status", "word", "reason"),
    [
        (bad_request("a", 1, "give b"), 400, "bad_request", "field 'a': value 1; give b"),
        (missing_field("a", "give b"), 400, "bad_request", "field 'a': missing; give b"),
        (not_found("queue", "q"), 404, "Object Not Found", "no queue 'q'"),
        (not_authorised("no"), 401, "not_authorised", "no"),
        (NotFound("n"), 404, "Object Not Found", "n"),
        (AccessRefused("r"), 401, "not_authorised", "r"),
        (PreconditionFailed("p"), 400, "bad_request", "p"),
        (CatalogueError("c"), 503, "service_unavailable", "c"),
    ],
)
def test_errors_have_rabbitmqs_statuses_and_words(
    error: ResourceError | CoreError | CatalogueError, status: int, word: str, reason: str
) -> None:
    answer = answer_error(error)
    assert answer.status_code == status
    assert json.loads(bytes(answer.body)) == {"error": word, "reason": reason}
