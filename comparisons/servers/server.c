/* The server as a process: prints its port, and serves until a signal ends it. With more processes each has a listener of its
   own on the port (SO_REUSEPORT), and all end with the first one.

   server [port=0] [processes=1] [an option of the server] */
#define _GNU_SOURCE
#include "echo.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_on(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    socklen_t len = sizeof *address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(listener, (void *)address, len) || listen(listener, 4096) || getsockname(listener, (void *)address, &len))
        die("listen");
    return listener;
}

int main(int argc, char **argv) {
    int port = 0, processes = 1;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value)
            *value++ = 0;
        if (value && !strcmp(argv[i], "port"))
            port = atoi(value);
        else if (value && !strcmp(argv[i], "processes"))
            processes = atoi(value);
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
    for (pid_t first = getpid(); processes > 1; processes--) {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != first)
            return 1;
        close(listener);
        listener = listen_on(&address);
        break;
    }
    server_start(listener);
    for (;;)
        server_turn(1);
}
