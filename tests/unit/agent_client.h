#pragma once
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/agent_proto.h"

/*
 * An agent in a forked process and a blocking client of it. As root the agent has all ids and
 * `nobody` for its default user; as anybody else it is an agent with one id.
 * Every wait is bounded: a test that would hang fails instead.
 */
#define CLIENT_WAIT_MS 20000
#define CLIENT_FRAMES_MAX 65536

struct kept_frame {
    uint16_t type;
    uint32_t id;
    uint8_t *payload; /* owned */
    size_t len;
    int fd; /* owned; -1: none */
};

struct agent_client {
    pid_t pid;
    char dir[64];  /* of the test, writable for everybody */
    char path[96]; /* of the socket */
    bool connected;
    struct atoll_channel ch;
    uint32_t last_id;
    struct kept_frame *frames; /* owned: received, not yet asked for */
    size_t frame_count;
    bool acks; /* acknowledge output when it is collected */
};

/* What became of a command. */
struct run_result {
    struct atoll_buf out, err;
    struct atoll_am_exit exit;
    char who[128], oom_process[64];
};

static inline bool is_root(void)
{
    return geteuid() == 0;
}

static inline void client_agent_main(const struct agent_client *c, int listen_fd, int oom_fd)
{
    struct atoll_agent_config config = {.listen_fd = listen_fd,
                                        .conn_fd = ATOLL_NO_FD,
                                        .fds = true,
                                        .many_ids = is_root(),
                                        .default_uid = is_root() ? 65534 : geteuid(),
                                        .default_gid = is_root() ? 65534 : getegid(),
                                        .default_user = is_root() ? "nobody" : "me",
                                        .default_home = c->dir,
                                        .oom_fd = oom_fd,
                                        .peak_fd = ATOLL_NO_FD,
                                        .boot_id_fd = ATOLL_NO_FD,
                                        .memory_limit_bytes = 4096,
                                        .max_execs = 16};
    struct atoll_error err = {0};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)!atoll_agent_run(&config, &err);
    (void)fprintf(stderr, "agent: %s\n", err.text);
    _exit(1);
}

/* oom_fd: a file that plays the cgroup's counter, or ATOLL_NO_FD. */
static inline void client_start_with(struct agent_client *c, int oom_fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd;

    *c = (struct agent_client){.acks = true, .ch.fd = ATOLL_NO_FD};
    /* In memory where possible: some tests make tens of thousands of files. */
    (void)snprintf(c->dir, sizeof(c->dir), "%s/atoll-test-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(c->dir));
    assert_int_equal(chmod(c->dir, 0777), 0);
    (void)snprintf(c->path, sizeof(c->path), "%s/.agent", c->dir);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", c->path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    c->frames = calloc(CLIENT_FRAMES_MAX, sizeof(*c->frames));
    assert_non_null(c->frames);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0)
        client_agent_main(c, fd, oom_fd);
    (void)close(fd);
}

static inline void client_start(struct agent_client *c)
{
    client_start_with(c, ATOLL_NO_FD);
}

static inline void client_free_frames(struct agent_client *c)
{
    for (size_t i = 0; i < c->frame_count; i++) {
        free(c->frames[i].payload);
        if (c->frames[i].fd >= 0)
            (void)close(c->frames[i].fd);
    }
    c->frame_count = 0;
}

static inline void client_drop(struct agent_client *c)
{
    if (c->connected)
        atoll_channel_done(&c->ch);
    c->connected = false;
    client_free_frames(c);
}

/* Kills the children the agent has now; those of theirs become its children. False: there were
 * none. */
static inline bool client_kill_children(const struct agent_client *c)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "pkill -KILL -P %d", c->pid);
    return system(command) == 0;
}

static inline void client_stop(struct agent_client *c)
{
    char command[96];

    client_drop(c);
    for (int i = 0; i < 50 && client_kill_children(c); i++)
        (void)usleep(5 * 1000);
    (void)kill(c->pid, SIGKILL);
    (void)waitpid(c->pid, NULL, 0);
    free(c->frames);
    (void)snprintf(command, sizeof(command), "rm -rf %s", c->dir);
    assert_int_equal(system(command), 0);
}

static inline int client_keep(void *arg, struct atoll_frame *frame)
{
    struct agent_client *c = arg;
    struct kept_frame *k = &c->frames[c->frame_count++];

    assert_true(c->frame_count < CLIENT_FRAMES_MAX);
    *k = (struct kept_frame){.type = frame->type, .id = frame->id, .len = frame->len, .fd = -1};
    k->payload = malloc(frame->len + 1);
    assert_non_null(k->payload);
    memcpy(k->payload, frame->payload, frame->len);
    assert_true(frame->nfds <= 1);
    if (frame->nfds == 1)
        k->fd = frame->fds[0];
    return 0;
}

