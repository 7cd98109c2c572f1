"""Connects while no gateway listens: direct.py ECHO REFUSED."""
import errno
import select
import socket
import sys

ECHO, REFUSED = (("127.0.0.1", int(port)) for port in sys.argv[1:3])


def begin(to):
    sock = socket.socket()
    sock.setblocking(False)
    assert sock.connect_ex(to) == errno.EINPROGRESS
    assert select.select([], [sock], [], 60)[1] == [sock]
    return sock


def check(sock):
    assert sock.getpeername() == ECHO
    sock.setblocking(True)
    sock.sendall(b"data")
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(100) == b"data"


check(socket.create_connection(ECHO))
# The second call reports how the first one went.
sock = begin(ECHO)
assert sock.connect_ex(ECHO) == 0 and sock.connect_ex(ECHO) == errno.EISCONN
check(sock)
sock = begin(REFUSED)
assert sock.connect_ex(REFUSED) == errno.ECONNREFUSED
assert socket.socket().connect_ex(REFUSED) == errno.ECONNREFUSED
sock = begin(REFUSED)
assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
