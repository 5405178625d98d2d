#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include "base/log.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "sys/unix_socket.h"

/*
 * The connection to atoll-egress. Its supervisor listens at STATE/egress.sock and starts the worker again
 * when it dies; if the supervisor is gone too, the program is started again: it needs no privileges, so
 * that the confined daemon can do so.
 */

#define FIRST_DELAY_MS 2
#define DELAY_MAX_MS 500
#define HELLO_MS 5000
#define SILENCE_MS 5000
#define ANSWER_MS 20000

static int decode_error(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err)
{
    struct atoll_em_error msg;
    int r = atoll_msg_decode(&atoll_em_error_desc, frame->payload, frame->len, &msg, err);

    if (r < 0)
        return r;
    if (msg.kind == ATOLL_ERR_NONE || msg.kind > ATOLL_ERR_UNAUTHENTICATED)
        msg.kind = ATOLL_ERR_UNKNOWN;
    (void)atoll_fail(ret_error, (enum atoll_error_kind)msg.kind, msg.errnum, "%s", msg.text);
    return 0;
}

static int64_t limit_ms(uint16_t type)
{
    (void)type;
    return ANSWER_MS;
}

static const uint16_t lists[] = {0};

static const struct atoll_rpc_protocol protocol = {.peer = "atoll-egress",
                                                   .reply = ATOLL_EGRESS_REPLY,
                                                   .part = ATOLL_EGRESS_PART,
                                                   .error = ATOLL_EGRESS_ERROR,
                                                   .lists = lists,
                                                   .decode_error = decode_error,
                                                   .silence_ms = SILENCE_MS,
                                                   .limit_ms = limit_ms,
                                                   .ping = ATOLL_EGRESS_PING};

/* Starting the program. */

/* Blocked and ignored signals are not inherited. */
static int spawn(const char *program, const char *state_dir, pid_t *ret_pid)
{
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)state_dir, NULL};
    posix_spawnattr_t attr;
    sigset_t none, usual;
    int r = posix_spawnattr_init(&attr);

    if (r != 0)
        return -r;
    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)sigaddset(&usual, SIGHUP);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &usual);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = atoll_fault("engine.start_egress");
    if (r == 0)
        r = posix_spawn(ret_pid, program, NULL, &attr, argv, atoll_switches_env());
    (void)posix_spawnattr_destroy(&attr);
    return -r;
}

/* Starts it unless the one that was started last is still on its way. */
static void start_program(struct atoll_networks *n)
{
    int r;

    if (n->child > 0 && waitpid(n->child, NULL, WNOHANG) == 0)
        return;
    n->child = 0;
    r = spawn(n->program, n->engine->state_dir, &n->child);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "atoll-egress cannot be started", "error", strerror(-r), NULL);
}

/* Connecting. */

static void try_again(void *arg);

static void try_later(struct atoll_networks *n)
{
    n->rpc = atoll_rpc_close(n->rpc);
    atoll_timer_set(&n->again, n->engine->loop, n->delay_ms, try_again, n);
    n->delay_ms = ATOLL_MIN(n->delay_ms * 2, (int64_t)DELAY_MAX_MS);
}

static void on_no_answer(void *arg)
{
    try_later(arg);
}

static void note_worker(struct atoll_networks *n, uint32_t pid)
{
    if (n->worker != 0 && n->worker != pid)
        atoll_metric_add(ATOLL_METRIC_EGRESS_RESTARTS, ATOLL_NO_LABELS, 1);
    n->worker = pid;
}

static void send_cache(struct atoll_networks *n);

static void on_hello(void *arg, const struct atoll_reply *answer)
{
    struct atoll_networks *n = arg;
    struct atoll_em_hello hello = {0};
    const struct atoll_error *error = answer->error;
    struct atoll_error err;

    if (!error && atoll_msg_decode(&atoll_em_hello_desc, answer->frame->payload, answer->frame->len,
                                   &hello, &err) < 0)
        error = &err;
    if (!error && hello.version != ATOLL_EGRESS_VERSION) {
        (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                         "it speaks version %u of the protocol", hello.version);
        error = &err;
    }
    if (error) { /* a lost connection is handled by on_lost() */
        atoll_log(ATOLL_LOG_ERROR, "atoll-egress cannot be used", "error", error->text, NULL);
        atoll_timer_set(&n->again, n->engine->loop, DELAY_MAX_MS, on_no_answer, n);
        return;
    }
    atoll_timer_cancel(&n->again);
    note_worker(n, hello.pid);
    n->greeted = true;
    atoll_metric_set(ATOLL_METRIC_EGRESS_UP, ATOLL_NO_LABELS, 1);
    n->delay_ms = FIRST_DELAY_MS;
    atoll_log(ATOLL_LOG_INFO, "atoll-egress answers", NULL);
    send_cache(n);
    atoll_network_sync(n);
}

