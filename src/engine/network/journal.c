#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/sandbox/ended.h"

/*
 * The journal of a sandbox's connections, STATE/network/ID: one line for each event, with tabs between
 * the columns. A full file becomes ID.1, in place of the one before. Of a sandbox that has ended the newest
 * lines are kept as long as its record.
 */

#define FILE_MAX (1024 * 1024)
#define LINE_MAX_BYTES 2048
#define COLUMNS 16
#define DIRECTORY "network"
#define OLDER ATOLL_JOURNAL_OLDER
#define SHORTENED ATOLL_JOURNAL_SHORTENED
#define KEPT_MAX (64 * 1024) /* of a sandbox that has ended */
#define TEXT_MAX 340

static const char *const end_names[] = {
    [ATOLL_EGRESS_OPENED] = "open",
    [ATOLL_EGRESS_CLOSED] = "closed",
    [ATOLL_EGRESS_RESET] = "reset",
    [ATOLL_EGRESS_DENIED] = "denied",
    [ATOLL_EGRESS_UNREACHABLE] = "unreachable",
    [ATOLL_EGRESS_REVOKED] = "revoked",
    [ATOLL_EGRESS_LIMITED] = "limited",
    [ATOLL_EGRESS_RESOLVED] = "resolved",
    [ATOLL_EGRESS_UNRESOLVED] = "unresolved",
};

struct atoll_connections_follower {
    struct atoll_list node;
    atoll_connection_fn *fn;
    void (*ended)(void *arg);
    void *arg;
};

/* Lines. */

/* Texts come from programs in sandboxes: control characters become "?". */
static void put_text(char *out, const char *text)
{
    size_t n = 0;

    for (; n < TEXT_MAX && text && text[n]; n++)
        out[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? '?' : text[n];
    out[n] = '\0';
}

static int print_line(const struct atoll_connection *c, int end, char out[LINE_MAX_BYTES])
{
    char name[TEXT_MAX + 1], address[TEXT_MAX + 1], rule[TEXT_MAX + 1], hint[TEXT_MAX + 1];

    put_text(name, c->name);
    put_text(address, c->address);
    put_text(rule, c->rule);
    put_text(hint, c->hint);
    return snprintf(
        out, LINE_MAX_BYTES,
        "%llu\t%u\t%llu\t%d\t%d\t%lld\t%lld\t%u\t%llu\t%llu\t%d\t%llu\t%s\t%s\t%s\t%s\n",
        (unsigned long long)c->line, c->worker, (unsigned long long)c->number, end, c->dns,
        (long long)c->started_unix_ms, (long long)c->ended_unix_ms, c->port,
        (unsigned long long)c->rx_bytes, (unsigned long long)c->tx_bytes, c->errnum,
        (unsigned long long)c->lost, name, address, rule, hint);
}

/* line: without its newline; changed. False: it is damaged. */
static bool parse_line(char *line, struct atoll_connection *ret, unsigned *ret_end)
{
    char *columns[COLUMNS];
    uint64_t numbers[12];
    size_t count = 0;

    for (char *rest = line; rest && count < COLUMNS;)
        columns[count++] = strsep(&rest, "\t");
    if (count < COLUMNS)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++)
        if (atoll_text_u64(columns[i], 0, UINT64_MAX, &numbers[i]) < 0)
            return false;
    if (numbers[3] >= ATOLL_ARRAY_LEN(end_names))
        return false;
    *ret_end = (unsigned)numbers[3];
    *ret = (struct atoll_connection){.line = numbers[0],
                                     .worker = (uint32_t)numbers[1],
                                     .number = numbers[2],
                                     .end = end_names[numbers[3]],
                                     .dns = numbers[4] != 0,
                                     .started_unix_ms = (int64_t)numbers[5],
                                     .ended_unix_ms = (int64_t)numbers[6],
                                     .port = (uint32_t)numbers[7],
                                     .rx_bytes = numbers[8],
                                     .tx_bytes = numbers[9],
                                     .errnum = (int)numbers[10],
                                     .lost = numbers[11],
                                     .name = columns[12],
                                     .address = columns[13],
                                     .rule = columns[14],
                                     .hint = columns[15]};
    return true;
}

/* Files. */

static void file_name(char out[64], const char *id, const char *suffix)
{
    (void)snprintf(out, 64, "%.32s%s", id, suffix);
}