static inline void client_flush(struct agent_client *c)
{
    while (atoll_channel_flush(&c->ch) == 0) {
        struct pollfd p = {.fd = c->ch.fd, .events = POLLOUT};
        assert_int_equal(poll(&p, 1, CLIENT_WAIT_MS), 1);
    }
}

/* Receives what comes within the time. False: nothing came. -EPIPE and the like end the client. */
static inline bool client_receive(struct agent_client *c, int timeout_ms)
{
    struct pollfd p = {.fd = c->ch.fd, .events = POLLIN};

    if (poll(&p, 1, timeout_ms) == 0)
        return false;
    if (atoll_channel_receive(&c->ch, client_keep, c) < 0)
        client_drop(c);
    return true;
}

static inline uint32_t client_send(struct agent_client *c, uint16_t type,
                                   const struct atoll_msg_desc *desc, const void *msg)
{
    assert_int_equal(atoll_channel_send(&c->ch, type, ++c->last_id, desc, msg, NULL, 0), 0);
    client_flush(c);
    return c->last_id;
}

/* Takes the first kept frame with this id (and, for events, type) out of the queue. */
static inline bool client_take(struct agent_client *c, uint32_t id, uint16_t type,
                               struct kept_frame *ret)
{
    for (size_t i = 0; i < c->frame_count; i++)
        if (c->frames[i].id == id && (type == 0 || c->frames[i].type == type)) {
            *ret = c->frames[i];
            memmove(c->frames + i, c->frames + i + 1,
                    (c->frame_count - i - 1) * sizeof(*c->frames));
            c->frame_count--;
            return true;
        }
    return false;
}

static inline struct kept_frame client_wait(struct agent_client *c, uint32_t id, uint16_t type)
{
    int64_t until = atoll_clock_ms() + CLIENT_WAIT_MS;
    struct kept_frame k;

    while (!client_take(c, id, type, &k)) {
        assert_true(c->connected);
        assert_true(client_receive(c, (int)(until - atoll_clock_ms())));
        assert_true(atoll_clock_ms() < until);
    }
    return k;
}

static inline void kept_done(struct kept_frame *k)
{
    free(k->payload);
    if (k->fd >= 0)
        (void)close(k->fd);
}

/* Sends a request and expects REPLY; *reply is decoded by reply_desc and borrows from *ret_frame. */
static inline void client_call(struct agent_client *c, uint16_t type,
                               const struct atoll_msg_desc *desc, const void *msg,
                               const struct atoll_msg_desc *reply_desc, void *reply,
                               struct kept_frame *ret_frame)
{
    struct kept_frame k = client_wait(c, client_send(c, type, desc, msg), 0);

    if (k.type == ATOLL_AGENT_ERROR) {
        struct atoll_am_error e;
        assert_int_equal(atoll_msg_decode(&atoll_am_error_desc, k.payload, k.len, &e, NULL), 0);
        fail_msg("request %u failed: %s", type, e.text);
    }
    assert_int_equal(k.type, ATOLL_AGENT_REPLY);
    if (reply_desc)
        assert_int_equal(atoll_msg_decode(reply_desc, k.payload, k.len, reply, NULL), 0);
    if (ret_frame)
        *ret_frame = k;
    else
        kept_done(&k);
}

/* Sends a request and expects ERROR of this kind whose text contains `text`. */
static inline void client_call_fails(struct agent_client *c, uint16_t type,
                                     const struct atoll_msg_desc *desc, const void *msg,
                                     enum atoll_error_kind kind, const char *text)
{
    struct kept_frame k = client_wait(c, client_send(c, type, desc, msg), 0);
    struct atoll_am_error e;

    assert_int_equal(k.type, ATOLL_AGENT_ERROR);
    assert_int_equal(atoll_msg_decode(&atoll_am_error_desc, k.payload, k.len, &e, NULL), 0);
    if (!strstr(e.text, text))
        fail_msg("expected \"%s\" in \"%s\"", text, e.text);
    if ((int)e.kind != (int)kind)
        fail_msg("%s: kind %u instead of %u", e.text, e.kind, kind);
    kept_done(&k);
}

/* Connects, without HELLO. */
static inline void client_connect_raw(struct agent_client *c)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    client_drop(c);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", c->path);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        fail_msg("connect to the agent, process %d: %s; it is %s", c->pid, strerror(errno),
                 kill(c->pid, 0) < 0 ? "gone" : "there");
    assert_int_equal(atoll_channel_init(&c->ch, fd, 64 * 1024 * 1024), 0);
    c->connected = true;
}

static inline struct atoll_am_hello client_connect(struct agent_client *c)
{
    struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION,
                                   .features = ATOLL_AGENT_FEATURE_FDS};
    struct atoll_am_hello reply;

    client_connect_raw(c);
    client_call(c, ATOLL_AGENT_HELLO, &atoll_am_hello_desc, &hello, &atoll_am_hello_desc, &reply,
                NULL);
    assert_int_equal(reply.version, ATOLL_AGENT_VERSION);
    return reply;
}

