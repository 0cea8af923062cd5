/* The server as a process: prints its port, and serves until a signal ends it.

   server [port=0] [an option of the server] */
#define _GNU_SOURCE
#include "echo.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    int port = 0, one = 1;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value)
            *value++ = 0;
        if (value && !strcmp(argv[i], "port"))
            port = atoi(value);
        else if (!value || !server_option(argv[i], value)) {
            fprintf(stderr, "%s: the server has no such option\n", argv[i]);
            return 2;
        }
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    socklen_t len = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(listener, (void *)&address, len) || listen(listener, 4096) || getsockname(listener, (void *)&address, &len))
        die("listen");
    server_start(listener);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;)
        server_turn(1);
}
