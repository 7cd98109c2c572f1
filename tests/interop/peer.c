/* A peer for the interop tests, on usrsctp or, with -DKERNEL_SCTP, on the sockets of the Linux kernel's SCTP. Both have
 * the socket API of RFC 6458, so one program drives either.
 *
 *   peer echo|sink [options]                     wait for associations
 *   peer send|call -c ADDR[,ADDR] [options]      connect and send; `call` waits for the echo of each message
 *
 *   -p PORT   SCTP port to listen on or connect to (5001)   -b ADDR   bind to this address (repeatable)
 *   -B PORT   own SCTP port of a client                     -c ADDR[,ADDR]  the peer's addresses
 *   -u PORT   own UDP port (usrsctp; without it: raw IP)    -U PORT   the peer's UDP port
 *   -n COUNT  messages (1)    -l LENGTH  bytes of each (100)    -s STREAMS  number of streams (1)    -r  unordered
 *   -R COUNT  give a message up after so many retransmissions (RFC 7496)    -L MS  after its lifetime (RFC 3758)
 *   -P COUNT  so many messages have a low priority, and the others a high one (RFC 7496)    -S BYTES  send buffer (8 MB)
 *   -T MS     RTO.Min = RTO.Initial, with RTO.Max four times that; heartbeats at that interval (tests of fail-over)
 *   -i        interleave messages (RFC 8260; usrsctp)    -N  offer NR-SACK (usrsctp)
 *   -O STREAMS  outgoing streams (2048)    -M  use all paths at once (CMT, usrsctp)    -A NUMBER  adaptation layer (RFC 5061)
 *   -W        take the source for a wildcard address (RFC 5061; usrsctp)    -m MS  search the path MTU (RFC 8899; the kernel)
 *   -a TYPE[,TYPE]  demand authentication of these chunk types (RFC 4895)    -k SECRET  the only key, with identifier 7
 *   -H ID[,ID]  the HMAC algorithms of RFC 4895, the preferred one first
 *   -t MS     pause after each message sent
 *   -v        a line for each message received    -w  a client, too, sends its messages once told to    -e  it echoes
 *
 * Lines on stdin, for the latest association: `abort`, `shutdown`, `reset in|out|both [STREAM ...]`, `renumber`,
 *   `add OUT IN` (RFC 6525), `address add|delete|primary ADDR` (RFC 5061), `key NUMBER SECRET` (RFC 4895: sends with that
 *   key from now on), `go` (sends its -n messages, as `send` does), `message STREAM` (one byte), `mtu` (of the path);
 *   `quit` (at once, without notifying the peer).
 * Lines on stdout: KEY, READY, UP, RESTART, LOST, CLOSED, PATH, RX, BAD, SENT, ECHOED, FAILED, RESET, RENUMBERED, STREAMS,
 *   ADAPTATION, MTU.
 * Message k has PPID k + 1 and byte i of it is (k * 31 + i * 7) mod 256; `sink` and `call` check that. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define MESSAGE_MAX (8 << 20)
#define PRIORITY_LOW 9
#define PRIORITY_HIGH 1
#define ADDRESSES_MAX 8

struct addresses {
    char packed[ADDRESSES_MAX * sizeof(struct sockaddr_in6)];
    size_t length;
    int count;
    int v6;
};

static struct options {
    enum { ECHO, SINK, SEND, CALL } mode;
    unsigned port, own_port, udp_port, peer_udp_port, timing_ms;
    long count, low;
    size_t length;
    unsigned streams, outgoing, adaptation, probe_ms, pace_ms;
    int unordered, interleaves, keeps, verbose, send_buffer, all_paths, sources, waits, echoes;
    unsigned policy, limit; /* of partial reliability; no policy: messages are reliable */
    char *demanded, *secret, *hmacs; /* of RFC 4895 */
    struct addresses bind, peer;
} o = { .port = 5001, .count = 1, .length = 100, .streams = 1, .outgoing = 2048, .send_buffer = 8 << 20 };

static handle sock;
static sctp_assoc_t latest; /* the association that SEND and CALL use, or the latest accepted one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_up, is_over;
static long echoed, received;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    flockfile(stdout); /* keeps the lines of two threads apart */
    vprintf(format, arguments);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
    va_end(arguments);
}

