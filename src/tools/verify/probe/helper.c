/*
 * Helpers inside a sandbox for attacks on the daemon:
 *
 *     atoll-probe --swap A B SECONDS      exchanges two names as fast as it can
 *     atoll-probe --serve PORT LOG TEXT   an HTTP server that writes down what it is sent
 *     atoll-probe --hammer N SECONDS      N processes write to the unfinished upload here
 */
#include <fcntl.h>
#include <glob.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define REQUEST_MAX 65536
#define HAMMER_BYTES (8 << 20) /* one write holds the lock of the inode for milliseconds */

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

/* Opens the temporary file that the daemon writes an upload to; waits until it exists. */
static int open_upload(time_t end)
{
    int fd = -1;

    while (fd < 0 && time(NULL) < end) {
        glob_t found;
        if (glob(".atoll-*.tmp", 0, NULL, &found) == 0) {
            fd = open(found.gl_pathv[0], O_WRONLY | O_CLOEXEC);
            globfree(&found);
        }
        if (fd < 0)
            usleep(10000);
    }
    return fd;
}

static int hammer(long writers, long seconds)
{
    static char piece[HAMMER_BYTES];
    time_t end = time(NULL) + seconds;
    int fd = open_upload(end);

    if (fd < 0)
        return 1;
    for (long i = 0; i < writers; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (time(NULL) < end && pwrite(fd, piece, sizeof(piece), 0) > 0)
            continue;
        _exit(0);
    }
    puts("ready");
    fflush(stdout);
    sleep((unsigned)seconds);
    return 0;
}

int probe_helper(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--swap") == 0)
        return swap(argv[2], argv[3], strtol(argv[4], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "--serve") == 0)
        return serve(strtol(argv[2], NULL, 10), argv[3], argv[4]);
    if (argc == 4 && strcmp(argv[1], "--hammer") == 0)
        return hammer(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
    return 2;
}