/* Reads a whole file; malloced, with a NUL behind it. NULL: absent. */
static char *read_whole(const struct atoll_networks *n, const char *id, const char *suffix,
                        size_t *ret_size)
{
    const size_t cap = FILE_MAX + LINE_MAX_BYTES;
    char name[64];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char *text;
    ssize_t size;

    file_name(name, id, suffix);
    fd = openat(n->journal_fd, name, O_RDONLY | O_CLOEXEC);
    text = fd < 0 ? NULL : malloc(cap + 1);
    size = text ? pread(fd, text, cap, 0) : -1;
    if (size < 0) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    *ret_size = (size_t)size;
    return text;
}

/* The number of the last whole line, and where it ends. */
static uint64_t find_last(const struct atoll_networks *n, const char *id, const char *suffix,
                          size_t *ret_end)
{
    size_t size = 0;
    ATOLL_AUTOFREE char *text = read_whole(n, id, suffix, &size);
    struct atoll_connection c;
    unsigned end;

    while (text && size > 0 && text[size - 1] != '\n')
        size--;
    *ret_end = size;
    while (size > 0) {
        size_t at = size - 1;

        while (at > 0 && text[at - 1] != '\n')
            at--;
        text[size - 1] = '\0';
        if (parse_line(text + at, &c, &end))
            return c.line;
        size = at;
    }
    return 0;
}

/* Continues the file of an earlier daemon; an incomplete last line is dropped. */
static int open_log(const struct atoll_networks *n, const char *id,
                    struct atoll_connection_log *log)
{
    char name[64];
    size_t end, unused;

    if (log->fd >= 0)
        return 0;
    file_name(name, id, "");
    log->line = find_last(n, id, "", &end);
    if (log->line == 0)
        log->line = find_last(n, id, OLDER, &unused);
    log->fd = openat(n->journal_fd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log->fd < 0)
        return -errno;
    log->bytes = end;
    return ftruncate(log->fd, (off_t)end) < 0 ? -errno : 0;
}

static int rotate(const struct atoll_networks *n, const char *id, struct atoll_connection_log *log)
{
    char name[64], older[64];

    file_name(name, id, "");
    file_name(older, id, OLDER);
    (void)close(ATOLL_TAKE_FD(log->fd));
    if (renameat(n->journal_fd, name, n->journal_fd, older) < 0)
        return -errno;
    return open_log(n, id, log);
}

static int append(const struct atoll_networks *n, const char *id, struct atoll_connection_log *log,
                  struct atoll_connection *c, int end)
{
    char line[LINE_MAX_BYTES];
    int size;
    int r = atoll_fault("network.journal");

    r = r ? -r : open_log(n, id, log);
    if (r == 0 && log->bytes >= FILE_MAX)
        r = rotate(n, id, log);
    c->line = ++log->line;
    size = print_line(c, end, line);
    if (r == 0 && (size_t)size < sizeof(line))
        r = atoll_fd_write_all(log->fd, line, (size_t)size);
    if (r == 0)
        log->bytes += (size_t)size;
    return r;
}

/* Events. */

static void count(const struct atoll_em_connection *event)
{
    if (event->end != ATOLL_EGRESS_OPENED)
        atoll_metric_add(ATOLL_METRIC_NETWORK_CONNECTIONS,
                         ATOLL_LABELS(event->dns ? "dns" : "tcp", end_names[event->end]), 1);
    if (event->rx_bytes + event->tx_bytes > 0 && event->end != ATOLL_EGRESS_OPENED) {
        atoll_metric_add(ATOLL_METRIC_NETWORK_BYTES, ATOLL_LABELS("in"), (double)event->rx_bytes);
        atoll_metric_add(ATOLL_METRIC_NETWORK_BYTES, ATOLL_LABELS("out"), (double)event->tx_bytes);
    }
    if (event->lost > 0)
        atoll_metric_add(ATOLL_METRIC_NETWORK_LOST, ATOLL_LABELS("queue"), (double)event->lost);
}

/* A callback may remove its own follower. */
static void tell_followers(struct atoll_connection_log *log, const struct atoll_connection *c)
{
    ATOLL_LIST_FOREACH (&log->followers, node) {
        struct atoll_connections_follower *f =
            ATOLL_CONTAINER_OF(node, struct atoll_connections_follower, node);
        f->fn(f->arg, c);
    }
}