static void die(const char *what) {
    fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void add_addresses(struct addresses *to, char *list, unsigned port) {
    for (char *text = strtok(list, ","); text; text = strtok(NULL, ",")) {
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
        if (to->count == ADDRESSES_MAX) {
            errno = E2BIG;
            die(text);
        }
        if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
            memcpy(to->packed + to->length, &four, sizeof four);
            to->length += sizeof four;
        } else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
            memcpy(to->packed + to->length, &six, sizeof six);
            to->length += sizeof six;
            to->v6 = 1;
        } else {
            errno = EINVAL;
            die(text);
        }
        to->count++;
    }
}

static void fill(unsigned char *to, size_t length, unsigned long k) {
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)(k * 31 + i * 7);
}

static int is_message(const unsigned char *data, size_t length, unsigned long k) {
    for (size_t i = 0; i < length; i++)
        if (data[i] != (unsigned char)(k * 31 + i * 7))
            return 0;
    return 1;
}

static int transmit(const void *data, size_t length, unsigned stream, unsigned long ppid, unsigned flags, sctp_assoc_t id) {
    struct sctp_sndinfo info = { .snd_sid = stream, .snd_ppid = htonl(ppid), .snd_flags = flags, .snd_assoc_id = id };
    struct sctp_sendv_spa all = { .sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID, .sendv_sndinfo = info };
    if (!o.policy || !length)
        return peer_sendv(sock, data, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) < 0 ? -1 : 0;
    all.sendv_prinfo.pr_policy = (uint16_t)o.policy;
    all.sendv_prinfo.pr_value = o.policy != SCTP_PR_SCTP_PRIO ? o.limit : ppid <= (unsigned long)o.low ? PRIORITY_LOW : PRIORITY_HIGH;
    return peer_sendv(sock, data, length, NULL, 0, &all, sizeof all, SCTP_SENDV_SPA, 0) < 0 ? -1 : 0;
}

static void set(int option, const void *value, socklen_t length, const char *name) {
    if (peer_setsockopt(sock, IPPROTO_SCTP, option, value, length) < 0)
        die(name);
}
#define SET(option, value) set(option, &(value), sizeof(value), #option)

/* Flags: for RESET 1 incoming, 2 outgoing, 4 denied, 8 failed; for the others 4 denied, 8 failed. */
static void note_reconfiguration(const union sctp_notification *n) {
    if (n->sn_header.sn_type == SCTP_STREAM_RESET_EVENT) {
        const struct sctp_stream_reset_event *e = (const void *)n;
        unsigned count = (e->strreset_length - sizeof *e) / sizeof e->strreset_stream_list[0];
        say("RESET flags=%u streams=%u", e->strreset_flags, count);
    } else if (n->sn_header.sn_type == SCTP_ASSOC_RESET_EVENT) {
        const struct sctp_assoc_reset_event *e = (const void *)n;
        say("RENUMBERED flags=%u", e->assocreset_flags);
    } else if (n->sn_header.sn_type == SCTP_STREAM_CHANGE_EVENT) {
        const struct sctp_stream_change_event *e = (const void *)n;
        say("STREAMS flags=%u in=%u out=%u", e->strchange_flags, e->strchange_instrms, e->strchange_outstrms);
    }
}

