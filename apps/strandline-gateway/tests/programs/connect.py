"""Connects in every way that a program can, and checks what it finds: connect.py ECHO REFUSED DENIED."""
import asyncio
import errno
import os
import select
import socket
import subprocess
import sys
import threading

ECHO, REFUSED, DENIED = (("127.0.0.1", int(port)) for port in sys.argv[1:4])
NOTSENT_LOWAT = 25


def is_echoed(sock, data=b"some data"):
    sock.setblocking(True)
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    received = b""
    while more := sock.recv(1 << 16):
        received += more
    return received == data


def begin(to, lowat=0):
    """Begins to connect without blocking, and waits for an event."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, lowat)
    assert sock.connect_ex(to) == errno.EINPROGRESS
    assert select.select([], [sock], [], 60)[1] == [sock]
    return sock


# Blocking, also on a socket whose first attempt failed.
sock = socket.create_connection(ECHO)
assert sock.getpeername() == ECHO and is_echoed(sock)
sock = socket.socket()
assert sock.connect_ex(REFUSED) == errno.ECONNREFUSED
assert sock.connect_ex(ECHO) == 0 and sock.connect_ex(ECHO) == errno.EISCONN and is_echoed(sock)
for to, expected in ((DENIED, errno.EACCES), (("255.255.255.255", 80), errno.ENETUNREACH)):
    assert socket.socket().connect_ex(to) == expected, to

# Without blocking: SO_ERROR, a second connect, getpeername.
sock = begin(ECHO)
assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert sock.getpeername() == ECHO and sock.getsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT) == 0
assert is_echoed(sock, bytes(range(256)) * 20000)
sock = begin(ECHO)
assert sock.connect_ex(ECHO) in (0, errno.EISCONN) and sock.connect_ex(ECHO) == errno.EISCONN
assert is_echoed(sock)
assert is_echoed(begin(ECHO)), "without any question"
for to, expected in ((REFUSED, errno.ECONNREFUSED), (DENIED, errno.EACCES)):
    sock = begin(to)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == expected, to
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, to
    sock = begin(to, lowat=16384)
    assert sock.connect_ex(to) == expected, to
    assert sock.getsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT) == 16384, to

# What a program has set stays.
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
sock.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, 32768)
sock.connect(ECHO)
assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 8192
assert sock.getsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT) == 32768
assert is_echoed(sock, b"x" * 3_000_000)

# Sockets of IPv6 with IPv4 addresses, and TCP fast open.
sock = socket.socket(socket.AF_INET6)
sock.connect(("::ffff:127.0.0.1", ECHO[1]))
assert sock.getpeername()[:2] == ("::ffff:127.0.0.1", ECHO[1]) and is_echoed(sock)
sock = socket.socket()
sock.setsockopt(socket.IPPROTO_TCP, 30, 1)
sock.connect(ECHO)
assert is_echoed(sock)

# Children, and the programs that they become.
sock = socket.create_connection(ECHO)
if os.fork() == 0:
    os._exit(0 if sock.getpeername() == ECHO and is_echoed(sock) else 1)
assert os.wait()[1] == 0
sock = begin(ECHO)
code = f"import socket; sock = socket.socket(fileno={sock.fileno()}); print(sock.getpeername())"
found = subprocess.run([sys.executable, "-c", code], pass_fds=[sock.fileno()], stdout=subprocess.PIPE, text=True)
assert found.stdout.strip() == str(ECHO), found


async def by_asyncio():
    reader, writer = await asyncio.open_connection(*ECHO)
    assert writer.get_extra_info("peername") == ECHO
    writer.write(b"data")
    writer.write_eof()
    assert await reader.read() == b"data"
    try:
        await asyncio.open_connection(*REFUSED)
        raise AssertionError("connected")
    except ConnectionRefusedError:
        pass


asyncio.run(by_asyncio())

# Threads.
echoed = []
threads = [threading.Thread(target=lambda: echoed.append(is_echoed(socket.create_connection(ECHO)))) for _ in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert echoed == [True] * 50
print("all is well")
