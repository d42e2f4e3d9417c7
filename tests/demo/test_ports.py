"""Ports for child brokers: free, different, and out of the way of outgoing connections and other processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing

from annulet.demo.ports import BLOCK_PORTS, EPHEMERAL_RANGE, LOOPBACK, LoopbackPorts, free_ports


def test_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server((LOOPBACK, port)).close()


def test_an_outgoing_connection_is_never_given_such_a_port() -> None:
    first_ephemeral = int(EPHEMERAL_RANGE.read_text().split()[0])
    assert max(free_ports(20)) < first_ephemeral


def test_a_port_in_use_is_left_out() -> None:
    with closing(LoopbackPorts()) as ports:
        (first,) = ports.take(1)
        with socket.create_server((LOOPBACK, first + 1)):
            assert first + 1 not in ports.take(BLOCK_PORTS - 2)


def test_two_processes_take_from_different_blocks() -> None:
    code = "from annulet.demo.ports import free_ports; print(*free_ports(40))"
    theirs = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {*map(int, theirs)} & {*free_ports(40)}
    with closing(LoopbackPorts()) as others:
        assert not {*free_ports(40)} & {*others.take(40)}
