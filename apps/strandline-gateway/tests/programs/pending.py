"""Connects to a server that does not answer, and finds its socket unconnected: pending.py PORT."""
import ctypes
import errno
import select
import signal
import socket
import struct
import sys
import time

PORT = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)


def connect(sock):
    """connect(2) itself: Python's goes on after signals."""
    address = struct.pack("<HH4s8x", socket.AF_INET, socket.htons(PORT), bytes([127, 0, 0, 1]))
    begun = time.monotonic()
    result = libc.connect(sock.fileno(), address, 16)
    return 0 if result == 0 else ctypes.get_errno(), time.monotonic() - begun


sock = socket.socket()
sock.setblocking(False)
assert connect(sock)[0] == errno.EINPROGRESS
assert select.select([sock], [sock], [], 0.5) == ([], [], [])
assert connect(sock)[0] == errno.EALREADY
assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
try:
    sock.getpeername()
    raise AssertionError("connected")
except OSError as error:
    assert error.errno == errno.ENOTCONN
try:
    sock.send(b"early")
    raise AssertionError("sent")
except BlockingIOError:
    pass
assert select.select([], [sock], [], 60)[1] == [sock]
assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT

# The time-out of SO_SNDTIMEO, then the outcome.
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300_000))
assert connect(sock)[0] == errno.EINPROGRESS
assert connect(sock)[0] == errno.EALREADY
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
assert connect(sock)[0] == errno.ETIMEDOUT

# A signal whose handler restarts system calls, and one whose handler interrupts them.
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.2)
error, seconds = connect(socket.socket())
assert error == errno.ETIMEDOUT and seconds > 0.9 and caught, (error, seconds)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.2)
sock = socket.socket()
assert connect(sock)[0] == errno.EINTR
assert select.select([], [sock], [], 0.1)[1] == [], "it goes on"
assert connect(sock)[0] == errno.ETIMEDOUT
print("all is well")
