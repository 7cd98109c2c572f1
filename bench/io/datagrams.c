/* The kernel's share of a transfer over UDP, by each way of giving it datagrams and of taking them: trains of datagrams with at
 * most a window in flight, which small acknowledgements open again. Nothing is built, checked, copied or lost on purpose, so
 * that this is the most that a transport in user space can reach by the same system calls. bench/io/run compares the ways.
 *
 *   io-datagrams receive [-w WAY] [-p PORT] [-a BYTES]
 *   io-datagrams send -t ADDR [-w WAY] [-p PORT] [-s BYTES] [-n BYTES] [-f BYTES] [-T SEC]
 *
 *   -s  bytes of a datagram (1472)   -n  bytes of a train at most (65507)   -f  window (384 KiB)
 *   -a  bytes from one acknowledgement to the next (128 KiB)                -T  duration (2)
 *
 * Ways to send:     sendmsg (GSO), sendmmsg (GSO, 4 trains), single (sendmmsg, no GSO), zerocopy (GSO, MSG_ZEROCOPY),
 *                   uring (GSO, sends and the wait in one call), uring-zc (registered buffers, SEND_ZC)
 * Ways to receive:  recvmsg (GRO), recvmmsg (GRO, 16 trains), single (recvmmsg of 32, no GRO), epoll (GRO, recvmmsg after
 *                   epoll_wait), poll (GRO, recvmmsg without ever sleeping), uring (GRO, multishot, provided buffers) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { TRAIN_MAX = 65507, ROOM = 65536, BATCH = 32, ROOMS = 64, SILENCE_MS = 500 };

static struct options {
    const char *way;
    unsigned port;
    size_t size, train, window, acknowledge;
    double seconds;
    struct in_addr to;
} o = { .port = 9870, .size = 1472, .train = TRAIN_MAX, .window = 384 << 10, .acknowledge = 128 << 10, .seconds = 2 };

static int fd;
static unsigned char *rooms; /* ROOMS of ROOM bytes each, for trains on their way out or in. */
static unsigned long long bytes, calls, datagrams;
static double begun, last, cpu_begun;

static void die(const char *what) {
    fprintf(stderr, "io-datagrams: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int is(const char *way) { return !strcmp(o.way, way); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void report(const char *side, double seconds) {
    printf("{\"side\":\"%s\",\"way\":\"%s\",\"bytes\":%llu,\"seconds\":%.4f,\"mbps\":%.0f,\"cpu_seconds_per_gb\":%.4f,"
           "\"bytes_per_call\":%.0f}\n", side, o.way, bytes, seconds, bytes * 8 / seconds / 1e6,
           (cpu() - cpu_begun) / (bytes / 1e9), calls ? (double)bytes / calls : 0.0);
}

static void option(int level, int name, int value, const char *what) {
    if (setsockopt(fd, level, name, &value, sizeof value)) die(what);
}

static void open_socket(void) {
    if ((fd = socket(AF_INET, SOCK_DGRAM, 0)) < 0) die("socket");
    option(SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20, "SO_RCVBUFFORCE");
    option(SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20, "SO_SNDBUFFORCE");
    struct timeval silence = { .tv_usec = SILENCE_MS * 1000 };
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence)) die("SO_RCVTIMEO");
    rooms = mmap(NULL, (size_t)ROOMS * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (rooms == MAP_FAILED) die("mmap");
    memset(rooms, 0x5a, (size_t)ROOMS * ROOM);
}

static void open_ring(struct io_uring *ring) {
    struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
    int failed = io_uring_queue_init_params(256, ring, &params);
    if (failed) { errno = -failed; die("io_uring_setup"); }
}

/* --- the sender --- */

static unsigned long long acknowledged;

static void take_acknowledgement(const void *from, int got) {
    unsigned long long value;
    if (got != sizeof value) return;
    memcpy(&value, from, sizeof value);
    if (value > acknowledged) acknowledged = value;
}

