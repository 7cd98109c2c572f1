/* Throughput of usrsctp, for comparison in one run: one association, messages as fast as possible, a report as JSON.
 *
 *   usrsctp-stream receive [options]               wait for one association, read it to its end, report
 *   usrsctp-stream send -t ADDR [options]          connect and send
 *
 *   -p PORT  SCTP port of the receiver (5001)   -u PORT  own UDP port (receiver 9899, sender 9898)
 *   -U PORT  the peer's UDP port (9899)         -l LEN   bytes of each message (8192)   -T SEC   duration (10)
 *   -b BYTES send and receive buffers (4 MB)    -D       SCTP_NODELAY
 *   -R       raw IP instead of UDP
 *   -c       upcalls: read and write from within the stack's own thread, which is the faster way, instead of calls
 *            that block in a thread of the application, as most programs use it (and usrsctp's own tsctp) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

static struct options {
    int sends, upcalls, nodelay, raw, buffer;
    unsigned port, udp_port, peer_udp_port;
    size_t length;
    double seconds;
    struct in_addr to;
} o = { .port = 5001, .peer_udp_port = 9899, .length = 8192, .seconds = 10, .buffer = 4000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_over;
static unsigned long long bytes, messages;
static double begun, cpu_begun[2];
static char data[1 << 20];

static void die(const char *what) {
    fprintf(stderr, "usrsctp-stream: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void cpu_time(double times[2]) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    times[0] = usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6;
    times[1] = usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
}

static void begin(void) {
    begun = now();
    cpu_time(cpu_begun);
}

static void finish(void) {
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_until_over(void) {
    pthread_mutex_lock(&lock);
    while (!is_over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void report(void) {
    double seconds = now() - begun, cpu[2];
    cpu_time(cpu);
    double user = cpu[0] - cpu_begun[0], system = cpu[1] - cpu_begun[1];
    printf("{\"side\":\"%s\",\"transport\":\"usrsctp\",\"seconds\":%.6f,\"bytes\":%llu,\"messages\":%llu,"
           "\"mbit_per_second\":%.3f,\"messages_per_second\":%.1f,\"cpu_user_seconds\":%.6f,"
           "\"cpu_system_seconds\":%.6f,\"cpu_seconds_per_gb\":%.6f}\n",
           o.sends ? "sender" : "receiver", seconds, bytes, messages, bytes * 8 / 1e6 / seconds, messages / seconds,
           user, system, bytes ? (user + system) / (bytes / 1e9) : 0.0);
    fflush(stdout);
}

/* Reads one message or part of one. Returns the result of usrsctp_recvv. */
static ssize_t read_once(struct socket *sock) {
    struct sctp_rcvinfo info;
    socklen_t info_length = sizeof info, from_length = 0;
    unsigned kind = 0;
    int flags = 0;
    ssize_t n = usrsctp_recvv(sock, data, sizeof data, NULL, &from_length, &info, &info_length, &kind, &flags);
    if (n > 0 && !(flags & MSG_NOTIFICATION)) {
        bytes += n;
        messages += (flags & MSG_EOR) != 0;
    }
    return n;
}

static ssize_t send_once(struct socket *sock) {
    struct sctp_sndinfo info = { 0 };
    ssize_t n = usrsctp_sendv(sock, data, o.length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
    if (n > 0) {
        bytes += n;
        messages++;
    }
    return n;
}

static void on_receive(struct socket *sock, void *unused, int flags) {
    (void)unused, (void)flags;
    while (usrsctp_get_events(sock) & SCTP_EVENT_READ) {
        ssize_t n = read_once(sock);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            usrsctp_set_upcall(sock, NULL, NULL);
            finish();
            return;
        }
    }
}

static void on_send(struct socket *sock, void *unused, int flags) {
    (void)unused, (void)flags;
    static int done;
    while (!done && (usrsctp_get_events(sock) & SCTP_EVENT_WRITE)) {
        if (send_once(sock) < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return;
            die("sending");
        }
        if ((messages & 63) == 0 && now() >= begun + o.seconds) {
            done = 1;
            finish();
        }
    }
}

static void set_option(struct socket *sock, int level, int name, int value) {
    if (usrsctp_setsockopt(sock, level, name, &value, sizeof value) < 0)
        die("a socket option");
}

/* usrsctp leaves its UDP and raw sockets with the system's default buffers, which overflow when upcalls make it bursty.
 * They get the sizes of strandline's. Its descriptors are the only sockets of this process. */