static void note(const union sctp_notification *n) {
    char text[INET6_ADDRSTRLEN] = "";
    pthread_mutex_lock(&lock);
    if (n->sn_header.sn_type == SCTP_ASSOC_CHANGE) {
        const struct sctp_assoc_change *c = &n->sn_assoc_change;
        switch (c->sac_state) {
        case SCTP_COMM_UP:
            is_over = 0;
            latest = c->sac_assoc_id;
            is_up = 1;
            say("UP out=%u in=%u", c->sac_outbound_streams, c->sac_inbound_streams);
            break;
        case SCTP_RESTART: say("RESTART"); break;
        case SCTP_SHUTDOWN_COMP: is_over = 1; say("CLOSED"); break;
        default: is_over = 1; say("LOST state=%u error=%u", c->sac_state, c->sac_error);
        }
    } else if (n->sn_header.sn_type == SCTP_PEER_ADDR_CHANGE) {
        const struct sctp_paddr_change *c = &n->sn_paddr_change;
        const struct sockaddr *a = (const void *)&c->spc_aaddr;
        inet_ntop(a->sa_family, a->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                                                         : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr,
                  text, sizeof text);
        say("PATH %s state=%u", text, c->spc_state);
    }
    if (n->sn_header.sn_type == SCTP_SEND_FAILED_EVENT)
        say("FAILED ppid=%u", ntohl(((const struct sctp_send_failed_event *)n)->ssfe_info.snd_ppid));
    if (n->sn_header.sn_type == SCTP_ADAPTATION_INDICATION)
        say("ADAPTATION %u", ((const struct sctp_adaptation_event *)n)->sai_adaptation_ind);
    note_reconfiguration(n);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void take(const unsigned char *data, size_t length, const struct sctp_rcvinfo *info) {
    unsigned long k = ntohl(info->rcv_ppid), number = k - 1;
    if (o.verbose)
        say("RX len=%zu stream=%u ppid=%lu unordered=%d ssn=%u", length, info->rcv_sid, k,
            (info->rcv_flags & SCTP_UNORDERED) != 0, info->rcv_ssn);
    if (o.mode == ECHO || o.echoes) {
        if (transmit(data, length, info->rcv_sid, k, info->rcv_flags & SCTP_UNORDERED, info->rcv_assoc_id) < 0)
            say("BAD cannot echo: %s", strerror(errno));
        return;
    }
    if (!is_message(data, length, number))
        say("BAD content of message %lu", number);
    pthread_mutex_lock(&lock);
    received++;
    if (o.mode == CALL && ++echoed == o.count)
        say("ECHOED %ld", echoed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* What has arrived of a message. */
struct part {
    unsigned char *data;
    size_t have;
};

/* Messages may arrive in parts: those of a stream in order, those of different streams in any mixture. */
static struct part parts[65536][2];

static void take_part(const unsigned char *data, size_t length, const struct sctp_rcvinfo *info, int is_last) {
    int unordered = (info->rcv_flags & SCTP_UNORDERED) != 0;
    struct part *part = &parts[info->rcv_sid][unordered];
    if (is_last && !part->have) {
        take(data, length, info);
        return;
    }
    part->data = realloc(part->data, part->have + length);
    memcpy(part->data + part->have, data, length);
    part->have += length;
    if (is_last) {
        take(part->data, part->have, info);
        part->have = 0;
    }
}

static void *receive(void *unused) {
    unsigned char *buffer = malloc(MESSAGE_MAX);
    (void)unused;
    for (;;) {
        struct sctp_rcvinfo info;
        socklen_t from_length = 0, info_length = sizeof info;
        unsigned kind = 0;
        int flags = 0;
        ssize_t n = peer_recvv(sock, buffer, MESSAGE_MAX, NULL, &from_length, &info, &info_length, &kind, &flags);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ECONNRESET || errno == ETIMEDOUT))
            continue;
        if (n < 0 && errno == ENOTCONN && is_over) /* the kernel reports the end once more */
            return NULL;
        if (n <= 0) {
            say("BAD cannot receive: %s", n ? strerror(errno) : "end of file");
            return NULL;
        }
        if (flags & MSG_NOTIFICATION)
            note((union sctp_notification *)buffer);
        else
            take_part(buffer, (size_t)n, &info, (flags & MSG_EOR) != 0);
    }
}

static handle new_socket(int family) {
#ifdef KERNEL_SCTP
    int made = socket(family, SOCK_SEQPACKET, IPPROTO_SCTP);
    if (made < 0)
        die("socket");
    return made;
#else
    usrsctp_init(o.udp_port, NULL, NULL);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
    usrsctp_sysctl_set_sctp_blackhole(2);
    usrsctp_sysctl_set_sctp_nrsack_enable(o.keeps);
    usrsctp_sysctl_set_sctp_cmt_on_off(o.all_paths);
    usrsctp_sysctl_set_sctp_nat_friendly(o.sources);
    handle made = usrsctp_socket(family, SOCK_SEQPACKET, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!made)
        die("socket");
    return made;
#endif
}

/* Sets buffers for messages of several megabytes, whatever the system's limits are. */
static void set_buffers(void) {
    int size = 8 << 20;
#ifdef KERNEL_SCTP
    struct linger abort_on_close = { .l_onoff = 1, .l_linger = 0 }; /* frees the port at once when it is killed */
    setsockopt(sock, SOL_SOCKET, SO_LINGER, &abort_on_close, sizeof abort_on_close);
    setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &o.send_buffer, sizeof o.send_buffer);
    setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
#else
    usrsctp_setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &o.send_buffer, sizeof o.send_buffer);
    usrsctp_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
