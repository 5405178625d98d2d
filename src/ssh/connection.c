#include "ssh/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/self.h"
#include "ssh/ssh.h"

#define OVERFLOW_ID 65534  /* what the kernel shows for unmapped ids; owns no files */
#define UNKNOWN_SECONDS 30 /* how long a client may take to authenticate */
#define TRIES_MAX 4
#define WRONG_MS 1000 /* pause after a wrong token */
#define WAIT_MS 1000
#define TICK_MS 30000
#define CHECK_MS 10000     /* whether the token still holds */
#define REQUEST_MS 30000   /* how long the daemon may take for an answer */
#define BEFORE_END_MS 1000 /* commands are told before the token ends */
#define MEMORY_MAX (512u << 20)
#define FILES_MAX 256
#define METHODS                                                                    \
    (SSH_AUTH_METHOD_NONE | SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_PUBLICKEY | \
     SSH_AUTH_METHOD_INTERACTIVE)

struct connection {
    struct atoll_ssh_link link;
    struct ssh_server_callbacks_struct callbacks;
    struct atoll_ssh_channel *channels[ATOLL_SSH_CHANNELS_MAX]; /* owned */
    size_t count;
    const char *peer;
    unsigned tries;
    bool authenticated, ended;
    int64_t ends_ms, checked_ms, ticked_ms;
};

/* Privileges. */

/* As in egress/worker.c: without CAP_SETUID, since a confined daemon started us, it stays as it is. */
static int leave_root(struct atoll_error *err)
{
    if (geteuid() != 0 || setgroups(0, NULL) < 0)
        return 0;
    if (setresgid(OVERFLOW_ID, OVERFLOW_ID, OVERFLOW_ID) < 0 ||
        setresuid(OVERFLOW_ID, OVERFLOW_ID, OVERFLOW_ID) < 0)
        return atoll_fail_errno(err, errno, "become an unprivileged user");
    return 0;
}

static int confine(struct atoll_error *err)
{
    const struct rlimit files = {FILES_MAX, FILES_MAX}, memory = {MEMORY_MAX, MEMORY_MAX};
    int r = leave_root(err);

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it has the host key in memory */
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (!ATOLL_IS_SANITIZED)
        (void)setrlimit(RLIMIT_AS, &memory);
    return r < 0 ? r : atoll_self_confine(err);
}

/* Authentication. */

