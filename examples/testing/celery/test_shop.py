import os
import subprocess
import sys

import pytest
import shop

WORKER = [
    sys.executable,
    "-m",
    "celery",
    "-A",
    "shop",
    "worker",
    "--pool",
    "solo",
    "--without-gossip",
    "--without-mingle",
]
START_SECONDS = 60
"""A worker may take so long to start on a machine that is busy."""


@pytest.fixture
def application(annulet):
    shop.application.conf.broker_url = annulet.amqp_url
    yield shop.application
    shop.application.close()


@pytest.fixture
def worker(annulet):
    process = subprocess.Popen(
        WORKER, env={**os.environ, "BROKER_URL": annulet.amqp_url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield process
    process.terminate()
    process.wait()


def test_an_order_becomes_a_task(annulet, application):
    shop.bill.delay({"id": 1})
    (message,) = annulet.require_published("celery", count=1, header={"task": "shop.bill"})
    assert message.json[0] == [{"id": 1}]


def test_a_worker_bills_it(annulet, application, worker):
    shop.bill.delay({"id": 1})
    annulet.wait_settled("celery", seconds=START_SECONDS)
    annulet.require_settled("celery")
