#include "provider/fake/fake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/text.h"
#include "sys/tree.h"
#include "sys/unix_socket.h"

#define REMOVE_TRIES 50
#define PATH_CAP 4096
#define DEPTH_MAX 16 /* of the process tree */

struct fake {
    struct atoll_sync_provider base;
    char *dir, *agent, *control;
};

static struct fake *fake_of(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct fake, base);
}

/* Injected delay and failure. */

/* The last line of the control file that applies to an operation. */
struct fault {
    int delay_ms;
    char end[32];
};

static struct fault read_fault(const struct fake *f, const char *op, const char *id)
{
    FILE *file = f->control ? fopen(f->control, "re") : NULL;
    struct fault fault = {0}, one;
    char line[160], name[32], whose[40];

    while (file && fgets(line, sizeof(line), file)) {
        int n = sscanf(line, "%31s %d %31s %39s", name, &one.delay_ms, one.end, whose);
        if (n >= 3 && strcmp(name, op) == 0 && (n == 3 || strcmp(whose, id) == 0))
            fault = one;
    }
    if (file)
        (void)fclose(file);
    return fault;
}

static int inject_fault(const struct fake *f, const struct atoll_sync_call *call, const char *op,
                        const char *id, struct fault *ret_fault, struct atoll_error *err)
{
    struct fault fault = read_fault(f, op, id);
    enum atoll_error_kind kind = atoll_error_kind_by_name(fault.end);

    if (fault.delay_ms > 0) {
        struct pollfd pfd = {.fd = call->cancel_fd, .events = POLLIN};
        if (poll(&pfd, 1, ATOLL_MIN(fault.delay_ms, atoll_sync_left_ms(call))) > 0)
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
        if (atoll_sync_left_ms(call) == 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "the deadline is over");
    }
    if (ret_fault)
        *ret_fault = fault;
    return kind == ATOLL_ERR_NONE ? 0 : atoll_fail(err, kind, EIO, "fake: %s is to fail", op);
}

/* Processes. */

static void path_of(const struct fake *f, const char *id, const char *name, char out[PATH_CAP])
{
    (void)snprintf(out, PATH_CAP, "%s/%s%s%s", f->dir, id, *name ? "/" : "", name);
}

static ssize_t read_file(const char *path, char *out, size_t cap)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);

    out[n < 0 ? 0 : n] = '\0';
    return n;
}

/* Returns the pid of the sandbox's agent; 0 if it does not run, or if the pid was reused by
 * another process. */
static pid_t agent_of(const struct fake *f, const char *id)
{
    char path[PATH_CAP], text[PATH_CAP];
    ssize_t n;
    long pid;

    path_of(f, id, "pid", path);
    if (read_file(path, text, sizeof(text)) <= 0)
        return 0;
    pid = strtol(text, NULL, 10);
    if (pid <= 1)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
    n = read_file(path, text, sizeof(text));
    return n > 0 && memmem(text, (size_t)n, id, strlen(id)) ? (pid_t)pid : 0;
}

/* Kills the children first; a stopped parent cannot start more. */
static void kill_tree(pid_t pid, int depth)
{
    char path[64], text[PATH_CAP];
    char *next = text, *end;

    (void)kill(pid, SIGSTOP);
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    (void)read_file(path, text, sizeof(text));
    for (long child; depth < DEPTH_MAX && (child = strtol(next, &end, 10)) > 0; next = end)
        kill_tree((pid_t)child, depth + 1);
    (void)kill(pid, SIGKILL);
}

/* Waits until the process is gone; a zombie counts as gone. */
static void wait_gone(const struct fake *f, const char *id, const struct atoll_sync_call *call)
{
    while (agent_of(f, id) && atoll_sync_left_ms(call) > 0)
        (void)poll(NULL, 0, 5);
}