/* Nothing that could not be in a header; the daemon looks it up. */
static bool is_token(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n < sizeof(((struct atoll_ssh_link *)NULL)->token) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* Fills the sandbox and the end of the token. UNAUTHENTICATED, PERMISSION_DENIED, UNAVAILABLE. */
static int ask_daemon(struct connection *c, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_link_call(c->link.client, "GET", "/api/sandbox-token", NULL, &reply, err);
    const char *id;

    if (r < 0)
        return r;
    id = atoll_link_text(reply, "sandbox_id", "");
    r = atoll_link_check_id("sandbox", id, err);
    if (r < 0)
        return r;
    (void)snprintf(c->link.sandbox_id, sizeof(c->link.sandbox_id), "%s", id);
    c->ends_ms = atoll_clock_ms() +
                 (int64_t)atoll_link_number(reply, "expires_in_seconds", 0) * 1000 - BEFORE_END_MS;
    c->checked_ms = atoll_clock_ms();
    return 0;
}

static void explain(struct connection *c, const char *text)
{
    ssh_string banner = ssh_string_from_char(text);

    if (banner)
        (void)ssh_send_issue_banner(c->link.session, banner);
    ssh_string_free(banner);
}

static bool try_token(struct connection *c, const char *user)
{
    struct atoll_error err;
    int r = -EACCES;

    if (c->authenticated)
        return false;
    if (is_token(user)) {
        (void)snprintf(c->link.token, sizeof(c->link.token), "%s", user);
        r = atoll_link_set_key(c->link.client, user, &err);
        if (r == 0)
            r = ask_daemon(c, &err);
        if (r < 0 && err.kind == ATOLL_ERR_UNAVAILABLE)
            explain(c, "The daemon does not answer. Try again in a moment.\n");
    }
    if (r < 0) {
        if (c->tries++ == 0)
            explain(
                c,
                "The user name must be a valid token of a sandbox (POST /api/sandboxes/ID/ssh).\n");
        atoll_log(ATOLL_LOG_WARN, "SSH client refused", "peer", c->peer, NULL);
        (void)poll(NULL, 0, WRONG_MS);
        c->ended = c->tries >= TRIES_MAX;
        return false;
    }
    c->authenticated = true;
    return true;
}

static int on_none(ssh_session session ATOLL_UNUSED, const char *user, void *arg)
{
    return try_token(arg, user) ? SSH_AUTH_SUCCESS : SSH_AUTH_DENIED;
}

static int on_password(ssh_session session ATOLL_UNUSED, const char *user,
                       const char *password ATOLL_UNUSED, void *arg)
{
    return try_token(arg, user) ? SSH_AUTH_SUCCESS : SSH_AUTH_DENIED;
}

static int on_key(ssh_session session ATOLL_UNUSED, const char *user, ssh_key key ATOLL_UNUSED,
                  char state ATOLL_UNUSED, void *arg)
{
    return try_token(arg, user) ? SSH_AUTH_SUCCESS : SSH_AUTH_DENIED;
}

/* Channels. */

static ssh_channel on_session(ssh_session session ATOLL_UNUSED, void *arg)
{
    struct connection *c = arg;
    struct atoll_ssh_channel *channel = NULL;

    if (c->authenticated && c->count < ATOLL_SSH_CHANNELS_MAX)
        channel = atoll_ssh_session_new(&c->link);
    if (!channel)
        return NULL;
    c->channels[c->count++] = channel;
    return channel->channel;
}

/* 1: libssh refuses it. */
static int forward(struct connection *c, ssh_message message)
{
    struct atoll_ssh_channel *channel = NULL;

    if (c->authenticated && c->count < ATOLL_SSH_CHANNELS_MAX)
        channel = atoll_ssh_forward_new(&c->link, message);
    if (!channel)
        return 1;
    c->channels[c->count++] = channel;
    return 0;
}

static int on_message(ssh_session session ATOLL_UNUSED, ssh_message message, void *arg)
{
    struct connection *c = arg;

    if (ssh_message_type(message) == SSH_REQUEST_CHANNEL_OPEN &&
        ssh_message_subtype(message) == SSH_CHANNEL_DIRECT_TCPIP)
        return forward(c, message);
    if (ssh_message_type(message) == SSH_REQUEST_AUTH &&
        ssh_message_subtype(message) == SSH_AUTH_METHOD_INTERACTIVE &&
        try_token(c, ssh_message_auth_user(message))) {
        (void)ssh_message_auth_reply_success(message, 0);
        return 0;
    }
    return 1;
}

static int on_ready(socket_t fd ATOLL_UNUSED, int events ATOLL_UNUSED, void *arg ATOLL_UNUSED)
{
    return 0; /* it only ends the wait: every channel is looked at after each */
}

/* 0: the bytes stay with libssh, and in its window, until atoll_ssh_read(). */
static int on_data(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                   void *bytes ATOLL_UNUSED, uint32_t n, int is_stderr, void *arg)
{
    struct atoll_ssh_channel *c = arg;

    if (is_stderr)
        return (int)n; /* clients have no such stream */
    c->unread = n;
    return 0;
}

static void on_eof(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED, void *arg)
{
    struct atoll_ssh_channel *c = arg;

    c->ended = true;
}

void atoll_ssh_listen(struct atoll_ssh_channel *c)
{
    c->callbacks.userdata = c;
    c->callbacks.channel_data_function = on_data;
    c->callbacks.channel_eof_function = on_eof;
    ssh_callbacks_init(&c->callbacks);
    (void)ssh_set_channel_callbacks(c->channel, &c->callbacks);
}

int atoll_ssh_read(struct atoll_ssh_channel *c, uint8_t *bytes, size_t cap)
{
    uint32_t most = (uint32_t)ATOLL_MIN((size_t)c->unread, cap);
    int n = most > 0 ? ssh_channel_read_nonblocking(c->channel, bytes, most, 0) : 0;

    c->unread = n > 0 ? c->unread - (uint32_t)n : 0;
    return n > 0 ? n : c->ended ? -1 : 0;
}

void atoll_ssh_watch(struct atoll_ssh_channel *c, int fd, short events)
{
    if (events == 0)
        fd = ATOLL_NO_FD;
    if (fd == c->fd && events == c->events)
        return;
    if (c->fd >= 0)
        (void)ssh_event_remove_fd(c->link->event, c->fd);
    c->fd = ATOLL_NO_FD;
    c->events = events;
    if (fd >= 0 && ssh_event_add_fd(c->link->event, fd, events, on_ready, NULL) == SSH_OK)
        c->fd = fd;
}

size_t atoll_ssh_room(const struct atoll_ssh_channel *c)
{
    size_t window;

    if (ssh_get_poll_flags(c->link->session) & SSH_WRITE_PENDING)
        return 0;
    window = ssh_channel_window_size(c->channel);
    return ATOLL_MIN(window, ATOLL_SSH_PIECE);
}

static void drop_channel(struct connection *c, size_t i)
{
    struct atoll_ssh_channel *channel = c->channels[i];
    ssh_channel theirs = channel->channel;

    c->channels[i] = c->channels[--c->count];
    (void)ssh_remove_channel_callbacks(theirs, &channel->callbacks);
    channel->free(channel);
    (void)ssh_channel_close(theirs);
    ssh_channel_free(theirs);
}

static void pump_channels(struct connection *c)
{
    for (size_t i = 0; i < c->count;) {
        struct atoll_ssh_channel *channel = c->channels[i];
        bool gone = ssh_channel_is_closed(channel->channel);

        if (gone && channel->hang_up)
            channel->hang_up(channel);
        if (gone || !channel->pump(channel))
            drop_channel(c, i);
        else
            i++;
    }
}

/* The loop. */

/* Every command is told that the client has left; it is the daemon that ends a command which goes on. */
static void hang_up(struct connection *c)
{
    while (c->count > 0) {
        if (c->channels[0]->hang_up)
            c->channels[0]->hang_up(c->channels[0]);
        drop_channel(c, 0);
    }
}

static void check_time(struct connection *c)
{
    struct atoll_error err;
    int64_t now = atoll_clock_ms();

    if (now >= c->ends_ms)
        c->ended = true;
    if (now - c->checked_ms >= CHECK_MS) {
        c->checked_ms = now;
        if (ask_daemon(c, &err) < 0 && err.kind != ATOLL_ERR_UNAVAILABLE)
            c->ended = true;
    }
    if (now - c->ticked_ms < TICK_MS)
        return;
    c->ticked_ms = now;
    for (size_t i = 0; i < c->count; i++)
        if (c->channels[i]->tick)
            c->channels[i]->tick(c->channels[i]);
}

static bool is_ready(const struct connection *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->channels[i]->is_ready(c->channels[i]))
            return true;
    return false;
}

