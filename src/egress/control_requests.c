/*
 * What the daemon asks for. Each function gets its decoded message and takes the descriptors that it uses;
 * an error that it returns is the answer.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include "egress/box.h"
#include "egress/cache.h"
#include "egress/control_internal.h"
#include "egress/peers.h"
#include "egress/secrets.h"

/* Descriptors: of everything else, of one sandbox, of one connection. A relay waits for a pipe if there is
 * none. Shares may exceed their total three times (base/shares.h). */
#define FDS_OTHERS 1024
#define FDS_BOX 2
#define FDS_CONNECTION (2 * 3)
#define CONNECTIONS_MIN 64

/* As many connections as the limit of descriptors permits. */
static void set_total(struct atoll_control *c)
{
    struct rlimit limit = {1024, 1024};
    size_t used = FDS_OTHERS + FDS_BOX * c->egress->boxes.used, most;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_cur > used ? ((size_t)limit.rlim_cur - used) / FDS_CONNECTION : 0;
    most = ATOLL_MAX(most, (size_t)CONNECTIONS_MIN);
    c->egress->shares.max = c->total_wanted > 0 ? ATOLL_MIN(most, c->total_wanted) : most;
}

static int do_hello(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_em_hello *hello = msg;
    struct atoll_em_hello reply = {.version = ATOLL_EGRESS_VERSION, .pid = (uint32_t)getpid()};
    struct atoll_box *box;

    if (hello->version != ATOLL_EGRESS_VERSION)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "this atoll-egress speaks version %d, the daemon %u",
                          ATOLL_EGRESS_VERSION, hello->version);
    atoll_control_take_keepers(c, frame);
    if (c->egress->cache)
        atoll_cache_set(c->egress->cache, NULL, 0); /* until this daemon wants it, too */
    c->total_wanted = (size_t)hello->total_max;
    set_total(c);
    reply.total_max = c->egress->shares.max;
    for (size_t pos = 0; (box = atoll_map_next(&c->egress->boxes, &pos));)
        box->named = false;
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_hello_desc, &reply);
    return 0;
}

static int parse_put(const struct atoll_em_put *put, struct atoll_network_policy **ret_policy,
                     struct atoll_network_bound **ret_bound, struct atoll_error *err)
{
    json_t *policy = put->policy.len > 0 ? json_loadb((const char *)put->policy.data,
                                                      put->policy.len, JSON_DECODE_ANY, NULL)
                                         : json_null();
    json_t *bound = put->bound.len > 0 ? json_loadb((const char *)put->bound.data, put->bound.len,
                                                    JSON_DECODE_ANY, NULL)
                                       : json_null();
    int r = policy && bound
                ? 0
                : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the policy is not JSON");

    if (r == 0)
        r = atoll_network_policy_parse(policy, ret_policy, err);
    if (r == 0 && (r = atoll_network_bound_parse(bound, ret_bound, err)) < 0)
        *ret_policy = atoll_network_policy_free(*ret_policy);
    json_decref(policy);
    json_decref(bound);
    return r;
}

static struct atoll_box *find_box(const struct atoll_control *c, const char *id,
                                  struct atoll_error *err)
{
    struct atoll_box *box = atoll_map_get(&c->egress->boxes, id);

    if (!box)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "no sandbox %.64s here", id);
    return box;
}

static int do_policy(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_em_put *put = msg;
    struct atoll_box *box = find_box(c, put->id, err);
    struct atoll_network_policy *policy;
    struct atoll_network_bound *bound;
    int r = box ? parse_put(put, &policy, &bound, err) : -ENOENT;

    if (r < 0)
        return r;
    atoll_peers_add(box, put->name);
    atoll_box_set_policy(box, policy, bound);
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int put_again(struct atoll_box *box, struct atoll_frame *frame,
                     struct atoll_network_policy *policy, struct atoll_network_bound *bound,
                     struct atoll_error *err)
{
    int r =
        atoll_box_set_sockets(box, ATOLL_TAKE_FD(frame->fds[0]), ATOLL_TAKE_FD(frame->fds[1]), err);

    if (r < 0) {
        (void)atoll_network_policy_free(policy);
        (void)atoll_network_bound_free(bound);
        atoll_box_remove(box);
        return r;
    }
    box->named = true;
    atoll_box_set_policy(box, policy, bound);
    return 0;
}

static int do_put(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                  struct atoll_error *err)
{
    const struct atoll_em_put *put = msg;
    struct atoll_box *box = atoll_map_get(&c->egress->boxes, put->id);
    struct atoll_network_policy *policy;
    struct atoll_network_bound *bound;
    int r;

    if (frame->nfds != 2)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "two descriptors are needed");
    /* A sandbox of another tenant cannot have the same id, but what it left behind could. */
    if (box && strcmp(box->tenant, put->tenant) != 0) {
        atoll_box_remove(box);
        box = NULL;
    }
    r = parse_put(put, &policy, &bound, err);
    if (r < 0)
        return r;
    if (box) {
        atoll_peers_add(box, put->name);
        r = put_again(box, frame, policy, bound, err);
    } else {
        r = atoll_box_open(c->egress, put, ATOLL_TAKE_FD(frame->fds[0]),
                           ATOLL_TAKE_FD(frame->fds[1]), policy, bound, err);
        if (r < 0) {
            (void)atoll_network_policy_free(policy);
            (void)atoll_network_bound_free(bound);
        }
    }
    set_total(c);
    if (r == 0)
        atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return r;
}