int atoll_network_note(struct atoll_networks *n, const struct atoll_em_connection *event)
{
    struct atoll_sandbox *s = atoll_map_get(&n->engine->sandboxes, event->id);
    struct atoll_connection c = {
        .number = event->number,
        .worker = n->worker,
        .dns = event->dns,
        .started_unix_ms = event->started_unix_ms,
        .ended_unix_ms = event->ended_unix_ms,
        .name = event->name,
        .address = event->address,
        .port = event->port,
        .rule = event->rule,
        .hint = event->hint,
        .errnum = event->errnum,
        .rx_bytes = event->rx_bytes,
        .tx_bytes = event->tx_bytes,
        .lost = event->lost,
    };
    int r;

    if (event->end >= ATOLL_ARRAY_LEN(end_names) || event->started_unix_ms < 0 ||
        event->ended_unix_ms < 0 || event->errnum < 0)
        return -EBADMSG;
    c.end = end_names[event->end];
    count(event);
    /* A question that was answered is not a line: the connection that follows is. */
    if (!s || !s->attachment || event->end == ATOLL_EGRESS_RESOLVED)
        return 0;
    r = append(n, s->spec.id, &s->attachment->log, &c, event->end);
    if (r < 0) {
        atoll_metric_add(ATOLL_METRIC_NETWORK_LOST, ATOLL_LABELS("disk"), 1);
        atoll_log(ATOLL_LOG_DEBUG, "connection not written", "sandbox", s->spec.id, "error",
                  strerror(-r), NULL);
    }
    tell_followers(&s->attachment->log, &c);
    return 0;
}

/* Reading. */

/* Connections whose end was seen, while lines are read backwards. */
#define SEEN_SLOTS 65536
#define SEEN_MAX (SEEN_SLOTS / 4 * 3)
struct seen {
    uint64_t *slots; /* owned; 0: free */
    size_t count;
};

/* True if it was there before. */
static bool seen_add(struct seen *seen, const struct atoll_connection *c)
{
    const uint64_t key = (c->number + 1) ^ ((uint64_t)c->worker << 40);
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 48);

    for (; seen->slots[at]; at = (at + 1) % SEEN_SLOTS)
        if (seen->slots[at] == key)
            return true;
    if (seen->count < SEEN_MAX) {
        seen->slots[at] = key;
        seen->count++;
    }
    return false;
}

struct reading {
    const struct atoll_networks *network;
    struct seen seen;
    bool gone;       /* the sandbox has ended */
    uint64_t before; /* forwards: the line after which reading begins */
    size_t most, given;
    bool more;
    atoll_connection_fn *fn;
    void *arg;
};

/* False: the page is full. */
static bool give(struct reading *r, struct atoll_connection *c, unsigned end)
{
    bool known = seen_add(&r->seen, c);

    if (known || (r->before && c->line >= r->before))
        return true;
    if (r->given == r->most) {
        r->more = true;
        return false;
    }
    if (end == ATOLL_EGRESS_OPENED &&
        (r->gone || (r->network->worker && c->worker != r->network->worker)))
        c->end = "lost";
    r->given++;
    r->fn(r->arg, c);
    return true;
}

static bool read_backwards(struct reading *r, const char *id, const char *suffix)
{
    size_t size = 0;
    ATOLL_AUTOFREE char *text = read_whole(r->network, id, suffix, &size);
    struct atoll_connection c;
    unsigned end;

    while (size > 0 && text[size - 1] != '\n')
        size--;
    while (size > 0) {
        size_t at = size - 1;

        while (at > 0 && text[at - 1] != '\n')
            at--;
        text[size - 1] = '\0';
        if (parse_line(text + at, &c, &end) && !give(r, &c, end))
            return false;
        size = at;
    }
    return true;
}

int atoll_connections_list(struct atoll_engine *engine, const char *sandbox_id, uint64_t before,
                           size_t most, atoll_connection_fn *fn, void *arg, bool *ret_more,
                           struct atoll_error *err)
{
    struct reading r = {
        .network = engine->network, .before = before, .most = most, .fn = fn, .arg = arg};

    r.gone = !atoll_engine_find(engine, sandbox_id);
    r.seen.slots = calloc(SEEN_SLOTS, sizeof(*r.seen.slots));
    if (!r.seen.slots)
        return atoll_fail_errno(err, ENOMEM, "connections");
    if (read_backwards(&r, sandbox_id, ""))
        (void)read_backwards(&r, sandbox_id, OLDER);
    free(r.seen.slots);
    *ret_more = r.more;
    return 0;
}

static void read_forwards(struct reading *r, const char *id, const char *suffix)
{
    size_t size = 0;
    ATOLL_AUTOFREE char *text = read_whole(r->network, id, suffix, &size);
    struct atoll_connection c;
    unsigned end;

    for (char *at = text, *stop; at && (stop = strchr(at, '\n')); at = stop + 1) {
        *stop = '\0';
        if (parse_line(at, &c, &end) && c.line > r->before)
            r->fn(r->arg, &c);
    }
}