/* The processes whose end ends the sandboxes: as long as one of them lives, atoll-egress stays when the
 * daemon dies. */
static size_t find_keepers(const struct atoll_engine *engine, int fds[ATOLL_FD_PASS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < engine->entry_count && count < ATOLL_FD_PASS_MAX; i++) {
        struct atoll_provider *p = engine->entries[i]->provider;
        int fd = p->ops->keeper ? p->ops->keeper(p) : -ENOSYS;

        if (fd >= 0)
            fds[count++] = fd;
    }
    return count;
}

void atoll_network_greet(struct atoll_networks *n)
{
    const struct atoll_em_hello hello = {.version = ATOLL_EGRESS_VERSION,
                                         .pid = (uint32_t)getpid()};
    int fds[ATOLL_FD_PASS_MAX];
    struct atoll_error err;
    size_t count;
    int r;

    if (!n->rpc)
        return;
    n->greeted = false;
    count = find_keepers(n->engine, fds);
    atoll_timer_set(&n->again, n->engine->loop, HELLO_MS, on_no_answer, n);
    r = atoll_rpc_ask_with(n->rpc, ATOLL_EGRESS_HELLO, &atoll_em_hello_desc, &hello, fds, count,
                           on_hello, n, &err);
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
    if (r < 0)
        try_later(n);
}

/* Downloads that are kept. */

static void on_cache(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    if (answer->error && answer->error->errnum != EPIPE)
        atoll_log(ATOLL_LOG_ERROR, "downloads are not kept", "error", answer->error->text, NULL);
}

static void send_cache(struct atoll_networks *n)
{
    struct atoll_em_cache msg = {.max_bytes = n->cache_max_bytes};
    struct atoll_error err;

    if (!n->cache_table)
        return;
    msg.table = (struct atoll_bytes){(const uint8_t *)n->cache_table, strlen(n->cache_table)};
    (void)!atoll_rpc_ask(n->rpc, ATOLL_EGRESS_CACHE, &atoll_em_cache_desc, &msg, on_cache, n, &err);
}

static int note_cached(const struct atoll_frame *frame)
{
    struct atoll_em_cached c;
    struct atoll_error err;

    if (atoll_msg_decode(&atoll_em_cached_desc, frame->payload, frame->len, &c, &err) < 0)
        return -EBADMSG;
    atoll_metric_add(ATOLL_METRIC_CACHE_REQUESTS, ATOLL_LABELS("hit"), (double)c.hits);
    atoll_metric_add(ATOLL_METRIC_CACHE_REQUESTS, ATOLL_LABELS("miss"), (double)c.misses);
    atoll_metric_add(ATOLL_METRIC_CACHE_SENT, ATOLL_LABELS("cache"), (double)c.hit_bytes);
    atoll_metric_add(ATOLL_METRIC_CACHE_SENT, ATOLL_LABELS("server"), (double)c.miss_bytes);
    atoll_metric_add(ATOLL_METRIC_CACHE_EVICTIONS, ATOLL_NO_LABELS, (double)c.evictions);
    atoll_metric_add(ATOLL_METRIC_CACHE_REFUSED, ATOLL_LABELS("digest"), (double)c.mismatches);
    atoll_metric_add(ATOLL_METRIC_CACHE_REFUSED, ATOLL_LABELS("disk"), (double)c.failures);
    atoll_metric_set(ATOLL_METRIC_CACHE_BYTES, ATOLL_NO_LABELS, (double)c.bytes);
    atoll_metric_set(ATOLL_METRIC_CACHE_FILES, ATOLL_NO_LABELS, (double)c.files);
    return 0;
}

static int on_event(void *arg, struct atoll_frame *frame)
{
    struct atoll_em_connection event;
    struct atoll_em_dial dial;
    struct atoll_error err;

    if (frame->type == ATOLL_EGRESS_DIAL) {
        if (atoll_msg_decode(&atoll_em_dial_desc, frame->payload, frame->len, &dial, &err) < 0)
            return -EBADMSG;
        atoll_network_dial(arg, &dial);
        return 0;
    }
    if (frame->type == ATOLL_EGRESS_CACHED)
        return note_cached(frame);
    if (frame->type != ATOLL_EGRESS_CONNECTION ||
        atoll_msg_decode(&atoll_em_connection_desc, frame->payload, frame->len, &event, &err) < 0)
        return -EBADMSG;
    return atoll_network_note(arg, &event);
}

