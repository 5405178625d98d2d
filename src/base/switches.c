#include "base/switches.h"

#ifdef ATOLL_TEST_SWITCHES
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define POINT_MAX 96
#define REQUEST_MAX 128
#define DIE (-1)

static const struct {
    const char *name;
    int errnum;
} actions[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC},       {"ENOMEM", ENOMEM},         {"EMFILE", EMFILE},
    {"EAGAIN", EAGAIN}, {"ETIMEDOUT", ETIMEDOUT}, {"ECONNRESET", ECONNRESET}, {"die", DIE},
};

/* Layout shared with tests/faults.py. Shared memory, because a process inside a sandbox cannot open files
 * of the host. */
struct board {
    char request[REQUEST_MAX]; /* POINT[@N]=ACTION, or "" */
    _Atomic uint32_t passed, struck;
    _Atomic uint32_t recording; /* whether points are logged */
    _Atomic uint32_t used;      /* bytes written to the log; above its size if it is full */
    char log[]; /* one line per point passed; " die" follows points of atoll_fault_die() */
};

static struct board *_Atomic shared;
static _Atomic uint32_t shared_size;

static struct board *map_board(void)
{
    const char *path = getenv("ATOLL_FAULT_BOARD");
    struct board *board = shared;
    struct stat st;
    int fd;

    if (board || !path)
        return board;
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        return NULL; /* Landlock: an atoll-egress that the confined daemon has started */
    if (fd < 0 || fstat(fd, &st) < 0)
        abort(); /* without the board the test would check nothing, and must not pass */
    shared_size = (uint32_t)st.st_size;
    board = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED)
        abort();
    shared = board; /* if two threads race here, the second mapping is harmless */
    return board;
}

static void note(struct board *board, const char *point, bool only_die)
{
    char line[POINT_MAX + 8];
    uint32_t len, at;

    if (!atomic_load(&board->recording))
        return;
    len = (uint32_t)snprintf(line, sizeof(line), "%s%s\n", point, only_die ? " die" : "");
    at = atomic_fetch_add(&board->used, len);
    if (at + len <= shared_size - sizeof(*board))
        memcpy(board->log + at, line, len);
}

/* The action of the request, or 0 if it is for another point or another count. */
static int due(const char *request, const char *point, _Atomic uint32_t *passed)
{
    size_t len = strlen(point);
    const char *rest = request + len;
    char *end;
    unsigned long turn = 1;

    if (strncmp(request, point, len) != 0)
        return 0;
    if (*rest == '@') {
        turn = strtoul(rest + 1, &end, 10);
        rest = end;
    }
    if (*rest != '=' || atomic_fetch_add(passed, 1) + 1 != turn)
        return 0;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(rest + 1, actions[i].name) == 0)
            return actions[i].errnum;
    abort(); /* unknown action: the test must not pass */
}

static int pass(const char *point, bool only_die)
{
    static _Atomic uint32_t passed;
    const char *own = getenv("ATOLL_FAULT");
    struct board *board = map_board();
    int action = own ? due(own, point, &passed) : 0;

    if (board) {
        note(board, point, only_die);
        if (!action) {
            action = due(board->request, point, &board->passed);
            if (action)
                atomic_fetch_add(&board->struck, 1);
        }
    }
    if (action == DIE) {
        (void)kill(getpid(), SIGKILL);
        _exit(128 + SIGKILL); /* PID 1 of a namespace ignores its own SIGKILL */
    }
    return only_die ? 0 : action;
}

int atoll_fault(const char *point)
{
    return pass(point, false);
}

int atoll_faultf(const char *point, ...)
{
    char name[POINT_MAX];
    va_list ap;

    va_start(ap, point);
    (void)vsnprintf(name, sizeof(name), point, ap);
    va_end(ap);
    return pass(name, false);
}

void atoll_fault_die(const char *point, ...)
{
    char name[POINT_MAX];
    va_list ap;

    va_start(ap, point);
    (void)vsnprintf(name, sizeof(name), point, ap);
    va_end(ap);
    (void)pass(name, true);
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

char *const *atoll_switches_env(void)
{
    static const char *const names[] = {"ATOLL_FAULT=", "ATOLL_FAULT_BOARD=", "ATOLL_WEAKEN="};
    static char *kept[4];
    size_t n = 0;

    for (char **entry = environ; entry && *entry; entry++)
        for (size_t i = 0; i < 3 && n < 3; i++)
            if (strncmp(*entry, names[i], strlen(names[i])) == 0)
                kept[n++] = *entry;
    return kept;
}
#endif
