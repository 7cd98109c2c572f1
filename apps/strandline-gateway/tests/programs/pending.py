"""Connects to a server that does not answer, and finds its sockets unconnected: pending.py PORT.

It writes a line once the server may close its socket: then the attempts fail.
"""
import ctypes
import errno
import select
import signal
import socket
import struct
import sys
import threading
import time

PORT = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)


def connect(sock):
    """connect(2) itself: Python's goes on after signals."""
    address = struct.pack("<HH4s8x", socket.AF_INET, socket.htons(PORT), bytes([127, 0, 0, 1]))
    return 0 if libc.connect(sock.fileno(), address, 16) == 0 else ctypes.get_errno()


def set_send_timeout(sock, micros):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, micros))


polled = socket.socket()
polled.setblocking(False)
assert connect(polled) == errno.EINPROGRESS
assert select.select([polled], [polled], [], 0.5) == ([], [], [])
assert connect(polled) == errno.EALREADY
assert polled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
try:
    polled.getpeername()
    raise AssertionError("connected")
except OSError as error:
    assert error.errno == errno.ENOTCONN
try:
    polled.send(b"early")
    raise AssertionError("sent")
except BlockingIOError:
    pass

# The time-out of SO_SNDTIMEO.
limited = socket.socket()
set_send_timeout(limited, 300_000)
assert connect(limited) == errno.EINPROGRESS
assert connect(limited) == errno.EALREADY
set_send_timeout(limited, 0)

# A signal whose handler interrupts system calls. It comes again and again: the first may precede the call.
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
signal.siginterrupt(signal.SIGALRM, True)
interrupted = socket.socket()
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
error = connect(interrupted)
signal.setitimer(signal.ITIMER_REAL, 0)
assert error == errno.EINTR, error
assert select.select([], [interrupted], [], 0.1)[1] == [], "it goes on"

# One whose handler restarts them.
signal.siginterrupt(signal.SIGALRM, False)
caught.clear()
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)


def end_of_silence():
    time.sleep(0.5)
    print("close", flush=True)


threading.Thread(target=end_of_silence).start()
error = connect(socket.socket())
signal.setitimer(signal.ITIMER_REAL, 0)
assert error == errno.ECONNREFUSED and caught, (error, caught)

# The outcome of the others.
assert select.select([], [polled], [], 60)[1] == [polled]
assert polled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
assert connect(limited) == errno.ECONNREFUSED
assert connect(interrupted) == errno.ECONNREFUSED
print("all is well")