/* Returns whether one came. Without one for SILENCE_MS, what is in flight was lost. */
static int read_acknowledgement(int flags) {
    unsigned long long value;
    ssize_t got = recv(fd, &value, sizeof value, flags);
    if (got >= 0) { take_acknowledgement(&value, got); return 1; }
    if (errno != EAGAIN && errno != ECONNREFUSED) die("recv");
    if (!flags) acknowledged = bytes;
    return 0;
}

static void read_completions(void) {
    char control[128];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof control };
    while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) message.msg_controllen = sizeof control;
}

static size_t train_length(void) {
    size_t segments = o.train / o.size;
    if (segments < 1) segments = 1;
    if (segments > 128) segments = 128;
    return segments * o.size;
}

static void send_by_calls(double end) {
    int single = is("single"), zerocopy = is("zerocopy"), most = is("sendmmsg") ? 4 : 1;
    size_t train = train_length();
    struct mmsghdr messages[TRAIN_MAX / 64 + 8];
    struct iovec parts[TRAIN_MAX / 64 + 8];
    memset(messages, 0, sizeof messages);
    if (!single) option(SOL_UDP, UDP_SEGMENT, o.size, "UDP_SEGMENT");
    if (zerocopy) option(SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
    for (unsigned next = 0; now() < end;) {
        while (bytes - acknowledged + train > o.window) read_acknowledgement(0);
        int count = 0;
        size_t given = 0;
        if (single) {
            for (size_t at = 0; at < train; at += o.size)
                parts[count++] = (struct iovec){ rooms + next % ROOMS * ROOM + at, o.size };
            next++, given = train;
        } else {
            while (count < most && bytes + given - acknowledged + train <= o.window) {
                parts[count++] = (struct iovec){ rooms + next++ % ROOMS * ROOM, train };
                given += train;
            }
        }
        for (int i = 0; i < count; i++) messages[i].msg_hdr.msg_iov = &parts[i], messages[i].msg_hdr.msg_iovlen = 1;
        for (int done = 0; done < count;) {
            int sent = sendmmsg(fd, messages + done, count - done, zerocopy ? MSG_ZEROCOPY : 0);
            if (sent < 0 && errno == ENOBUFS && zerocopy) { read_completions(); continue; }
            if (sent < 0 && errno != ECONNREFUSED) die("sendmmsg");
            calls++, done += sent > 0 ? sent : 0;
        }
        bytes += given;
        if (zerocopy) read_completions();
        while (read_acknowledgement(MSG_DONTWAIT)) {}
    }
}

static void send_by_ring(double end) {
    enum { ACKNOWLEDGEMENTS = 64, ACK_ROOM = 64, OF_ACK = 1, OF_SEND = 2 };
    struct io_uring ring;
    int zero = is("uring-zc"), failed;
    size_t train = train_length();
    unsigned next = 0, held = 0;
    open_ring(&ring);
    option(SOL_UDP, UDP_SEGMENT, o.size, "UDP_SEGMENT");
    if (zero) {
        struct iovec all = { rooms, (size_t)ROOMS * ROOM };
        if ((failed = io_uring_register_buffers(&ring, &all, 1))) { errno = -failed; die("registering buffers"); }
    }
    static unsigned char acks[ACKNOWLEDGEMENTS][ACK_ROOM];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    io_uring_prep_provide_buffers(sqe, acks, ACK_ROOM, ACKNOWLEDGEMENTS, 0, 0);
    io_uring_sqe_set_data64(sqe, 0);
    int armed = 0;
    while (now() < end) {
        if (!armed) {
            sqe = io_uring_get_sqe(&ring);
            io_uring_prep_recv(sqe, fd, NULL, 0, 0);
            sqe->ioprio |= IORING_RECV_MULTISHOT;
            sqe->flags |= IOSQE_BUFFER_SELECT;
            sqe->buf_group = 0;
            io_uring_sqe_set_data64(sqe, OF_ACK);
            armed = 1;
        }
        while (bytes - acknowledged + train <= o.window && held < ROOMS && (sqe = io_uring_get_sqe(&ring))) {
            void *room = rooms + next++ % ROOMS * ROOM;
            if (zero) {
                io_uring_prep_send_zc_fixed(sqe, fd, room, train, 0, 0, 0);
                held++;
            } else {
                io_uring_prep_send(sqe, fd, room, train, 0);
                sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
            }
            io_uring_sqe_set_data64(sqe, OF_SEND);
            bytes += train;
        }
        struct io_uring_cqe *cqe;
        struct __kernel_timespec silence = { .tv_nsec = SILENCE_MS * 1000000LL };
        calls++;
        failed = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &silence, NULL);
        if (failed == -ETIME) acknowledged = bytes;
        unsigned head, seen = 0, returned[ACKNOWLEDGEMENTS], count = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            seen++;
            if (cqe->user_data == OF_SEND) {
                if (cqe->res < 0 && cqe->res != -ECONNREFUSED) { errno = -cqe->res; die("sending by io_uring"); }
                if (!(cqe->flags & IORING_CQE_F_MORE) && held) held--;
            } else if (cqe->user_data == OF_ACK) {
                if (!(cqe->flags & IORING_CQE_F_MORE)) armed = 0;
                if (cqe->flags & IORING_CQE_F_BUFFER) {
                    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
                    take_acknowledgement(acks[id], cqe->res);
                    if (count < ACKNOWLEDGEMENTS) returned[count++] = id;
                }
            }
        }
        io_uring_cq_advance(&ring, seen);
        for (unsigned i = 0; i < count && (sqe = io_uring_get_sqe(&ring)); i++) {
            io_uring_prep_provide_buffers(sqe, acks[returned[i]], ACK_ROOM, 1, 0, returned[i]);
            sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
            io_uring_sqe_set_data64(sqe, 0);
        }
    }
}

