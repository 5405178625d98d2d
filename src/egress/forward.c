#include "egress/forward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/shares.h"
#include "egress/servers.h"

/* The salt keeps a sandbox, which chooses the names, from choosing collisions in the map. */
#define SALT_LEN 12
#define KEY_MAX (SALT_LEN + ATOLL_SHARE_NAME_MAX + ATOLL_DNS_NAME_MAX + 16)

/* A question that servers are asked, for all of one tenant that have it. */
struct asking {
    struct atoll_forwarder *f;
    struct atoll_list waiting; /* of struct atoll_forward */
    struct atoll_dns_question question;
    uint16_t id;
    unsigned tries;
    int fd;
    bool tcp;
    struct atoll_watch watch;
    struct atoll_timer timer; /* this try ends, or the next begins */
    struct atoll_buf out, in; /* TCP */
    char owner[ATOLL_SHARE_NAME_MAX];
    char key[KEY_MAX]; /* salt, owner, type, name */
};

struct atoll_forward {
    struct atoll_list node;
    atoll_forward_fn done;
    void *arg;
};

struct atoll_forwarder {
    struct atoll_loop *loop;
    struct atoll_servers servers;
    char *path; /* owned */
    char salt[SALT_LEN + 1];
    struct atoll_map asking; /* by key, owned */
    struct atoll_shares shares;
};

static void try_next(void *arg);

int atoll_forwarder_new(struct atoll_loop *loop, const char *resolv_conf, uint16_t port,
                        struct atoll_forwarder **ret, struct atoll_error *err)
{
    struct atoll_forwarder *f = calloc(1, sizeof(*f));

    if (f)
        f->path = strdup(resolv_conf ? resolv_conf : "/etc/resolv.conf");
    if (!f || !f->path) {
        free(f);
        return atoll_fail_errno(err, ENOMEM, "forwarder");
    }
    f->loop = loop;
    atoll_servers_init(&f->servers, f->path, port ? port : 53);
    atoll_rand_id(f->salt, SALT_LEN);
    atoll_map_init(&f->asking);
    atoll_shares_init(&f->shares, ATOLL_FORWARD_MAX);
    *ret = f;
    return 0;
}

static void hang_up(struct asking *asking)
{
    atoll_watch_close(&asking->watch);
    atoll_timer_cancel(&asking->timer);
    if (asking->fd >= 0)
        (void)close(ATOLL_TAKE_FD(asking->fd));
    atoll_buf_clear(&asking->in);
    atoll_buf_clear(&asking->out);
}

/* It is no longer in the map. */
static void end_asking(struct asking *asking)
{
    hang_up(asking);
    atoll_shares_drop(&asking->f->shares, asking->owner, 1);
    atoll_buf_done(&asking->in);
    atoll_buf_done(&asking->out);
    free(asking);
}

struct atoll_forwarder *atoll_forwarder_free(struct atoll_forwarder *f)
{
    struct asking *asking;

    if (!f)
        return NULL;
    for (size_t pos = 0; (asking = atoll_map_next(&f->asking, &pos));) {
        ATOLL_LIST_FOREACH (&asking->waiting, node)
            atoll_list_remove(node);
        (void)atoll_map_remove(&f->asking, asking->key);
        end_asking(asking);
    }
    atoll_map_done(&f->asking);
    atoll_shares_done(&f->shares);
    free(f->path);
    free(f);
    return NULL;
}

/* A callback may ask again, or cancel the others. */
static void tell_all(struct asking *asking, const struct atoll_dns_answer *answer)
{
    (void)atoll_map_remove(&asking->f->asking, asking->key);
    while (!atoll_list_empty(&asking->waiting)) {
        struct atoll_forward *forward =
            ATOLL_CONTAINER_OF(asking->waiting.next, struct atoll_forward, node);
        atoll_forward_fn done = forward->done;
        void *arg = forward->arg;
        atoll_list_remove(&forward->node);
        free(forward);
        done(arg, answer);
    }
    end_asking(asking);
}

