"""The frame of ``/api/v1``: its route table, from which come checks, answers, and the description in OpenAPI."""
