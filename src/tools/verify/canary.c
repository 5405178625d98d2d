#include "tools/verify/canary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/rand.h"

#define READY_MS 10000
#define LOCKED_FILE "/usr/bin/env" /* the same inode in sandboxes that share the host's /usr */
#define ARGS_MAX 48
#define DEPTH 32 /* directories open at a time */

static char token_name[] = "ATOLL_LAUNCHER_TOKEN=a name that promises a secret";
static char path_variable[] = "PATH=/usr/bin:/bin";
static char home_variable[] = "HOME=/";

int atoll_facts_set(json_t *facts, const char *name, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return json_object_set_new(facts, name, json_string(text));
}

json_t *atoll_facts_arguments(const json_t *facts)
{
    json_t *array = json_array();
    const char *name;
    json_t *value;
    int r = array ? 0 : -1;

    json_object_foreach((json_t *)facts, name, value) if (r == 0) r =
        json_array_append_new(array, json_sprintf("%s=%s", name, json_string_value(value)));
    if (r == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* A port that is currently free on the loopback. */
static unsigned free_port(int type)
{
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return 0;
    return ntohs(address.sin_port);
}

json_t *atoll_canary_names(void)
{
    json_t *facts = json_object();
    char name[13];
    uint32_t key;
    int r = 0;

    atoll_rand_id(name, sizeof(name) - 1);
    atoll_rand_bytes(&key, sizeof(key));
    r |= atoll_facts_set(facts, "port", "%u", free_port(SOCK_STREAM));
    r |= atoll_facts_set(facts, "dns", "%u", free_port(SOCK_DGRAM));
    r |= atoll_facts_set(facts, "abstract", "atoll-canary-%s", name);
    r |= atoll_facts_set(facts, "shm", "atoll-canary-%s", name);
    r |= atoll_facts_set(facts, "sysv", "%u", (key >> 2) + 1);
    r |= atoll_facts_set(facts, "flock", "%s", LOCKED_FILE);
    if (r == 0)
        return facts;
    json_decref(facts);
    return NULL;
}

/* Adds the address from which this host would send, if it has one. Connecting UDP sends nothing. */
static int add_address(json_t *facts)
{
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t len = sizeof(address);
    char text[INET_ADDRSTRLEN];

    (void)inet_pton(AF_INET, "198.51.100.1", &address.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0 ||
        !inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)))
        return 0;
    return atoll_facts_set(facts, "addr", "%s", text);
}

static int add_namespaces(json_t *facts)
{
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
    char path[64], name[32], link[128];
    int r = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++) {
        ssize_t n;
        (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
        (void)snprintf(name, sizeof(name), "ns_%s", kinds[i]);
        n = readlink(path, link, sizeof(link) - 1);
        if (n > 0)
            r |= atoll_facts_set(facts, name, "%.*s", (int)n, link);
    }
    return r;
}

static struct {
    char path[256];
    struct timespec changed;
} private_entry;

static int note_private(const char *path, const struct stat *st, int type, struct FTW *at)
{
    mode_t needed = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

    (void)at;
    if (type == FTW_NS || S_ISLNK(st->st_mode) || (st->st_mode & needed) == needed ||
        strlen(path) >= sizeof(private_entry.path) || strpbrk(path, "\n="))
        return 0;
    (void)snprintf(private_entry.path, sizeof(private_entry.path), "%s", path);
    private_entry.changed = st->st_mtim;
    return 1;
}

/* Adds an entry of /usr that not all users of this host may read, if one exists; makes none. */
static int add_private(json_t *facts)
{
    if (nftw("/usr", note_private, DEPTH, FTW_PHYS) != 1)
        return 0;
    return atoll_facts_set(facts, "private", "%s", private_entry.path) |
           atoll_facts_set(facts, "private_time", "%lld.%09ld",
                           (long long)private_entry.changed.tv_sec, private_entry.changed.tv_nsec);
}