static void try_soon(struct asking *asking)
{
    hang_up(asking);
    atoll_timer_set(&asking->timer, asking->f->loop, 0, try_next, asking);
}

static const struct atoll_server *server_of(const struct asking *asking)
{
    const struct atoll_servers *servers = &asking->f->servers;

    return &servers->list[(asking->tries - 1) % servers->count];
}

static bool is_last_try(const struct asking *asking)
{
    return asking->tries >= ATOLL_FORWARD_ROUNDS * asking->f->servers.count;
}

static void start_tcp(struct asking *asking);

/* Returns whether these bytes were the answer; then `asking` may be gone. */
static bool take_answer(struct asking *asking, const uint8_t *bytes, size_t n)
{
    struct atoll_dns_answer answer;

    if (atoll_dns_parse_answer(bytes, n, &asking->question, asking->id, &answer) < 0)
        return false;
    if (answer.truncated && !asking->tcp)
        start_tcp(asking);
    else if ((answer.truncated || answer.has_address ||
              (answer.rcode != ATOLL_DNS_NOERROR && answer.rcode != ATOLL_DNS_NXDOMAIN)) &&
             !is_last_try(asking))
        try_soon(asking);
    else
        tell_all(asking, answer.truncated || answer.has_address ? NULL : &answer);
    return true;
}

static void on_datagram(void *arg, uint32_t events)
{
    struct asking *asking = arg;
    uint8_t bytes[ATOLL_DNS_UDP_MAX];
    ssize_t n;

    (void)events;
    while ((n = recv(asking->fd, bytes, sizeof(bytes), 0)) >= 0)
        if (take_answer(asking, bytes, (size_t)n))
            return;
    if (errno != EAGAIN && errno != EINTR)
        try_soon(asking); /* ECONNREFUSED: no server is there */
}

