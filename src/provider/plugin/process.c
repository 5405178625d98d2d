/*
 * How it works: a thread reads the program's output and delivers each answer to the call with its
 * number. A call writes its line, then waits for its answer, its deadline or its cancellation. The
 * end of the program's output fails all waiting calls; the next call starts the program again, at
 * most once in RESTART_MS.
 */
#include "provider/plugin/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "sys/thread.h"

#define LINE_MAX_BYTES ((size_t)1024 * 1024)
#define FDS_MAX 16      /* received, but not yet claimed by an answer */
#define SEND_SECONDS 10 /* a program that reads nothing for this long is ended */
#define RESTART_MS 1000
#define GRACE_MS 2000

/* A request that waits for its answer. */
struct pending {
    struct atoll_list node;
    uint64_t number;
    unsigned start; /* number of the program's start; 0: it has ended */
    int wake_fd;    /* an eventfd */
    json_t *answer; /* the whole line, owned; NULL: no answer */
    int fd;         /* owned */
    const struct atoll_sync_call *call;
};

struct atoll_plugin_process {
    char *program;            /* owned */
    json_t *hello;            /* owned */
    pthread_mutex_t starting; /* held while the program is started or ended */
    pthread_mutex_t sending;  /* held while a line is written */
    pthread_mutex_t lock;     /* guards the other members */
    struct atoll_list waiting;
    uint64_t next_number;
    bool up; /* the program's output has not ended */
    /* Of the last started program; changed with `starting` held. */
    bool has_reader;
    pthread_t reader;
    pid_t pid;
    int64_t started_ms;
    /* The same, changed with `sending` held too. */
    int fd;
    unsigned start; /* number of starts so far */
};

/* The program. */

static int spawn_program(struct atoll_plugin_process *p, int *ret_fd, pid_t *ret_pid,
                         struct atoll_error *err)
{
    const struct timeval patience = {.tv_sec = SEND_SECONDS};
    char *argv[] = {p->program, NULL};
    char *envp[] = {(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    NULL};
    posix_spawn_file_actions_t actions;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "socket of a plugin");
    (void)posix_spawn_file_actions_init(&actions);
    r = posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn(ret_pid, p->program, &actions, NULL, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(pair[1]);
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    *ret_fd = pair[0];
    if (r == 0)
        return 0;
    (void)close(pair[0]);
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, r, "the plugin's program cannot be started: %s",
                      strerror(r));
}

/* After its input was closed the program has a moment to end by itself. */
static void reap(pid_t pid)
{
    int64_t until = atoll_clock_ms() + GRACE_MS;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (atoll_clock_ms() >= until)
            (void)kill(pid, SIGKILL);
        (void)poll(NULL, 0, 5);
    }
}