static void run_sender(void) {
    open_socket();
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = o.to, .sin_port = htons(o.port) };
    if (connect(fd, (void *)&to, sizeof to)) die("connect");
    begun = now(), cpu_begun = cpu();
    if (is("uring") || is("uring-zc")) send_by_ring(begun + o.seconds); else send_by_calls(begun + o.seconds);
    report("sender", now() - begun);
}

/* --- the receiver --- */

static struct sockaddr_in peer;
static unsigned long long unacknowledged;

/* Returns 1 for what was received, having begun the measurement with the first. */
static void count(size_t length) {
    if (!begun) begun = now(), cpu_begun = cpu();
    bytes += length, unacknowledged += length;
    datagrams++;
}

static void acknowledge(void) {
    last = now();
    if (unacknowledged < o.acknowledge) return;
    unacknowledged = 0;
    if (sendto(fd, &bytes, sizeof bytes, 0, (void *)&peer, sizeof peer) < 0 && errno != ECONNREFUSED) die("sendto");
}

static void receive_by_calls(void) {
    static char controls[BATCH][128];
    static struct mmsghdr messages[BATCH];
    static struct iovec parts[BATCH];
    int epoll = is("epoll") ? epoll_create1(0) : -1, polls = is("poll");
    int batch = is("recvmsg") ? 1 : is("single") ? BATCH : 16;
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    if (epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
    int flags = epoll >= 0 || polls ? MSG_DONTWAIT : MSG_WAITFORONE;
    for (;;) {
        for (int i = 0; i < batch; i++) {
            parts[i] = (struct iovec){ rooms + (size_t)i * ROOM, ROOM };
            messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1, .msg_name = &peer,
                .msg_namelen = sizeof peer, .msg_control = controls[i], .msg_controllen = sizeof controls[i] };
        }
        int got = recvmmsg(fd, messages, batch, flags, NULL);
        if (got < 0) {
            if (errno != EAGAIN) die("recvmmsg");
            if (polls && (!begun || now() - last < SILENCE_MS / 1e3)) continue;
            if (epoll >= 0 && epoll_wait(epoll, &event, 1, begun ? SILENCE_MS : -1) > 0) continue;
            if (begun) return;
            continue;
        }
        calls++;
        for (int i = 0; i < got; i++) count(messages[i].msg_len);
        acknowledge();
    }
}

