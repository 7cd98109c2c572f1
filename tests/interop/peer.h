/* The socket API of RFC 6458 for peer.c: that of the Linux kernel with -DKERNEL_SCTP, otherwise that of usrsctp. */
#ifdef KERNEL_SCTP
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <sys/socket.h>
typedef int handle;
#define peer_setsockopt setsockopt
#define peer_getsockopt getsockopt
#define peer_bindx sctp_bindx
#define peer_connectx sctp_connectx
#define peer_listen listen
static ssize_t peer_sendv(int fd, const void *data, size_t length, struct sockaddr *to, int count, void *info,
                          socklen_t info_length, unsigned kind, int flags) {
    struct iovec vector = { (void *)data, length };
    return sctp_sendv(fd, &vector, length ? 1 : 0, to, count, info, info_length, kind, flags);
}
static ssize_t peer_recvv(int fd, void *data, size_t length, struct sockaddr *from, socklen_t *from_length, void *info,
                          socklen_t *info_length, unsigned *kind, int *flags) {
    struct iovec vector = { data, length };
    return sctp_recvv(fd, &vector, 1, from, from_length, info, info_length, kind, flags);
}
#else
#include <usrsctp.h>
typedef struct socket *handle;
#define peer_setsockopt usrsctp_setsockopt
#define peer_getsockopt usrsctp_getsockopt
#define peer_bindx usrsctp_bindx
#define peer_connectx usrsctp_connectx
#define peer_sendv usrsctp_sendv
#define peer_recvv usrsctp_recvv
#define peer_listen usrsctp_listen
#ifndef SCTP_INTERLEAVING_SUPPORTED /* the library has it, its header doesn't */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif
#define SCTP_PR_SCTP_PRIO SCTP_PR_SCTP_BUF /* the library accepts it, and gives up nothing by it */
#endif
