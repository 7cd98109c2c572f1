/* Set-up of an association with a first echo on usrsctp over UDP encapsulation, for comparison in one run.
 *
 *   usrsctp-transaction serve               echo one message on each association, until killed
 *   usrsctp-transaction call -t ADDR [-T SECONDS] [-l BYTES]
 *                                           connect, send, wait for the echo; one after another
 *
 * Blocking calls, SCTP_NODELAY, one socket for each association. The time runs from the call of usrsctp_connect to the
 * last byte of the echo; the association ends after that. The report is JSON, with medians in microseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

enum { PORT = 5001, SERVER_UDP_PORT = 9899, CLIENT_UDP_PORT = 9898, BYTES_MAX = 1 << 16, COUNT_MAX = 1 << 20 };

static char data[BYTES_MAX], back[BYTES_MAX];

static void die(const char *what) {
    fprintf(stderr, "usrsctp-transaction: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static struct socket *open_socket(void) {
    struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    int on = 1;
    if (!sock || usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) < 0)
        die("a socket");
    return sock;
}

/* Reads one message, or the part of it that arrives before the end. */
static size_t read_message(struct socket *sock, size_t length) {
    size_t have = 0;
    while (have < length) {
        struct sctp_rcvinfo info;
        socklen_t info_length = sizeof info, from_length = 0;
        unsigned kind = 0;
        int flags = 0;
        ssize_t n = usrsctp_recvv(sock, back + have, sizeof back - have, NULL, &from_length, &info, &info_length, &kind,
                                  &flags);
        if (n <= 0)
            break;
        have += n;
        if (flags & MSG_EOR)
            break;
    }
    return have;
}

static void send_message(struct socket *sock, const char *from, size_t length) {
    struct sctp_sndinfo info = { 0 };
    if (usrsctp_sendv(sock, from, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) < 0)
        die("sending");
}

static void serve(void) {
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    struct socket *listener = open_socket();
    if (usrsctp_bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || usrsctp_listen(listener, 128) < 0)
        die("listening");
    for (;;) {
        struct socket *sock = usrsctp_accept(listener, NULL, NULL);
        if (!sock)
            die("accepting");
        size_t have = read_message(sock, sizeof back);
        if (have > 0) {
            send_message(sock, back, have);
            /* The client ends the association. */
            read_message(sock, sizeof back);
        }
        usrsctp_close(sock);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_us(double *times, size_t count) {
    qsort(times, count, sizeof *times, compare);
    return count ? times[count / 2] * 1e6 : 0;
}

static void call(struct in_addr to, double seconds, size_t length) {
    struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = to };
    struct sctp_udpencaps encaps = { .sue_address.ss_family = AF_INET, .sue_port = htons(SERVER_UDP_PORT) };
    double *setups = calloc(COUNT_MAX, sizeof *setups), *transactions = calloc(COUNT_MAX, sizeof *transactions);
    if (!setups || !transactions)
        die("memory");
    size_t count = 0;
    for (double end = now() + seconds; count < COUNT_MAX && now() < end; count++) {
        struct socket *sock = open_socket();
        if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) < 0)
            die("the UDP port");
        double begun = now();
        if (usrsctp_connect(sock, (struct sockaddr *)&there, sizeof there) < 0)
            die("connecting");
        setups[count] = now() - begun;
        send_message(sock, data, length);
        if (read_message(sock, length) != length)
            die("the echo");
        transactions[count] = now() - begun;
        usrsctp_shutdown(sock, SHUT_WR);
        /* Waits until the other side has closed too, so that the next association finds it idle. */
        read_message(sock, sizeof back);
        usrsctp_close(sock);
    }
    printf("{\"side\":\"client\",\"transport\":\"usrsctp\",\"transactions\":%zu,\"setup_us\":%.3f,"
           "\"transaction_us\":%.3f}\n", count, median_us(setups, count), median_us(transactions, count));
}

int main(int argc, char **argv) {
    int option, calls = argc > 1 && !strcmp(argv[1], "call");
    int is_known = calls || (argc > 1 && !strcmp(argv[1], "serve"));
    struct in_addr to = { 0 };
    double seconds = 2;
    size_t length = 1550;
    optind = 2;
    while (is_known && (option = getopt(argc, argv, "t:T:l:")) != -1) {
        switch (option) {
        case 't': is_known = inet_pton(AF_INET, optarg, &to) == 1; break;
        case 'T': seconds = atof(optarg); break;
        case 'l': length = strtoul(optarg, NULL, 10); break;
        default: is_known = 0;
        }
    }
    if (!is_known || (calls && !to.s_addr) || length < 1 || length > sizeof data) {
        fprintf(stderr, "usage: usrsctp-transaction serve | call -t ADDRESS [-T SECONDS] [-l BYTES]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)i;
    usrsctp_init(calls ? CLIENT_UDP_PORT : SERVER_UDP_PORT, NULL, NULL);
    usrsctp_sysctl_set_sctp_blackhole(2);
    if (calls)
        call(to, seconds, length);
    else
        serve();
    return 0;
}