void atoll_connections_since(struct atoll_engine *engine, const char *sandbox_id, uint64_t after,
                             size_t most, atoll_connection_fn *fn, void *arg)
{
    struct reading r = {.network = engine->network, .before = after, .fn = fn, .arg = arg};
    size_t unused;
    uint64_t last = find_last(engine->network, sandbox_id, "", &unused);

    if (last == 0)
        last = find_last(engine->network, sandbox_id, OLDER, &unused);
    if (last <= after)
        return;
    r.before = ATOLL_MAX(after, last > most ? last - most : 0);
    read_forwards(&r, sandbox_id, OLDER);
    read_forwards(&r, sandbox_id, "");
}

int atoll_connections_follow(struct atoll_engine *engine, const char *sandbox_id,
                             atoll_connection_fn *fn, void (*ended)(void *arg), void *arg,
                             struct atoll_connections_follower **ret, struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);
    struct atoll_connections_follower *f;

    if (!s || !s->attachment)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENETDOWN,
                          "sandbox %s has no network at present", sandbox_id);
    f = calloc(1, sizeof(*f));
    if (!f)
        abort(); /* a small fixed object: the daemon is crash-only */
    *f = (struct atoll_connections_follower){.fn = fn, .ended = ended, .arg = arg};
    atoll_list_push_back(&s->attachment->log.followers, &f->node);
    *ret = f;
    return 0;
}

struct atoll_connections_follower *atoll_connections_unfollow(struct atoll_connections_follower *f)
{
    if (f)
        atoll_list_remove(&f->node);
    free(f);
    return NULL;
}

/* Life. */

void atoll_connection_log_init(struct atoll_connection_log *log)
{
    *log = (struct atoll_connection_log){.fd = ATOLL_NO_FD};
    atoll_list_init(&log->followers);
}

void atoll_connection_log_done(struct atoll_connection_log *log)
{
    if (log->fd >= 0)
        (void)close(ATOLL_TAKE_FD(log->fd));
    while (!atoll_list_empty(&log->followers)) {
        struct atoll_connections_follower *f =
            ATOLL_CONTAINER_OF(log->followers.next, struct atoll_connections_follower, node);

        atoll_list_remove(&f->node);
        f->ended(f->arg);
    }
}

int atoll_network_open_journals(struct atoll_networks *n, struct atoll_error *err)
{
    int r = mkdirat(n->engine->state_fd, DIRECTORY, 0700) < 0 && errno != EEXIST ? -errno : 0;

    if (r == 0) {
        n->journal_fd = openat(n->engine->state_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = n->journal_fd < 0 ? -errno : 0;
    }
    return r < 0 ? atoll_fail_errno(err, -r, "make the directory of network journals") : 0;
}

static int found_record(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    (void)arg;
    (void)row;
    (void)err;
    return 0;
}

static bool has_record(const struct atoll_networks *n, const char *id)
{
    struct atoll_error err;

    return atoll_ended_find(n->engine, id, found_record, NULL, &err) == 1;
}

/* Replaces both files by the newest lines. -errno: they may be as they were. */
static int shorten(const struct atoll_networks *n, const char *id)
{
    char name[64], shortened[64], older[64];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    size_t size = 0, from;
    ATOLL_AUTOFREE char *text = read_whole(n, id, "", &size);
    int r;

    file_name(name, id, "");
    file_name(shortened, id, SHORTENED);
    file_name(older, id, OLDER);
    if (text && size > KEPT_MAX) {
        for (from = size - KEPT_MAX; from < size && text[from - 1] != '\n'; from++)
            ;
        fd = openat(n->journal_fd, shortened, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        r = fd < 0 ? -errno : atoll_fd_write_all(fd, text + from, size - from);
        if (r < 0 || renameat(n->journal_fd, shortened, n->journal_fd, name) < 0)
            return r < 0 ? r : -errno;
    }
    return text && unlinkat(n->journal_fd, older, 0) < 0 && errno != ENOENT ? -errno : 0;
}

void atoll_network_end_journal(const struct atoll_sandbox *s)
{
    const struct atoll_networks *n = s->engine->network;

    if (s->spec.network == ATOLL_NETWORK_NONE)
        return;
    if (!has_record(n, s->spec.id) || shorten(n, s->spec.id) < 0)
        atoll_network_drop_journal(n, s->spec.id);
}

void atoll_network_sweep_journals(const struct atoll_networks *n)
{
    int fd = openat(n->journal_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        char id[ATOLL_ID_LEN + 1] = "";

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(entry->d_name, "."), entry->d_name);
        if (!atoll_map_get(&n->engine->sandboxes, id) && !has_record(n, id))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}
