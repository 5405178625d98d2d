#include "base/switches.h"

#ifdef ATOLL_TEST_SWITCHES
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const struct {
    const char *name;
    int errnum;
} actions[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC},       {"ENOMEM", ENOMEM},         {"EMFILE", EMFILE},
    {"EAGAIN", EAGAIN}, {"ETIMEDOUT", ETIMEDOUT}, {"ECONNRESET", ECONNRESET}, {"die", -1},
};

/* Environments are not written to after the start, so it is read at each call and never kept. */
static void note(const char *point)
{
    const char *path = getenv("ATOLL_FAULT_LOG");
    if (!path)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    struct iovec line[] = {
        {(void *)point, strlen(point)},
        {(void *)"\n", 1},
    };
    /* One write, so that lines of several processes stay whole. */
    ssize_t n = writev(fd, line, 2);
    (void)n;
    close(fd);
}

int atoll_fault(const char *point)
{
    static atomic_int passed;
    note(point);
    const char *wish = getenv("ATOLL_FAULT");
    size_t len = strlen(point);
    if (!wish || strncmp(wish, point, len) != 0)
        return 0;
    const char *rest = wish + len;
    long turn = 1;
    if (*rest == '@')
        turn = strtol(rest + 1, (char **)&rest, 10);
    if (*rest != '=' || atomic_fetch_add(&passed, 1) + 1 != turn)
        return 0;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(rest + 1, actions[i].name) != 0)
            continue;
        if (actions[i].errnum < 0)
            kill(getpid(), SIGKILL);
        return actions[i].errnum;
    }
    abort(); /* a test that asks for what there is not must not pass */
}

bool atoll_weakened(const char *layer)
{
    const char *layers = getenv("ATOLL_WEAKEN");
    size_t len = strlen(layer);
    while (layers && *layers) {
        size_t word = strcspn(layers, ",");
        if (word == len && memcmp(layers, layer, len) == 0)
            return true;
        layers += word + (layers[word] == ',');
    }
    return false;
}
#endif
