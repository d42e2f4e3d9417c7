"""RabbitMQ's management API under ``/api``: one resource in each module, and the route table."""