static int remove_all(struct fake *f, const struct atoll_sync_call *call, const char *id,
                      struct atoll_error *err)
{
    char path[PATH_CAP];
    pid_t pid = agent_of(f, id);
    int r;

    if (pid) {
        kill_tree(pid, 0);
        wait_gone(f, id, call);
    }
    path_of(f, id, "", path);
    /* Retries: an agent that is ending may still create or remove files there. */
    for (int tries = 0; (r = atoll_tree_remove(AT_FDCWD, path)) < 0 && tries < REMOVE_TRIES;
         tries++)
        (void)usleep(10000);
    return r < 0 ? atoll_fail_errno(err, -r, "fake: remove the sandbox") : 0;
}

/* The agent daemonizes by itself once it listens. */
static int start_agent(const struct fake *f, const char *id, struct atoll_error *err)
{
    char socket[PATH_CAP], pid_file[PATH_CAP], home[PATH_CAP], uid[16], gid[16];
    char *argv[] = {f->agent,
                    (char *)"--listen",
                    socket,
                    (char *)"--detach",
                    (char *)"--pid-file",
                    pid_file,
                    (char *)"--user",
                    (char *)"user",
                    (char *)"--uid",
                    uid,
                    (char *)"--gid",
                    gid,
                    (char *)"--home",
                    home,
                    (char *)"--one-id",
                    NULL};
    char *envp[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    int status = 0, r;
    pid_t pid;

    path_of(f, id, "agent.sock", socket);
    path_of(f, id, "pid", pid_file);
    path_of(f, id, "home", home);
    (void)snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
    (void)snprintf(gid, sizeof(gid), "%u", (unsigned)getegid());
    r = posix_spawn(&pid, f->agent, NULL, NULL, argv, envp);
    if (r != 0)
        return atoll_fail_errno(err, r, "fake: start the agent");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "fake: the agent ended with status %d",
                          status);
    return 0;
}

static int connect_agent(const struct fake *f, const char *id, int *ret_fd, struct atoll_error *err)
{
    char dir[PATH_CAP];
    int fd;

    path_of(f, id, "", dir);
    fd = atoll_unix_connect(dir, "agent.sock");
    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -fd, "fake: the agent does not answer: %s",
                          strerror(-fd));
    *ret_fd = fd;
    return 0;
}

/* The operations of sync.h. */

static uint32_t missing_limits(const struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
    return ATOLL_LIMIT_ALL; /* it enforces nothing */
}

static int create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct fake *f = fake_of(p);
    char path[PATH_CAP];
    struct atoll_error ignored;
    int r = inject_fault(f, call, "create", spec->id, NULL, err);

    if (r == 0) /* remnants of an earlier try */
        r = remove_all(f, call, spec->id, err);
    if (r < 0)
        return r;
    path_of(f, spec->id, "", path);
    if (mkdir(path, 0700) < 0)
        return atoll_fail_errno(err, errno, "fake: make the sandbox's directory");
    path_of(f, spec->id, "home", path);
    r = mkdir(path, 0700) < 0 ? atoll_fail_errno(err, errno, "fake: make its home") : 0;
    if (r == 0)
        r = start_agent(f, spec->id, err);
    if (r == 0)
        r = connect_agent(f, spec->id, ret_fd, err);
    if (r < 0)
        (void)remove_all(f, call, spec->id, &ignored);
    else
        (void)snprintf(spec->handle, sizeof(spec->handle), "%d", (int)agent_of(f, spec->id));
    return r;
}

/* A stream that ends at once, like that of an agent that ends during the handshake. */
static int dial_closed(int *ret_fd, struct atoll_error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "fake: dial");
    (void)close(pair[1]);
    *ret_fd = pair[0];
    return 0;
}

static int dial(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct fault fault;
    int r = inject_fault(fake_of(p), call, "dial", spec->id, &fault, err);

    if (r == 0 && strcmp(fault.end, "dialed") == 0)
        return dial_closed(ret_fd, err);
    return r < 0 ? r : connect_agent(fake_of(p), spec->id, ret_fd, err);
}