static int make_files(struct atoll_canary *c, const struct atoll_verify *v, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ATOLL_AUTOFREE char *real = NULL;
    char name[13];
    int fd;

    atoll_rand_id(name, sizeof(name) - 1);
    (void)snprintf(c->directory, sizeof(c->directory), "%.200s/../canary-%s", v->scratch, name);
    if (mkdir(c->directory, 0755) < 0 || chmod(c->directory, 0755) < 0)
        return atoll_fail_errno(err, errno, "directory of the canaries");
    real = realpath(c->directory, NULL); /* the path without links */
    if (!real || strlen(real) > 80)
        return atoll_fail_errno(err, real ? ENAMETOOLONG : errno, "directory of the canaries");
    (void)snprintf(c->directory, sizeof(c->directory), "%s", real);
    (void)snprintf(c->file, sizeof(c->file), "%s/canary-%s", c->directory, name);
    (void)snprintf(c->socket_path, sizeof(c->socket_path), "%s/canary.sock", c->directory);
    fd = open(c->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "canary file");
    (void)dprintf(fd, "nobody inside may read this\n");
    (void)close(fd);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", c->socket_path);
    c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->listen_fd < 0 || bind(c->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(c->listen_fd, 8) < 0)
        return atoll_fail_errno(err, errno, "canary socket");
    return 0;
}

static int gather(struct atoll_canary *c, const struct atoll_verify *v)
{
    const char *equals = strchr(c->launcher, '=');
    int r;

    c->facts = atoll_canary_names();
    r = c->facts ? 0 : -1;
    if (r == 0)
        r = atoll_facts_set(c->facts, "canary", "%s", c->file) |
            atoll_facts_set(c->facts, "env", "%.*s", (int)(equals - c->launcher), c->launcher) |
            add_address(c->facts) | add_namespaces(c->facts) | add_private(c->facts);
    if (r == 0 && v->launcher_key)
        r = atoll_facts_set(c->facts, "key", "%s", v->launcher_key);
    return r;
}

static int start_process(struct atoll_canary *c, const struct atoll_verify *v,
                         struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *args = atoll_facts_arguments(c->facts);
    static char role[] = "--canary";
    char *argv[ARGS_MAX] = {(char *)v->probe, role};
    const struct atoll_child_options options = {.argv = argv, .envp = c->envp, .cwd = c->directory};
    size_t n = 2;
    int r;

    for (size_t i = 0; i < json_array_size(args) && n + 1 < ARGS_MAX; i++)
        argv[n++] = (char *)json_string_value(json_array_get(args, i));
    r = args ? atoll_child_start(&c->process, &options, err)
             : atoll_fail_errno(err, ENOMEM, "arguments");
    if (r == 0)
        r = atoll_child_expect(&c->process, "ready\n", READY_MS, err);
    if (r == 0 && atoll_facts_set(c->facts, "pid", "%d", (int)c->process.pid) < 0)
        r = atoll_fail_errno(err, ENOMEM, "facts");
    return r;
}

int atoll_canary_start(struct atoll_canary *canary, const struct atoll_verify *v,
                       struct atoll_error *err)
{
    int r;

    *canary = (struct atoll_canary){.listen_fd = ATOLL_NO_FD};
    (void)snprintf(canary->launcher, sizeof(canary->launcher), "%.80s=the launcher's environment",
                   v->launcher_env ? v->launcher_env : "ATOLL_LAUNCHER_CANARY");
    canary->envp[0] = canary->launcher;
    canary->envp[1] = token_name;
    canary->envp[2] = path_variable;
    canary->envp[3] = home_variable;
    r = make_files(canary, v, err);
    if (r == 0 && gather(canary, v) < 0)
        r = atoll_fail_errno(err, ENOMEM, "facts");
    if (r == 0)
        r = start_process(canary, v, err);
    if (r < 0) {
        (void)atoll_wrap(err, "the canaries of the host");
        atoll_canary_end(canary);
    }
    return r;
}

void atoll_canary_end(struct atoll_canary *canary)
{
    atoll_child_end(&canary->process);
    if (canary->listen_fd >= 0)
        (void)close(canary->listen_fd);
    json_decref(canary->facts);
    canary->facts = NULL;
}