static void on_lost(void *arg, const char *why)
{
    struct atoll_networks *n = arg;

    if (n->greeted)
        atoll_log(ATOLL_LOG_WARN, "atoll-egress is gone", "why", why, NULL);
    n->greeted = false;
    atoll_metric_set(ATOLL_METRIC_EGRESS_UP, ATOLL_NO_LABELS, 0);
    atoll_network_lost(n);
    n->delay_ms = FIRST_DELAY_MS;
    try_later(n);
}

static bool expects(const void *arg)
{
    (void)arg;
    return true;
}

static bool heartbeat(const void *arg)
{
    return ((const struct atoll_networks *)arg)->greeted;
}

/* Requests that were refused meanwhile are made up for. */
static void on_silence(void *arg, bool silent)
{
    struct atoll_networks *n = arg;

    if (!silent && n->greeted)
        atoll_network_sync(n);
    atoll_log(silent ? ATOLL_LOG_ERROR : ATOLL_LOG_INFO,
              silent ? "atoll-egress does not answer" : "atoll-egress answers again", NULL);
}

/* A late answer to PUT or POLICY changes nothing that was not told already. */
static void on_late(void *arg, uint16_t type, const struct atoll_frame *frame)
{
    (void)arg;
    (void)type;
    (void)frame;
}

static const struct atoll_rpc_events rpc_events = {.event = on_event,
                                                   .lost = on_lost,
                                                   .expects = expects,
                                                   .heartbeat = heartbeat,
                                                   .silence = on_silence,
                                                   .late = on_late};

static void try_again(void *arg)
{
    struct atoll_networks *n = arg;
    struct atoll_error err;
    int fd = atoll_unix_connect(n->engine->state_dir, ATOLL_EGRESS_SOCKET);

    if (fd == -ENOENT || fd == -ECONNREFUSED)
        start_program(n);
    if (fd < 0 || atoll_rpc_open(n->engine->loop, fd, &protocol, &rpc_events, n, &n->rpc, &err) < 0)
        try_later(n);
    else
        atoll_network_greet(n);
}

/* Life. */

int atoll_network_open(struct atoll_engine *engine, const char *program, struct atoll_error *err)
{
    struct atoll_networks *n = calloc(1, sizeof(*n));
    int r;

    if (!n)
        return atoll_fail_errno(err, ENOMEM, "network");
    n->engine = engine;
    n->journal_fd = ATOLL_NO_FD;
    atoll_list_init(&n->queue);
    n->delay_ms = FIRST_DELAY_MS;
    engine->network = n;
    atoll_network_watch_secrets(n);
    n->program = program ? strdup(program) : NULL;
    n->cache_max_bytes = engine->config.cache_max_bytes;
    n->cache_table = engine->config.cache_table ? strdup(engine->config.cache_table) : NULL;
    if ((program && !n->program) || (engine->config.cache_table && !n->cache_table))
        return atoll_fail_errno(err, ENOMEM, "network");
    r = atoll_network_open_journals(n, err);
    if (r == 0 && program)
        try_again(n);
    return r;
}

struct atoll_networks *atoll_network_free(struct atoll_networks *n)
{
    if (!n)
        return NULL;
    atoll_timer_cancel(&n->again);
    n->rpc = atoll_rpc_close(n->rpc);
    atoll_network_forget_secrets(n);
    if (n->journal_fd >= 0)
        (void)close(n->journal_fd);
    free(n->cache_table);
    free(n->program);
    free(n);
    return NULL;
}

void atoll_network_end(struct atoll_networks *n)
{
    struct atoll_error err;
    int fd;

    if (!n->program)
        return;
    if (!n->rpc) { /* a worker that is just starting reads it from the backlog */
        fd = atoll_unix_connect(n->engine->state_dir, ATOLL_EGRESS_SOCKET);
        if (fd >= 0)
            (void)!atoll_rpc_open(n->engine->loop, fd, &protocol, &rpc_events, n, &n->rpc, &err);
    }
    if (n->rpc)
        (void)!atoll_rpc_tell(n->rpc, ATOLL_EGRESS_END, NULL, NULL);
    atoll_timer_cancel(&n->again);
    n->rpc = atoll_rpc_close(n->rpc);
    n->greeted = false;
}

void atoll_network_kill(const struct atoll_networks *n)
{
    if (n->child > 0 && waitpid(n->child, NULL, WNOHANG) == 0)
        (void)kill(n->child, SIGTERM);
}

const char *atoll_network_problem(const struct atoll_networks *n)
{
    if (!n->program)
        return "the program atoll-egress is not installed beside atoll-spawn";
    if (!n->greeted)
        return "atoll-egress does not run; it is being started";
    if (atoll_rpc_silent_ms(n->rpc) > 0)
        return "atoll-egress does not answer";
    return NULL;
}