#endif
}

static void set_timing(unsigned ms, int family) {
    struct sctp_rtoinfo rto = { .srto_initial = ms, .srto_min = ms, .srto_max = ms * 4 };
    struct sctp_assocparams limits = { .sasoc_asocmaxrxt = 30 };
    struct sctp_paddrparams path = { .spp_hbinterval = ms, .spp_pathmaxrxt = 2, .spp_flags = SPP_HB_ENABLE };
    path.spp_address.ss_family = family;
    SET(SCTP_RTOINFO, rto);
    SET(SCTP_ASSOCINFO, limits);
    SET(SCTP_PEER_ADDR_PARAMS, path);
}

/* Searches for the path MTU with probes (RFC 8899). */
static void set_probing(unsigned ms, int family) {
#ifdef KERNEL_SCTP
    struct sctp_probeinterval search = { .spi_interval = ms };
    search.spi_address.ss_family = family;
    SET(SCTP_PLPMTUD_PROBE_INTERVAL, search);
#else
    (void)ms, (void)family;
    errno = ENOTSUP;
    die("-m");
#endif
}

/* Prints the MTU of the primary path. */
static void report_mtu(void) {
    struct sctp_status status = { .sstat_assoc_id = latest };
    socklen_t length = sizeof status;
    if (peer_getsockopt(sock, IPPROTO_SCTP, SCTP_STATUS, &status, &length) < 0)
        say("BAD mtu: %s", strerror(errno));
    else
        say("MTU %u", status.sstat_primary.spinfo_mtu);
}

/* Offers I-DATA, which needs the highest level of interleaving at the receiver. */
static void set_interleaving(void) {
    int level = 2;
    struct sctp_assoc_value on = { .assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1 };
    SET(SCTP_FRAGMENT_INTERLEAVE, level);
    SET(SCTP_INTERLEAVING_SUPPORTED, on);
}

/* Sets the algorithms, demands authentication of chunk types, and replaces the null key. */
static void set_authentication(void) {
    struct { struct sctp_hmacalgo head; uint16_t list[4]; } algorithms = { .head.shmac_number_of_idents = 0 };
    for (char *text = o.hmacs ? strtok(o.hmacs, ",") : NULL; text && algorithms.head.shmac_number_of_idents < 4; text = strtok(NULL, ","))
        algorithms.head.shmac_idents[algorithms.head.shmac_number_of_idents++] = (uint16_t)atoi(text);
    if (o.hmacs)
        set(SCTP_HMAC_IDENT, &algorithms, (socklen_t)(sizeof algorithms.head + algorithms.head.shmac_number_of_idents * sizeof(uint16_t)), "SCTP_HMAC_IDENT");
    if (!o.demanded)
        return;
    for (char *text = strtok(o.demanded, ","); text; text = strtok(NULL, ",")) {
        struct sctp_authchunk chunk = { .sauth_chunk = (uint8_t)atoi(text) };
        SET(SCTP_AUTH_CHUNK, chunk);
    }
    if (!o.secret)
        return;
    struct { struct sctp_authkey head; char bytes[64]; } key = { .head.sca_assoc_id = SCTP_FUTURE_ASSOC, .head.sca_keynumber = 7 };
    struct sctp_authkeyid active = { .scact_assoc_id = SCTP_FUTURE_ASSOC, .scact_keynumber = 7 };
    struct sctp_authkeyid null = { .scact_assoc_id = SCTP_FUTURE_ASSOC, .scact_keynumber = 0 };
    size_t length = strlen(o.secret);
    if (length > sizeof key.bytes)
        die("-k");
    key.head.sca_keylength = (uint16_t)length;
    memcpy(key.head.sca_key, o.secret, length);
    set(SCTP_AUTH_KEY, &key, (socklen_t)(sizeof key.head + length), "SCTP_AUTH_KEY");
    SET(SCTP_AUTH_ACTIVE_KEY, active);
    SET(SCTP_AUTH_DELETE_KEY, null);
}