static int do_synced(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    struct atoll_box *box;

    (void)msg;
    (void)err;
    for (size_t pos = 0; (box = atoll_map_next(&c->egress->boxes, &pos));)
        if (!box->named)
            atoll_box_remove(box);
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int do_drop(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                   struct atoll_error *err)
{
    const struct atoll_em_ref *ref = msg;
    struct atoll_box *box = find_box(c, ref->id, err);
    struct atoll_em_stats stats;

    if (!box)
        return -ENOENT;
    atoll_box_close_connections(box);
    stats = box->stats;
    atoll_box_remove(box);
    set_total(c);
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_stats_desc, &stats);
    return 0;
}

static int do_stats(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_em_ref *ref = msg;
    struct atoll_box *box = find_box(c, ref->id, err);

    if (!box)
        return -ENOENT;
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_stats_desc, &box->stats);
    return 0;
}

static int do_end(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                  struct atoll_error *err)
{
    (void)frame;
    (void)msg;
    (void)err;
    atoll_loop_stop(c->egress->loop);
    return 0;
}

static int do_ping(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                   struct atoll_error *err)
{
    (void)msg;
    (void)err;
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int do_secrets(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                      struct atoll_error *err)
{
    const struct atoll_em_secrets *secrets = msg;
    int r = atoll_secrets_set(&c->egress->secrets, secrets->tenant, &secrets->secrets, err);

    if (r == 0)
        atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return r;
}

static int do_dialed(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_em_dialed *dialed = msg;

    (void)err;
    atoll_peer_dial_answer(c->egress, dialed->number,
                           frame->nfds > 0 ? ATOLL_TAKE_FD(frame->fds[0]) : ATOLL_NO_FD,
                           dialed->errnum);
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int do_cache(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_em_cache *wanted = msg;
    struct atoll_cache_table *table = NULL;
    json_t *json;
    int r;

    if (!c->egress->cache)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENODEV,
                          "its directory cannot be used");
    json = json_loadb((const char *)wanted->table.data, wanted->table.len, 0, NULL);
    r = atoll_cache_table_parse(json, &table, err);
    json_decref(json);
    if (r < 0)
        return r;
    atoll_cache_set(c->egress->cache, table, wanted->max_bytes);
    atoll_control_answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static const struct request {
    uint16_t type;
    const struct atoll_msg_desc *desc; /* NULL: empty */
    int (*fn)(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
              struct atoll_error *err);
} requests[] = {
    {ATOLL_EGRESS_HELLO, &atoll_em_hello_desc, do_hello},
    {ATOLL_EGRESS_PUT, &atoll_em_put_desc, do_put},
    {ATOLL_EGRESS_SYNCED, NULL, do_synced},
    {ATOLL_EGRESS_POLICY, &atoll_em_put_desc, do_policy},
    {ATOLL_EGRESS_DROP, &atoll_em_ref_desc, do_drop},
    {ATOLL_EGRESS_STATS, &atoll_em_ref_desc, do_stats},
    {ATOLL_EGRESS_END, NULL, do_end},
    {ATOLL_EGRESS_PING, NULL, do_ping},
    {ATOLL_EGRESS_SECRETS, &atoll_em_secrets_desc, do_secrets},
    {ATOLL_EGRESS_DIALED, &atoll_em_dialed_desc, do_dialed},
    {ATOLL_EGRESS_CACHE, &atoll_em_cache_desc, do_cache},
};

int atoll_control_serve(struct atoll_control *c, struct atoll_frame *frame, struct atoll_error *err)
{
    union {
        struct atoll_em_hello hello;
        struct atoll_em_put put;
        struct atoll_em_ref ref;
        struct atoll_em_secrets secrets;
        struct atoll_em_dialed dialed;
        struct atoll_em_cache cache;
    } msg;
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(requests); i++) {
        const struct request *request = &requests[i];

        if (request->type != frame->type)
            continue;
        r = request->desc ? atoll_msg_decode(request->desc, frame->payload, frame->len, &msg, err)
                          : 0;
        return r < 0 ? r : request->fn(c, frame, &msg, err);
    }
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS, "unknown request %u",
                      (unsigned)frame->type);
}