static int open_socket(struct asking *asking, int type)
{
    const struct atoll_server *server = server_of(asking);

    asking->fd = socket(server->address.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (asking->fd < 0)
        return -errno;
    /* The kernel chooses a random port. */
    if (connect(asking->fd, (const struct sockaddr *)&server->address, server->len) < 0 &&
        errno != EINPROGRESS)
        return -errno;
    return 0;
}

/* Returns -errno if this server cannot be asked. */
static int start_udp(struct asking *asking)
{
    uint8_t bytes[ATOLL_DNS_UDP_PLAIN];
    size_t n;
    int r = open_socket(asking, SOCK_DGRAM);

    if (r < 0)
        return r;
    atoll_rand_bytes(&asking->id, sizeof(asking->id));
    n = atoll_dns_write_question(&asking->question, asking->id, bytes, sizeof(bytes));
    if (send(asking->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        return -errno;
    return atoll_watch_open(&asking->watch, asking->f->loop, asking->fd, EPOLLIN, on_datagram,
                            asking);
}

/* One try, by UDP; the next one when it fails. */
static void try_next(void *arg)
{
    struct asking *asking = arg;

    hang_up(asking);
    if (is_last_try(asking)) {
        tell_all(asking, NULL);
        return;
    }
    asking->tries++;
    asking->tcp = false;
    if (start_udp(asking) < 0) {
        try_soon(asking);
        return;
    }
    atoll_timer_set(&asking->timer, asking->f->loop, ATOLL_FORWARD_TRY_MS, try_next, asking);
}

static int send_rest(struct asking *asking)
{
    ssize_t n;

    while (atoll_buf_size(&asking->out) > 0) {
        n = send(asking->fd, atoll_buf_head(&asking->out), atoll_buf_size(&asking->out),
                 MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        atoll_buf_consume(&asking->out, (size_t)n);
    }
    return atoll_watch_set(&asking->watch, EPOLLIN);
}

/* Returns 1 when the answer is whole. */
static int receive_rest(struct asking *asking)
{
    for (;;) {
        const uint8_t *head = atoll_buf_head(&asking->in);
        size_t size = atoll_buf_size(&asking->in), want = 2;
        uint8_t *tail;
        ssize_t n;
        if (size >= 2)
            want += (size_t)(head[0] << 8 | head[1]);
        if (size >= 2 && size == want)
            return 1;
        if (atoll_buf_reserve(&asking->in, want - size, &tail) < 0)
            return -ENOBUFS;
        n = recv(asking->fd, tail, want - size, 0);
        if (n <= 0)
            return n == 0 ? -EPIPE : errno == EAGAIN ? 0 : -errno;
        atoll_buf_commit(&asking->in, (size_t)n);
    }
}

static void on_stream(void *arg, uint32_t events)
{
    struct asking *asking = arg;
    int r = 0;

    if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        r = send_rest(asking);
    if (r == 0)
        r = receive_rest(asking);
    if (r == 0)
        return;
    if (r < 0 ||
        !take_answer(asking, atoll_buf_head(&asking->in) + 2, atoll_buf_size(&asking->in) - 2))
        try_soon(asking);
}

/* The same question to the same server by TCP: its answer was truncated. */
static void start_tcp(struct asking *asking)
{
    uint8_t bytes[2 + ATOLL_DNS_UDP_PLAIN];
    size_t n;

    hang_up(asking);
    asking->tcp = true;
    n = atoll_dns_write_question(&asking->question, asking->id, bytes + 2, sizeof(bytes) - 2);
    bytes[0] = (uint8_t)(n >> 8);
    bytes[1] = (uint8_t)n;
    if (open_socket(asking, SOCK_STREAM) < 0 || atoll_buf_append(&asking->out, bytes, n + 2) < 0 ||
        atoll_watch_open(&asking->watch, asking->f->loop, asking->fd, EPOLLIN | EPOLLOUT, on_stream,
                         asking) < 0) {
        try_soon(asking);
        return;
    }
    atoll_timer_set(&asking->timer, asking->f->loop, ATOLL_FORWARD_TRY_MS, try_next, asking);
}

static struct asking *start_asking(struct atoll_forwarder *f, const char *owner,
                                   const struct atoll_dns_question *question, const char *key)
{
    struct asking *asking;

    if (!atoll_shares_fits(&f->shares, owner, 1) || !(asking = calloc(1, sizeof(*asking))))
        return NULL;
    asking->f = f;
    asking->fd = ATOLL_NO_FD;
    asking->question = *question;
    atoll_list_init(&asking->waiting);
    atoll_buf_init(&asking->out, 2 + ATOLL_DNS_UDP_PLAIN);
    atoll_buf_init(&asking->in, 2 + ATOLL_DNS_MESSAGE_MAX);
    (void)snprintf(asking->owner, sizeof(asking->owner), "%s", owner);
    (void)snprintf(asking->key, sizeof(asking->key), "%s", key);
    if (atoll_map_put(&f->asking, asking->key, asking) < 0) {
        free(asking);
        return NULL;
    }
    atoll_shares_add(&f->shares, asking->owner, 1);
    atoll_servers_refresh(&f->servers);
    try_soon(asking);
    return asking;
}

struct atoll_forward *atoll_forwarder_ask(struct atoll_forwarder *f, const char *owner,
                                          const struct atoll_dns_question *question,
                                          atoll_forward_fn done, void *arg)
{
    struct atoll_forward *forward;
    struct asking *asking;
    char key[KEY_MAX];

    (void)snprintf(key, sizeof(key), "%s%.64s/%u/%u/%s", f->salt, owner, question->type,
                   question->flags, question->name);
    asking = atoll_map_get(&f->asking, key);
    if (!asking)
        asking = start_asking(f, owner, question, key);
    if (!asking || !(forward = calloc(1, sizeof(*forward))))
        return NULL;
    forward->done = done;
    forward->arg = arg;
    atoll_list_push_back(&asking->waiting, &forward->node);
    return forward;
}

struct atoll_forward *atoll_forward_cancel(struct atoll_forward *forward)
{
    if (forward)
        atoll_list_remove(&forward->node);
    free(forward);
    return NULL;
}