/* Adds a key to the latest association, and sends with it. */
static int change_key(const char *line) {
    struct { struct sctp_authkey head; char bytes[64]; } key = { .head.sca_assoc_id = latest };
    struct sctp_authkeyid active = { .scact_assoc_id = latest };
    unsigned number;
    char secret[64];
    if (sscanf(line, "key %u %63s", &number, secret) != 2)
        return 0;
    key.head.sca_keynumber = active.scact_keynumber = (uint16_t)number;
    key.head.sca_keylength = (uint16_t)strlen(secret);
    memcpy(key.head.sca_key, secret, strlen(secret));
    set(SCTP_AUTH_KEY, &key, (socklen_t)(sizeof key.head + strlen(secret)), "SCTP_AUTH_KEY");
    SET(SCTP_AUTH_ACTIVE_KEY, active);
    say("KEY %u", number);
    return 1;
}

static void open_socket(void) {
    int family = o.bind.v6 || o.peer.v6 ? AF_INET6 : AF_INET;
    sock = new_socket(family);
    struct sctp_initmsg streams = { .sinit_num_ostreams = (uint16_t)o.outgoing, .sinit_max_instreams = 2048 };
    SET(SCTP_INITMSG, streams);
    int on = 1;
    SET(SCTP_NODELAY, on);
    SET(SCTP_RECVRCVINFO, on);
    set_buffers();
    if (o.interleaves)
        set_interleaving();
    set_authentication();
    if (o.timing_ms)
        set_timing(o.timing_ms, family);
    if (o.probe_ms)
        set_probing(o.probe_ms, family);
    if (o.adaptation) {
        struct sctp_setadaptation layer = { .ssb_adaptation_ind = o.adaptation };
        SET(SCTP_ADAPTATION_LAYER, layer);
    }
    if (o.peer_udp_port) {
        struct sctp_udpencaps encapsulation = { .sue_port = htons(o.peer_udp_port) };
        encapsulation.sue_address.ss_family = family;
        SET(SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    }
    struct sctp_assoc_value allowed = { .assoc_id = SCTP_FUTURE_ASSOC,
        .assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_RESET_ASSOC_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ };
    SET(SCTP_ENABLE_STREAM_RESET, allowed);
    uint16_t kinds[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_STREAM_RESET_EVENT, SCTP_ASSOC_RESET_EVENT,
        SCTP_STREAM_CHANGE_EVENT, SCTP_SEND_FAILED_EVENT, SCTP_ADAPTATION_INDICATION };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = kinds[i], .se_on = 1 };
        SET(SCTP_EVENT, event);
    }
    if (o.bind.count && peer_bindx(sock, (void *)o.bind.packed, o.bind.count, SCTP_BINDX_ADD_ADDR) < 0)
        die("bind");
}

static void *send_all(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!is_up && !is_over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    unsigned char *data = malloc(o.length);
    for (long k = 0; k < o.count && !is_over; k++) {
        fill(data, o.length, (unsigned long)k);
        if (transmit(data, o.length, (unsigned)k % o.streams, (unsigned long)k + 1, o.unordered ? SCTP_UNORDERED : 0, latest) < 0) {
            say("BAD cannot send: %s", strerror(errno));
            return NULL;
        }
        usleep(o.pace_ms * 1000);
    }
    free(data);
    say("SENT %ld", o.count);
    return NULL;
}