static int inspect(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                   struct atoll_error *err)
{
    static const struct {
        const char *word;
        int state;
    } told[] = {{"exited", ATOLL_INSPECT_EXITED},
                {"gone", ATOLL_INSPECT_GONE},
                {"paused", ATOLL_INSPECT_PAUSED}};
    struct fault fault;
    int r = inject_fault(fake_of(p), call, "look", spec->id, &fault, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(told); i++)
        if (strcmp(fault.end, told[i].word) == 0) {
            *ret = (struct atoll_provider_inspection){.exit = {.code = 3}};
            ret->state = told[i].state;
            (void)snprintf(ret->cause, sizeof(ret->cause), "fake: it is said to be %s",
                           told[i].word);
            return 0;
        }
    ret->state = agent_of(fake_of(p), spec->id) ? ATOLL_INSPECT_ALIVE : ATOLL_INSPECT_GONE;
    if (ret->state == ATOLL_INSPECT_GONE)
        (void)snprintf(ret->cause, sizeof(ret->cause), "its agent is not running any more");
    return 0;
}

static int list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                void (*each)(void *arg, const char *id, const char *handle, bool alive), void *arg,
                struct atoll_error *err)
{
    struct fake *f = fake_of(p);
    int r = inject_fault(f, call, "list", "", NULL, err);
    DIR *dir = r == 0 ? opendir(f->dir) : NULL;
    struct dirent *entry;
    char handle[16];

    while (dir && (entry = readdir(dir)) != NULL)
        if (strlen(entry->d_name) == ATOLL_ID_LEN && atoll_text_is_id(entry->d_name)) {
            pid_t pid = agent_of(f, entry->d_name);
            (void)snprintf(handle, sizeof(handle), "%d", (int)pid);
            each(arg, entry->d_name, handle, pid != 0);
        }
    if (dir)
        (void)closedir(dir);
    return r;
}

static int destroy(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    int r = inject_fault(fake_of(p), call, "destroy", spec->id, NULL, err);
    return r < 0 ? r : remove_all(fake_of(p), call, spec->id, err);
}

static int health(struct atoll_sync_provider *p, const struct atoll_sync_call *call, char *detail,
                  size_t cap, struct atoll_error *err)
{
    (void)snprintf(detail, cap, "for tests; isolates nothing");
    return inject_fault(fake_of(p), call, "health", "", NULL, err);
}

static struct atoll_sync_provider *fake_free(struct atoll_sync_provider *p)
{
    struct fake *f = p ? fake_of(p) : NULL;

    if (!f)
        return NULL;
    free(f->dir);
    free(f->agent);
    free(f->control);
    free(f);
    return NULL;
}

/* Operations that are missing here are refused by provider/checked.h. */
static const struct atoll_sync_ops ops = {
    .name = "fake",
    .caps = {.isolation = "none",
             .templates = true,
             .descriptors = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = missing_limits,
    .create = create,
    .dial = dial,
    .inspect = inspect,
    .list = list,
    .destroy = destroy,
    .health = health,
    .free = fake_free,
};

int atoll_fake_provider_new(const struct atoll_fake_config *config,
                            struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct fake *f = calloc(1, sizeof(*f));

    if (!f)
        return atoll_fail_errno(err, ENOMEM, "fake provider");
    f->base.ops = &ops;
    f->dir = strdup(config->state_dir);
    f->agent = strdup(config->agent_path);
    f->control = config->control ? strdup(config->control) : NULL;
    if (!f->dir || !f->agent || (config->control && !f->control) ||
        (mkdir(f->dir, 0700) < 0 && errno != EEXIST)) {
        int errnum = errno;
        (void)fake_free(&f->base);
        return atoll_fail_errno(err, errnum, "fake provider");
    }
    *ret = &f->base;
    return 0;
}
