/* The server as a process: prints its port, and serves until a signal ends it. With more threads each has a listener of its own
   on the port (SO_REUSEPORT), and its own connections.

   server [port=0] [threads=1] [an option of the server] */
#define _GNU_SOURCE
#include "echo.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

static int listen_on(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    socklen_t len = sizeof *address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(listener, (void *)address, len) || listen(listener, 4096) || getsockname(listener, (void *)address, &len))
        die("listen");
    return listener;
}

static void *serve(void *address) {
    struct sockaddr_in own = *(struct sockaddr_in *)address;
    server_start(listen_on(&own));
    for (;;)
        server_turn(1);
    return NULL;
}

int main(int argc, char **argv) {
    int port = 0, threads = 1;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value)
            *value++ = 0;
        if (value && !strcmp(argv[i], "port"))
            port = atoi(value);
        else if (value && !strcmp(argv[i], "threads"))
            threads = atoi(value);
        else if (!value || !server_option(argv[i], value)) {
            fprintf(stderr, "%s: the server has no such option\n", argv[i]);
            return 2;
        }
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int listener = listen_on(&address);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (pthread_t thread; threads > 1; threads--)
        if (pthread_create(&thread, NULL, serve, &address))
            die("pthread_create");
    server_start(listener);
    for (;;)
        server_turn(1);
}