/* Makes a request of RFC 6525. While another one is in progress, or the data of a stream was not sent, it waits. */
static int ask(int option, const void *value, socklen_t length) {
    int failed;
    while ((failed = peer_setsockopt(sock, IPPROTO_SCTP, option, value, length)) < 0 && !is_over && (errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN))
        usleep(10000);
    return failed;
}

/* Carries out a command of RFC 6525. Returns 0 if the line is none. */
static int reconfigure(char *line) {
    char copy[1024], *word;
    struct { struct sctp_reset_streams head; uint16_t list[64]; } reset = { .head.srs_assoc_id = latest };
    struct sctp_add_streams add = { .sas_assoc_id = latest };
    int failed;
    snprintf(copy, sizeof copy, "%s", line);
    if (!(word = strtok(copy, " ")))
        return 0;
    if (!strcmp(word, "reset") && (word = strtok(NULL, " "))) {
        int both = !strcmp(word, "both");
        reset.head.srs_flags = (both || !strcmp(word, "in") ? SCTP_STREAM_RESET_INCOMING : 0)
            | (both || !strcmp(word, "out") ? SCTP_STREAM_RESET_OUTGOING : 0);
        while ((word = strtok(NULL, " ")) && reset.head.srs_number_streams < 64)
            reset.head.srs_stream_list[reset.head.srs_number_streams++] = (uint16_t)atoi(word);
        socklen_t length = sizeof reset.head + reset.head.srs_number_streams * sizeof(uint16_t);
        failed = ask(SCTP_RESET_STREAMS, &reset, length);
    } else if (!strcmp(copy, "renumber")) {
        failed = ask(SCTP_RESET_ASSOC, &latest, sizeof latest);
    } else if (!strcmp(copy, "add")) {
        add.sas_outstrms = (uint16_t)atoi((word = strtok(NULL, " ")) ? word : "0");
        add.sas_instrms = (uint16_t)atoi((word = strtok(NULL, " ")) ? word : "0");
        failed = ask(SCTP_ADD_STREAMS, &add, sizeof add);
    } else {
        return 0;
    }
    if (failed < 0)
        say("BAD %s: %s", line, strerror(errno));
    return 1;
}

/* Carries out a command of RFC 5061. Returns 0 if the line is none. */
static int change_addresses(char *line) {
    char copy[128], verb[16], text[64];
    struct addresses changed = { .count = 0 };
    struct sctp_setpeerprim primary = { .sspp_assoc_id = latest };
    int failed;
    snprintf(copy, sizeof copy, "%s", line);
    if (sscanf(copy, "address %15s %63s", verb, text) != 2)
        return 0;
    add_addresses(&changed, text, o.mode == ECHO || o.mode == SINK ? o.port : o.own_port);
    if (!strcmp(verb, "primary")) {
        memcpy(&primary.sspp_addr, changed.packed, changed.length);
        failed = peer_setsockopt(sock, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &primary, sizeof primary);
    } else {
        int how = !strcmp(verb, "add") ? SCTP_BINDX_ADD_ADDR : SCTP_BINDX_REM_ADDR;
        failed = peer_bindx(sock, (void *)changed.packed, 1, how);
    }
    if (failed < 0)
        say("BAD %s: %s", line, strerror(errno));
    return 1;
}

/* Carries out a command that needs no association's settings. Returns 0 if the line is none. */
static int send_or_report(const char *line) {
    pthread_t thread;
    unsigned stream;
    if (!strcmp(line, "go"))
        pthread_create(&thread, NULL, send_all, NULL);
    else if (!strcmp(line, "mtu"))
        report_mtu();
    else if (sscanf(line, "message %u", &stream) != 1)
        return 0;
    else if (transmit("", 1, stream, 1, 0, latest) < 0)
        say("BAD %s: %s", line, strerror(errno));
    return 1;
}

static void command(char *line) {
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "quit"))
        _exit(0);
    if (reconfigure(line) || change_addresses(line) || change_key(line) || send_or_report(line))
        return;
    unsigned flag = !strcmp(line, "abort") ? SCTP_ABORT : !strcmp(line, "shutdown") ? SCTP_EOF : 0;
    if (!flag) {
        say("BAD no such command: %s", line);
        return;
    }
    if (transmit("", 0, 0, 0, flag, latest) < 0)
        say("BAD %s: %s", line, strerror(errno));
}