/* A started agent with a greeted client: the fixture of most tests. */
static inline int client_setup(void **state)
{
    struct agent_client *c = calloc(1, sizeof(*c));

    client_start(c);
    (void)client_connect(c);
    *state = c;
    return 0;
}

static inline int client_teardown(void **state)
{
    client_stop(*state);
    free(*state);
    return 0;
}

static inline struct atoll_am_exec_start client_command(uint64_t exec, const char *const *argv)
{
    struct atoll_am_exec_start msg = {.exec = exec};

    /* The agent only reads them. */
    msg.argv.items = (const char **)(uintptr_t)argv;
    while (argv[msg.argv.len])
        msg.argv.len++;
    return msg;
}
#define CLIENT_ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CLIENT_SH(script) CLIENT_ARGV("sh", "-c", script)

static inline uint32_t client_exec(struct agent_client *c, const struct atoll_am_exec_start *msg)
{
    struct atoll_am_exec_started started;

    client_call(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, msg,
                &atoll_am_exec_started_desc, &started, NULL);
    assert_true(started.pid > 0);
    return started.pid;
}

static inline void client_ack(struct agent_client *c, uint64_t exec, uint8_t stream,
                              uint64_t offset)
{
    struct atoll_am_ack ack = {.exec = exec, .stream = stream, .offset = offset};
    (void)client_send(c, ATOLL_AGENT_EXEC_ACK, &atoll_am_ack_desc, &ack);
}

/* Takes an OUTPUT event in: it must continue exactly where the stream is. */
static inline void client_collect(struct agent_client *c, struct run_result *r,
                                  struct kept_frame *k)
{
    struct atoll_am_output o;
    struct atoll_buf *to;

    assert_int_equal(atoll_msg_decode(&atoll_am_output_desc, k->payload, k->len, &o, NULL), 0);
    to = o.stream == ATOLL_STREAM_STDOUT ? &r->out : &r->err;
    assert_int_equal(o.offset, atoll_buf_size(to));
    assert_int_equal(atoll_buf_append(to, o.data.data, o.data.len), 0);
    if (c->acks)
        client_ack(c, o.exec, o.stream, o.offset + o.data.len);
}

static inline void run_result_init(struct run_result *r)
{
    *r = (struct run_result){0};
    atoll_buf_init(&r->out, 256 * 1024 * 1024);
    atoll_buf_init(&r->err, 256 * 1024 * 1024);
}

static inline void run_result_done(struct run_result *r)
{
    atoll_buf_done(&r->out);
    atoll_buf_done(&r->err);
}

/* Waits for EXIT, collecting output. There may be only this one command. */
static inline void client_wait_exit(struct agent_client *c, struct run_result *r)
{
    int64_t until = atoll_clock_ms() + CLIENT_WAIT_MS;
    struct kept_frame k;

    for (;;) {
        if (client_take(c, 0, ATOLL_AGENT_EXEC_OUTPUT, &k)) {
            client_collect(c, r, &k);
            kept_done(&k);
        } else if (client_take(c, 0, ATOLL_AGENT_EXEC_EXIT, &k)) {
            break;
        } else {
            assert_true(c->connected);
            assert_true(client_receive(c, (int)(until - atoll_clock_ms())));
        }
    }
    assert_int_equal(atoll_msg_decode(&atoll_am_exit_desc, k.payload, k.len, &r->exit, NULL), 0);
    (void)snprintf(r->who, sizeof(r->who), "%s", r->exit.who);
    (void)snprintf(r->oom_process, sizeof(r->oom_process), "%s", r->exit.oom_process);
    assert_int_equal(r->exit.stdout_bytes, atoll_buf_size(&r->out));
    assert_int_equal(r->exit.stderr_bytes, atoll_buf_size(&r->err));
    kept_done(&k);
}

static inline void client_forget(struct agent_client *c, uint64_t exec)
{
    struct atoll_am_exec_ref ref = {.exec = exec};
    (void)client_send(c, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc, &ref);
}

/* Runs a command to its end and forgets it. */
static inline void client_run(struct agent_client *c, const struct atoll_am_exec_start *msg,
                              struct run_result *r)
{
    run_result_init(r);
    (void)client_exec(c, msg);
    client_wait_exit(c, r);
    client_forget(c, msg->exec);
}

/* Runs a shell script as the default user and expects exit status 0 and exactly this output. */
static inline void client_expect(struct agent_client *c, const char *script, const char *output)
{
    struct atoll_am_exec_start msg = client_command(999, CLIENT_SH(script));
    struct run_result r;

    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.err), "");
    assert_string_equal(atoll_buf_str(&r.out), output);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    assert_int_equal(r.exit.code, 0);
    run_result_done(&r);
}
