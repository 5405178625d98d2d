/*
 * Helpers inside a sandbox for attacks on the daemon:
 *
 *     atoll-probe --swap A B SECONDS      exchanges two names as fast as it can
 *     atoll-probe --serve PORT LOG TEXT   an HTTP server that writes down what it is sent
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define REQUEST_MAX 65536

static int swap(const char *a, const char *b, long seconds)
{
    time_t end = time(NULL) + seconds;

    while (time(NULL) < end)
        for (int i = 0; i < 64; i++)
            if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) < 0)
                return 1;
    return 0;
}

/* Answers one request, of which only the head is read; the answer tries to set cookies for other hosts. */
static void answer(int fd, const char *log, const char *text)
{
    static char request[REQUEST_MAX];
    char reply[1024];
    size_t used = 0;
    ssize_t n;
    int out;

    while (used + 1 < sizeof(request) &&
           (n = read(fd, request + used, sizeof(request) - 1 - used)) > 0) {
        used += (size_t)n;
        request[used] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL)
            break;
    }
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out >= 0) {
        if (write(out, request, used) < 0)
            perror(log);
        close(out);
    }
    snprintf(reply, sizeof(reply),
             "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
             "Set-Cookie: wide=1; Domain=localhost\r\nSet-Cookie: atoll_preview=forged\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             strlen(text), text);
    if (write(fd, reply, strlen(reply)) < 0)
        perror("write");
}

static int serve(long port, const char *log, const char *text)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof(any)) < 0 ||
        listen(listener, 64) < 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        answer(fd, log, text);
        close(fd);
    }
    return 1;
}

int probe_aide(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--swap") == 0)
        return swap(argv[2], argv[3], strtol(argv[4], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "--serve") == 0)
        return serve(strtol(argv[2], NULL, 10), argv[3], argv[4]);
    return 2;
}