static void parse(int argc, char **argv) {
    static const char *const modes[] = { "echo", "sink", "send", "call" };
    char *binds[ADDRESSES_MAX], *peers = NULL;
    int nbinds = 0, option;
    unsigned mode = 0;
    while (mode < 4 && (argc < 2 || strcmp(argv[1], modes[mode])))
        mode++;
    o.mode = mode;
    optind = 2;
    while (mode < 4 && (option = getopt(argc, argv, "p:B:u:U:b:c:n:l:s:R:L:P:S:O:A:m:t:T:a:k:H:reiNMWwv")) != -1) {
        switch (option) {
        case 'p': o.port = (unsigned)atoi(optarg); break;
        case 'B': o.own_port = (unsigned)atoi(optarg); break;
        case 'u': o.udp_port = (unsigned)atoi(optarg); break;
        case 'U': o.peer_udp_port = (unsigned)atoi(optarg); break;
        case 'b': if (nbinds < ADDRESSES_MAX) binds[nbinds++] = optarg; break;
        case 'c': peers = optarg; break;
        case 'n': o.count = atol(optarg); break;
        case 'l': o.length = (size_t)atol(optarg); break;
        case 's': o.streams = (unsigned)atoi(optarg); break;
        case 'R': o.policy = SCTP_PR_SCTP_RTX; o.limit = (unsigned)atoi(optarg); break;
        case 'L': o.policy = SCTP_PR_SCTP_TTL; o.limit = (unsigned)atoi(optarg); break;
        case 'P': o.policy = SCTP_PR_SCTP_PRIO; o.low = atol(optarg); break;
        case 'S': o.send_buffer = atoi(optarg); break;
        case 'O': o.outgoing = (unsigned)atoi(optarg); break;
        case 'A': o.adaptation = (unsigned)atoi(optarg); break;
        case 't': o.pace_ms = (unsigned)atoi(optarg); break;
        case 'm': o.probe_ms = (unsigned)atoi(optarg); break;
        case 'M': o.all_paths = 1; break;
        case 'W': o.sources = 1; break;
        case 'H': o.hmacs = optarg; break;
        case 'w': o.waits = 1; break;
        case 'e': o.echoes = 1; break;
        case 'T': o.timing_ms = (unsigned)atoi(optarg); break;
        case 'a': o.demanded = optarg; break;
        case 'k': o.secret = optarg; break;
        case 'r': o.unordered = 1; break;
        case 'i': o.interleaves = 1; break;
        case 'N': o.keeps = 1; break;
        case 'v': o.verbose = 1; break;
        default: mode = 4;
        }
    }
    int is_server = o.mode == ECHO || o.mode == SINK;
    if (mode > 3 || !o.streams || o.length < 1 || o.length > MESSAGE_MAX || is_server != !peers) {
        fprintf(stderr, "usage: peer echo|sink|send|call [options]; they stand at the top of peer.c\n");
        exit(2);
    }
    if (is_server && !nbinds)
        binds[nbinds++] = strdup("127.0.0.1");
    for (int i = 0; i < nbinds; i++)
        add_addresses(&o.bind, binds[i], is_server ? o.port : o.own_port);
    if (peers)
        add_addresses(&o.peer, peers, o.port);
}

int main(int argc, char **argv) {
    pthread_t thread;
    char line[64];
    parse(argc, argv);
    open_socket();
    if ((o.mode == ECHO || o.mode == SINK) && peer_listen(sock, 16) < 0)
        die("listen");
    say("READY");
    int is_client = o.mode == SEND || o.mode == CALL;
    if (is_client && peer_connectx(sock, (void *)o.peer.packed, o.peer.count, &latest) < 0)
        die("connect");
    pthread_create(&thread, NULL, receive, NULL); /* before this point the kernel's socket can't receive */
    if (is_client && !o.waits)
        pthread_create(&thread, NULL, send_all, NULL);
    while (fgets(line, sizeof line, stdin))
        command(line);
    _exit(0); /* the test that started it has ended */
}