static void run(struct connection *c)
{
    while (!c->ended && ssh_is_connected(c->link.session)) {
        pump_channels(c);
        if (ssh_event_dopoll(c->link.event, is_ready(c) ? 0 : WAIT_MS) == SSH_ERROR)
            break;
        check_time(c);
    }
    hang_up(c);
}

static bool authenticate(struct connection *c)
{
    while (!c->authenticated && !c->ended && ssh_is_connected(c->link.session))
        if (ssh_event_dopoll(c->link.event, -1) == SSH_ERROR)
            return false;
    return c->authenticated;
}

/* Opening. */

static int open_session(struct connection *c, struct atoll_ssh_accepted *a, struct atoll_error *err)
{
    ssh_bind bind = ssh_bind_new();
    bool use_files = false;
    int r = SSH_ERROR;

    c->link.session = ssh_new();
    c->link.event = ssh_event_new();
    if (bind && c->link.session && c->link.event &&
        ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &use_files) == SSH_OK &&
        ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, ATOLL_TAKE_PTR(a->key)) == SSH_OK)
        r = ssh_bind_accept_fd(bind, c->link.session, ATOLL_TAKE_FD(a->fd));
    if (bind)
        ssh_bind_free(bind);
    if (r != SSH_OK)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "libssh: %.200s",
                          c->link.session ? ssh_get_error(c->link.session) : "no memory");
    c->callbacks = (struct ssh_server_callbacks_struct){
        .userdata = c,
        .auth_none_function = on_none,
        .auth_password_function = on_password,
        .auth_pubkey_function = on_key,
        .channel_open_request_session_function = on_session,
    };
    ssh_callbacks_init(&c->callbacks);
    ssh_set_auth_methods(c->link.session, METHODS);
    (void)ssh_set_server_callbacks(c->link.session, &c->callbacks);
    ssh_set_message_callback(c->link.session, on_message, c);
    return 0;
}

static int open_connection(struct connection *c, struct atoll_ssh_accepted *a,
                           struct atoll_error *err)
{
    const struct atoll_client_options options = {
        .size = sizeof(options), .address = "./" ATOLL_SSH_API_SOCKET, .timeout_ms = REQUEST_MS};
    int r = open_session(c, a, err);

    if (r == 0)
        r = confine(err);
    if (r == 0)
        r = atoll_link_open(&options, &c->link.client, err);
    return r;
}

static void talk(struct connection *c, int report_fd)
{
    if (ssh_handle_key_exchange(c->link.session) != SSH_OK)
        return;
    ssh_set_blocking(c->link.session, 0);
    if (ssh_event_add_session(c->link.event, c->link.session) != SSH_OK || !authenticate(c))
        return;
    (void)alarm(0);
    (void)!write(report_fd, "", 1);
    atoll_log(ATOLL_LOG_INFO, "SSH client connected", "peer", c->peer, "sandbox",
              c->link.sandbox_id, NULL);
    c->ticked_ms = atoll_clock_ms();
    run(c);
}

void atoll_ssh_serve(struct atoll_ssh_accepted *a)
{
    struct connection *c = calloc(1, sizeof(*c));
    struct atoll_error err;

    if (!c)
        abort();
    (void)alarm(UNKNOWN_SECONDS);
    c->peer = a->peer;
    if (open_connection(c, a, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "SSH connection failed", "peer", a->peer, "error", err.text,
                  NULL);
    else
        talk(c, a->report_fd);
    if (c->link.session)
        ssh_disconnect(c->link.session);
    atoll_client_close(c->link.client);
    if (c->link.event)
        ssh_event_free(c->link.event);
    if (c->link.session)
        ssh_free(c->link.session);
    explicit_bzero(c, sizeof(*c));
    free(c);
}