/* Sends one line. False if the program does not read it. */
static bool send_line(int fd, const json_t *message)
{
    char *line = json_dumps(message, JSON_COMPACT);
    size_t len = line ? strlen(line) : 0, sent = 0;
    ssize_t n = 1;

    if (line)
        line[len++] = '\n'; /* replaces the NUL */
    while (sent < len && n > 0) {
        do
            n = send(fd, line + sent, len - sent, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        sent += n > 0 ? (size_t)n : 0;
    }
    free(line);
    return len > 0 && sent == len;
}

/* Answers. */

struct reading {
    int fd; /* borrowed */
    struct atoll_buf bytes;
    size_t searched; /* bytes already searched for a newline */
    int fds[FDS_MAX];
    size_t fd_count;
};

static void reading_init(struct reading *r, int fd)
{
    *r = (struct reading){.fd = fd};
    atoll_buf_init(&r->bytes, LINE_MAX_BYTES + 65536);
}

static void reading_done(struct reading *r)
{
    for (size_t i = 0; i < r->fd_count; i++)
        (void)close(r->fds[i]);
    atoll_buf_done(&r->bytes);
}

static void keep_fd(struct reading *r, int fd)
{
    struct stat st;

    if (r->fd_count < FDS_MAX && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
        r->fds[r->fd_count++] = fd;
    else
        (void)close(fd);
}

/* The descriptor received first. */
static int claim_fd(struct reading *r)
{
    int fd = r->fd_count > 0 ? r->fds[0] : ATOLL_NO_FD;

    if (r->fd_count > 0)
        memmove(r->fds, r->fds + 1, --r->fd_count * sizeof(r->fds[0]));
    return fd;
}

/* Waits for more bytes. False at the end of the stream, or if a line is too long. */
static bool read_more(struct reading *r)
{
    int fds[ATOLL_FD_PASS_MAX];
    char bytes[16384];
    size_t n_fds = 0;
    ssize_t n = atoll_fd_recv(r->fd, bytes, sizeof(bytes), fds, &n_fds);

    for (size_t i = 0; n >= 0 && i < n_fds; i++)
        keep_fd(r, fds[i]);
    return n > 0 && atoll_buf_size(&r->bytes) <= LINE_MAX_BYTES &&
           atoll_buf_append(&r->bytes, bytes, (size_t)n) == 0;
}

/* The next complete line as an object, or NULL if there is none yet. Lines that are not objects
 * are dropped. */
static json_t *next_line(struct reading *r)
{
    const char *head;
    const char *end;
    json_t *line = NULL;

    while (!line && atoll_buf_size(&r->bytes) > 0) {
        head = (const char *)atoll_buf_head(&r->bytes);
        end = memchr(head + r->searched, '\n', atoll_buf_size(&r->bytes) - r->searched);
        r->searched = end ? 0 : atoll_buf_size(&r->bytes);
        if (!end)
            return NULL;
        line = json_loadb(head, (size_t)(end - head), 0, NULL);
        if (!json_is_object(line)) {
            json_decref(line);
            line = NULL;
        }
        atoll_buf_consume(&r->bytes, (size_t)(end - head) + 1);
    }
    return line;
}

/* On the reader thread. line: ownership passes. */
static void give_answer(struct atoll_plugin_process *p, struct reading *r, json_t *line)
{
    uint64_t number = (uint64_t)json_integer_value(json_object_get(line, "id"));
    const char *progress = json_string_value(json_object_get(line, "progress"));
    bool has_fd = json_is_true(json_object_get(json_object_get(line, "result"), "fd"));
    int fd = has_fd ? claim_fd(r) : ATOLL_NO_FD;

    (void)pthread_mutex_lock(&p->lock);
    ATOLL_LIST_FOREACH (&p->waiting, node) {
        struct pending *w = ATOLL_CONTAINER_OF(node, struct pending, node);
        if (w->number != number)
            continue;
        if (progress) {
            atoll_sync_say(w->call, progress);
        } else {
            w->answer = json_incref(line);
            w->fd = ATOLL_TAKE_FD(fd);
            atoll_list_remove(&w->node);
            (void)eventfd_write(w->wake_fd, 1);
        }
        break;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (fd >= 0) /* the call has ended without it */
        (void)close(fd);
    json_decref(line);
}

static void *read_answers(void *arg)
{
    struct atoll_plugin_process *p = arg;
    struct reading r;
    json_t *line;

    atoll_thread_enter();
    reading_init(&r, p->fd);
    do
        while ((line = next_line(&r)) != NULL)
            give_answer(p, &r, line);
    while (read_more(&r));
    reading_done(&r);
    (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_mutex_lock(&p->lock);
    p->up = false;
    ATOLL_LIST_FOREACH (&p->waiting, node) {
        atoll_list_remove(node);
        (void)eventfd_write(ATOLL_CONTAINER_OF(node, struct pending, node)->wake_fd, 1);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void close_socket(struct atoll_plugin_process *p)
{
    (void)pthread_mutex_lock(&p->sending);
    (void)close(p->fd);
    p->fd = ATOLL_NO_FD;
    (void)pthread_mutex_unlock(&p->sending);
}

static void set_up(struct atoll_plugin_process *p, bool up)
{
    (void)pthread_mutex_lock(&p->lock);
    p->up = up;
    (void)pthread_mutex_unlock(&p->lock);
}

/* With `starting` held: cleans up after a program whose output has ended, or ends it. */
static void end_program(struct atoll_plugin_process *p)
{
    if (!p->has_reader)
        return;
    (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_join(p->reader, NULL);
    close_socket(p);
    reap(p->pid);
    p->has_reader = false;
}

static int start_program(struct atoll_plugin_process *p, struct atoll_error *err)
{
    int64_t left = p->started_ms + RESTART_MS - atoll_clock_ms();
    int r, fd;

    end_program(p);
    if (p->started_ms && left > 0) {
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN, "the plugin's program has ended");
        err->retry_ms = (int)left;
        return r;
    }
    p->started_ms = atoll_clock_ms();
    r = spawn_program(p, &fd, &p->pid, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&p->sending);
    p->fd = fd;
    p->start++;
    (void)pthread_mutex_unlock(&p->sending);
    set_up(p, true);
    r = pthread_create(&p->reader, NULL, read_answers, p);
    p->has_reader = r == 0;
    if (r != 0) {
        set_up(p, false);
        close_socket(p);
        reap(p->pid);
        return atoll_fail_errno(err, r, "thread of a plugin");
    }
    return 0;
}

/* Requests. */

static void number_line(struct atoll_plugin_process *p, struct pending *w, json_t *request)
{
    (void)pthread_mutex_lock(&p->lock);
    w->number = ++p->next_number;
    (void)json_object_set_new(request, "id", json_integer((json_int_t)w->number));
    if (p->up) {
        w->start = p->start;
        atoll_list_push_back(&p->waiting, &w->node);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

/* Sends only to the start of the program that the request is for. */
static bool transmit(struct atoll_plugin_process *p, unsigned start, const json_t *message)
{
    bool sent;

    (void)pthread_mutex_lock(&p->sending);
    sent = p->fd >= 0 && p->start == start && send_line(p->fd, message);
    if (!sent && p->fd >= 0 && p->start == start) /* half a line may have been sent */
        (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&p->sending);
    return sent;
}

/* The result is not needed any more; the program may abort the operation. */
static void withdraw(struct atoll_plugin_process *p, struct pending *w)
{
    json_t *message = json_pack("{sI}", "cancel", (json_int_t)w->number);

    (void)pthread_mutex_lock(&p->lock);
    atoll_list_remove(&w->node);
    (void)pthread_mutex_unlock(&p->lock);
    if (message && !w->answer)
        (void)!transmit(p, w->start, message);
    json_decref(message);
}

static int await(struct atoll_plugin_process *p, struct pending *w,
                 const struct atoll_sync_call *call, struct atoll_error *err)
{
    struct pollfd fds[] = {{.fd = w->wake_fd, .events = POLLIN},
                           {.fd = call->cancel_fd, .events = POLLIN}};
    int n;

    do
        n = poll(fds, 2, atoll_sync_left_ms(call));
    while (n < 0 && errno == EINTR);
    if (fds[0].revents)
        return 0;
    withdraw(p, w);
    if (w->answer) /* the answer came meanwhile */
        return 0;
    if (n == 0)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "the plugin did not answer in time");
    return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was canceled");
}

/* The error that the program reports. */
static int refuse(const json_t *error, struct atoll_error *err)
{
    const char *name = json_string_value(json_object_get(error, "kind"));
    const char *text = json_string_value(json_object_get(error, "message"));
    enum atoll_error_kind kind = name ? atoll_error_kind_by_name(name) : ATOLL_ERR_NONE;
    json_int_t retry_ms = json_integer_value(json_object_get(error, "retry_ms"));
    int r = atoll_fail(err, kind == ATOLL_ERR_NONE ? ATOLL_ERR_INTERNAL : kind, EIO, "%s",
                       text ? text : "the plugin gave no reason");

    err->retry_ms = retry_ms > 0 && retry_ms < 3600000 ? (int)retry_ms : 0;
    return r;
}

static int take_result(json_t *line, json_t **ret_answer, struct atoll_error *err)
{
    json_t *result = json_object_get(line, "result");

    if (!line)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "the plugin's program ended before it answered");
    if (json_object_get(line, "error"))
        return refuse(json_object_get(line, "error"), err);
    if (!json_is_object(result))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the plugin answered neither \"result\" nor \"error\"");
    *ret_answer = json_incref(result);
    return 0;
}

/* request is borrowed. */
static int exchange(struct atoll_plugin_process *p, const struct atoll_sync_call *call,
                    json_t *request, json_t **ret_answer, int *ret_fd, struct atoll_error *err)
{
    struct pending w = {.fd = ATOLL_NO_FD, .call = call, .wake_fd = eventfd(0, EFD_CLOEXEC)};
    int r;

    if (w.wake_fd < 0)
        return atoll_fail_errno(err, errno, "ask a plugin");
    number_line(p, &w, request);
    if (transmit(p, w.start, request)) {
        r = await(p, &w, call, err);
    } else {
        withdraw(p, &w);
        r = 0; /* take_result() reports that there is no answer */
    }
    if (r == 0)
        r = take_result(w.answer, ret_answer, err);
    if (r == 0 && ret_fd)
        *ret_fd = ATOLL_TAKE_FD(w.fd);
    if (w.fd >= 0)
        (void)close(w.fd);
    json_decref(w.answer);
    (void)close(w.wake_fd);
    return r;
}

/* Starts the program if it is not running. */
static int need_program(struct atoll_plugin_process *p, const struct atoll_sync_call *call,
                        struct atoll_error *err)
{
    json_t *answer = NULL;
    bool up;
    int r = 0;

    (void)pthread_mutex_lock(&p->starting);
    (void)pthread_mutex_lock(&p->lock);
    up = p->up;
    (void)pthread_mutex_unlock(&p->lock);
    if (!up) {
        r = start_program(p, err);
        if (r == 0)
            r = exchange(p, call, p->hello, &answer, NULL, err);
        json_decref(answer);
    }
    (void)pthread_mutex_unlock(&p->starting);
    return r;
}

int atoll_plugin_ask(struct atoll_plugin_process *p, const struct atoll_sync_call *call,
                     json_t *request, json_t **ret_answer, int *ret_fd, struct atoll_error *err)
{
    int r = request ? need_program(p, call, err) : atoll_fail_errno(err, ENOMEM, "ask a plugin");

    if (r == 0)
        r = exchange(p, call, request, ret_answer, ret_fd, err);
    json_decref(request);
    return r;
}

/* Without a thread: this runs before the daemon drops its privileges, and an existing thread
 * would keep them. */
int atoll_plugin_describe(struct atoll_plugin_process *p, int timeout_ms, json_t **ret_answer,
                          struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + timeout_ms, left;
    struct pollfd pfd = {.events = POLLIN};
    struct reading reading;
    json_t *line = NULL;
    pid_t pid;
    int r = spawn_program(p, &pfd.fd, &pid, err);

    if (r < 0)
        return r;
    reading_init(&reading, pfd.fd);
    (void)json_object_set_new(p->hello, "id", json_integer(0));
    if (send_line(pfd.fd, p->hello))
        while ((left = until - atoll_clock_ms()) > 0 && poll(&pfd, 1, (int)left) > 0 &&
               read_more(&reading) && !(line = next_line(&reading)))
            ;
    r = take_result(line, ret_answer, err);
    json_decref(line);
    reading_done(&reading);
    (void)close(pfd.fd);
    reap(pid);
    return r;
}

int atoll_plugin_process_new(const char *program, json_t *hello, struct atoll_plugin_process **ret,
                             struct atoll_error *err)
{
    struct atoll_plugin_process *p = calloc(1, sizeof(*p));

    if (!p || !hello || !(p->program = strdup(program))) {
        free(p);
        json_decref(hello);
        return atoll_fail_errno(err, ENOMEM, "plugin");
    }
    p->hello = hello;
    p->fd = ATOLL_NO_FD;
    atoll_list_init(&p->waiting);
    (void)pthread_mutex_init(&p->starting, NULL);
    (void)pthread_mutex_init(&p->sending, NULL);
    (void)pthread_mutex_init(&p->lock, NULL);
    *ret = p;
    return 0;
}

struct atoll_plugin_process *atoll_plugin_process_free(struct atoll_plugin_process *p)
{
    if (!p)
        return NULL;
    end_program(p);
    (void)pthread_mutex_destroy(&p->starting);
    (void)pthread_mutex_destroy(&p->sending);
    (void)pthread_mutex_destroy(&p->lock);
    json_decref(p->hello);
    free(p->program);
    free(p);
    return NULL;
}