static void receive_by_ring(void) {
    enum { GROUP = 0, NAME = sizeof peer, CONTROL = 64, SPACE = ROOM + 256 };
    struct io_uring ring;
    open_ring(&ring);
    struct io_uring_buf_ring *buffers = mmap(NULL, ROOMS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *spaces = mmap(NULL, (size_t)ROOMS * SPACE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffers == MAP_FAILED || spaces == MAP_FAILED) die("mmap");
    struct io_uring_buf_reg registration = { .ring_addr = (unsigned long)buffers, .ring_entries = ROOMS, .bgid = GROUP };
    int failed = io_uring_register_buf_ring(&ring, &registration, 0);
    if (failed) { errno = -failed; die("registering a ring of buffers"); }
    io_uring_buf_ring_init(buffers);
    int mask = io_uring_buf_ring_mask(ROOMS), armed = 0;
    for (int i = 0; i < ROOMS; i++) io_uring_buf_ring_add(buffers, spaces + (size_t)i * SPACE, SPACE, i, mask, i);
    io_uring_buf_ring_advance(buffers, ROOMS);
    struct msghdr message = { .msg_namelen = NAME, .msg_controllen = CONTROL };
    for (;;) {
        if (!armed) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            io_uring_prep_recvmsg_multishot(sqe, fd, &message, 0);
            sqe->flags |= IOSQE_BUFFER_SELECT;
            sqe->buf_group = GROUP;
            armed = 1;
        }
        struct io_uring_cqe *cqe;
        struct __kernel_timespec silence = { .tv_nsec = SILENCE_MS * 1000000LL };
        calls++;
        failed = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &silence, NULL);
        if (failed == -ETIME && begun) return;
        unsigned head, seen = 0, returned = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            seen++;
            if (!(cqe->flags & IORING_CQE_F_MORE)) armed = 0;
            if (!(cqe->flags & IORING_CQE_F_BUFFER)) continue;
            unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
            unsigned char *space = spaces + (size_t)id * SPACE;
            struct io_uring_recvmsg_out *out = io_uring_recvmsg_validate(space, cqe->res, &message);
            if (out) {
                memcpy(&peer, io_uring_recvmsg_name(out), sizeof peer);
                count(io_uring_recvmsg_payload_length(out, cqe->res, &message));
            }
            io_uring_buf_ring_add(buffers, space, SPACE, id, mask, returned++);
        }
        io_uring_cq_advance(&ring, seen);
        io_uring_buf_ring_advance(buffers, returned);
        if (seen) acknowledge();
    }
}

static void run_receiver(void) {
    open_socket();
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(o.port) };
    if (!is("single")) option(SOL_UDP, UDP_GRO, 1, "UDP_GRO");
    if (bind(fd, (void *)&any, sizeof any)) die("bind");
    if (is("uring")) receive_by_ring(); else receive_by_calls();
    report("receiver", last - begun);
}

int main(int count, char **arguments) {
    int sends = count > 1 && !strcmp(arguments[1], "send");
    if (!sends && (count < 2 || strcmp(arguments[1], "receive"))) { fprintf(stderr, "io-datagrams send|receive\n"); return 2; }
    o.way = sends ? "sendmsg" : "recvmmsg";
    optind = 2;
    for (int letter; (letter = getopt(count, arguments, "w:p:s:n:f:a:T:t:")) != -1;) {
        switch (letter) {
        case 'w': o.way = optarg; break;
        case 'p': o.port = atoi(optarg); break;
        case 's': o.size = strtoul(optarg, NULL, 10); break;
        case 'n': o.train = strtoul(optarg, NULL, 10); break;
        case 'f': o.window = strtoul(optarg, NULL, 10); break;
        case 'a': o.acknowledge = strtoul(optarg, NULL, 10); break;
        case 'T': o.seconds = atof(optarg); break;
        case 't': if (!inet_aton(optarg, &o.to)) die("address"); break;
        default: return 2;
        }
    }
    if (o.size < 64 || o.size > TRAIN_MAX || o.train > TRAIN_MAX || o.window < 2 * TRAIN_MAX) {
        fprintf(stderr, "io-datagrams: 64 <= -s <= %d, -n <= %d, -f >= %d\n", TRAIN_MAX, TRAIN_MAX, 2 * TRAIN_MAX);
        return 2;
    }
    if (sends) run_sender(); else run_receiver();
}