static void enlarge_buffers(void) {
    for (int fd = 3; fd < 64; fd++) {
        int kind = 0, size = 4 << 20;
        socklen_t length = sizeof kind;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 &&
            (kind == SOCK_DGRAM || kind == SOCK_RAW)) {
            if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
                setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
            if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
                setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        }
    }
}

static struct socket *open_socket(void) {
    struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!sock)
        die("a socket");
    set_option(sock, SOL_SOCKET, SO_SNDBUF, o.buffer);
    set_option(sock, SOL_SOCKET, SO_RCVBUF, o.buffer);
    if (o.nodelay)
        set_option(sock, IPPROTO_SCTP, SCTP_NODELAY, 1);
    return sock;
}

static void receive(void) {
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(o.port) };
    struct socket *listener = open_socket();
    if (usrsctp_bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || usrsctp_listen(listener, 1) < 0)
        die("listening");
    struct socket *sock = usrsctp_accept(listener, NULL, NULL);
    if (!sock)
        die("accepting");
    begin();
    if (o.upcalls) {
        usrsctp_set_non_blocking(sock, 1);
        usrsctp_set_upcall(sock, on_receive, NULL);
        on_receive(sock, NULL, 0);
        wait_until_over();
    } else {
        while (read_once(sock) > 0)
            ;
    }
    report();
    usrsctp_close(sock);
    usrsctp_close(listener);
}

static void send_messages(void) {
    struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(o.port), .sin_addr = o.to };
    struct socket *sock = open_socket();
    struct sctp_udpencaps encaps = { .sue_address.ss_family = AF_INET, .sue_port = htons(o.peer_udp_port) };
    if (!o.raw && usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) < 0)
        die("the UDP port");
    if (usrsctp_connect(sock, (struct sockaddr *)&there, sizeof there) < 0)
        die("connecting");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)i;
    begin();
    if (o.upcalls) {
        usrsctp_set_non_blocking(sock, 1);
        usrsctp_set_upcall(sock, on_send, NULL);
        on_send(sock, NULL, 0);
        wait_until_over();
        usrsctp_set_upcall(sock, NULL, NULL);
    } else {
        while ((messages & 63) || now() < begun + o.seconds)
            if (send_once(sock) < 0)
                die("sending");
    }
    report();
    usrsctp_shutdown(sock, SHUT_WR);
    usrsctp_close(sock);
}

int main(int argc, char **argv) {
    int option, is_known = argc > 1 && (!strcmp(argv[1], "send") || !strcmp(argv[1], "receive"));
    o.sends = argc > 1 && !strcmp(argv[1], "send");
    o.udp_port = o.sends ? 9898 : 9899;
    optind = 2;
    while (is_known && (option = getopt(argc, argv, "p:u:U:l:T:b:t:DcR")) != -1) {
        switch (option) {
        case 'p': o.port = atoi(optarg); break;
        case 'u': o.udp_port = atoi(optarg); break;
        case 'U': o.peer_udp_port = atoi(optarg); break;
        case 'l': o.length = strtoul(optarg, NULL, 10); break;
        case 'T': o.seconds = atof(optarg); break;
        case 'b': o.buffer = atoi(optarg); break;
        case 't': is_known = inet_pton(AF_INET, optarg, &o.to) == 1; break;
        case 'D': o.nodelay = 1; break;
        case 'c': o.upcalls = 1; break;
        case 'R': o.raw = 1; break;
        default: is_known = 0;
        }
    }
    if (!is_known || o.length < 1 || o.length > sizeof data || (o.sends && !o.to.s_addr)) {
        fprintf(stderr, "usage: usrsctp-stream receive|send [options]; they stand at the top of stream.c\n");
        return 2;
    }
    /* Without a UDP port it opens raw sockets only. */
    usrsctp_init(o.raw ? 0 : o.udp_port, NULL, NULL);
    enlarge_buffers();
    usrsctp_sysctl_set_sctp_blackhole(2);
    usrsctp_sysctl_set_sctp_sendspace(o.buffer);
    usrsctp_sysctl_set_sctp_recvspace(o.buffer);
    if (o.sends)
        send_messages();
    else
        receive();
    /* Waits until the association has ended, as the peer does. */
    for (int i = 0; i < 500 && usrsctp_finish() != 0; i++)
        usleep(10000);
    return 0;
}
