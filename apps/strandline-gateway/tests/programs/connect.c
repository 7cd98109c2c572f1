/* Connects to an IPv4 address and port, and prints what comes. It is linked statically, so that nothing can be loaded into it. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    char buffer[512];
    ssize_t len;
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) return 2;
    to.sin_port = htons(atoi(argv[2]));
    if (connect(tcp, (struct sockaddr *)&to, sizeof to) != 0) return 1;
    while ((len = read(tcp, buffer, sizeof buffer)) > 0) {
        if (write(1, buffer, len) != len) return 1;
    }
    return len < 0;
}
