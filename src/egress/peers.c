#include "egress/peers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "egress/closer.h"
#include "egress/control.h"

#define PLACES 65536u
#define ANSWER_MS 20000
#define SUFFIX ".internal"

struct atoll_peer_dial {
    struct atoll_list node; /* in egress->dials */
    uint64_t number;
    struct atoll_timer timeout;
    void (*done)(void *arg, int fd);
    void *arg;
};

/* Addresses: the last two bytes are the place of the sandbox in egress->places. */

bool atoll_peers_is_address(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 100 &&
           address->s6_addr[13] == 65;
}

void atoll_peers_address(const struct atoll_box *box, struct in6_addr *ret)
{
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff,
                                         [11] = 0xff,
                                         [12] = 100,
                                         [13] = 65,
                                         [14] = (uint8_t)(box->place >> 8),
                                         [15] = (uint8_t)box->place}};
}

/* By the id, so that most sandboxes have the same address after a restart of this process. */
static uint32_t first_place(const char *id)
{
    uint32_t hash = 2166136261u;

    for (; *id; id++)
        hash = (hash ^ (uint8_t)*id) * 16777619u;
    return hash % PLACES;
}

static void take_place(struct atoll_box *box)
{
    struct atoll_egress *egress = box->egress;
    uint32_t place = first_place(box->id);

    if (!egress->places)
        egress->places = calloc(PLACES, sizeof(*egress->places));
    if (!egress->places)
        abort();
    for (uint32_t i = 0; i < PLACES; i++, place = (place + 1) % PLACES)
        if (!egress->places[place] && place != 0) {
            egress->places[place] = box;
            box->place = place;
            return;
        }
}

/* Names */

static bool in_one_network(const struct atoll_box *a, const struct atoll_box *b)
{
    return *a->policy->network && strcmp(a->policy->network, b->policy->network) == 0 &&
           strcmp(a->tenant, b->tenant) == 0;
}

static void make_key(const struct atoll_box *box, const char *name, size_t len, char *out,
                     size_t cap)
{
    (void)snprintf(out, cap, "%s/%.*s", box->tenant, (int)len, name);
    for (char *p = out + strlen(box->tenant); *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static void drop_name(struct atoll_box *box)
{
    struct atoll_map *names = &box->egress->names;

    if (*box->key && atoll_map_get(names, box->key) == box)
        (void)atoll_map_remove(names, box->key);
    box->key[0] = '\0';
}

void atoll_peers_add(struct atoll_box *box, const char *name)
{
    if (box->place == 0)
        take_place(box);
    drop_name(box);
    if (!*name)
        return;
    make_key(box, name, strlen(name), box->key, sizeof(box->key));
    if (atoll_map_put(&box->egress->names, box->key, box) < 0)
        abort();
}

void atoll_peers_remove(struct atoll_box *box)
{
    drop_name(box);
    if (box->place != 0)
        box->egress->places[box->place] = NULL;
    box->place = 0;
}

void atoll_peers_done(struct atoll_egress *egress)
{
    free(egress->places);
    egress->places = NULL;
    atoll_map_done(&egress->names);
}

static struct atoll_box *if_reachable(const struct atoll_box *box, struct atoll_box *peer)
{
    return peer && peer->place != 0 && in_one_network(box, peer) ? peer : NULL;
}

struct atoll_box *atoll_peers_by_name(const struct atoll_box *box, const char *name)
{
    size_t n = strlen(name), k = strlen(SUFFIX);
    char key[sizeof(box->key)], id[ATOLL_EGRESS_ID_MAX];
    struct atoll_box *peer;

    if (n > k && strcmp(name + n - k, SUFFIX) == 0)
        n -= k;
    if (n >= ATOLL_EGRESS_ID_MAX)
        return NULL;
    make_key(box, name, n, key, sizeof(key));
    peer = if_reachable(box, atoll_map_get(&box->egress->names, key));
    (void)snprintf(id, sizeof(id), "%.*s", (int)n, name);
    return peer ? peer : if_reachable(box, atoll_map_get(&box->egress->boxes, id));
}

struct atoll_box *atoll_peers_by_address(const struct atoll_box *box,
                                         const struct in6_addr *address)
{
    uint32_t place = (uint32_t)address->s6_addr[14] << 8 | address->s6_addr[15];

    return box->egress->places ? if_reachable(box, box->egress->places[place]) : NULL;
}

/* Connections */

static void end_dial(struct atoll_peer_dial *dial, int fd)
{
    void (*done)(void *arg, int fd) = dial->done;
    void *arg = dial->arg;

    (void)atoll_peer_dial_cancel(dial);
    done(arg, fd);
}

static void on_no_answer(void *arg)
{
    end_dial(arg, -ETIMEDOUT);
}

static void on_no_daemon(void *arg)
{
    end_dial(arg, -EHOSTUNREACH);
}

struct atoll_peer_dial *atoll_peer_dial_start(struct atoll_box *peer, uint16_t port,
                                              void (*done)(void *arg, int fd), void *arg)
{
    struct atoll_egress *egress = peer->egress;
    struct atoll_peer_dial *dial = calloc(1, sizeof(*dial));
    struct atoll_em_dial message = {.number = ++egress->dial_numbers, .id = peer->id, .port = port};
    bool asked;

    if (!dial)
        abort();
    dial->number = message.number;
    dial->done = done;
    dial->arg = arg;
    atoll_list_push_back(&egress->dials, &dial->node);
    asked = atoll_control_dial(egress->control, &message);
    atoll_timer_set(&dial->timeout, egress->loop, asked ? ANSWER_MS : 0,
                    asked ? on_no_answer : on_no_daemon, dial);
    return dial;
}

struct atoll_peer_dial *atoll_peer_dial_cancel(struct atoll_peer_dial *dial)
{
    if (!dial)
        return NULL;
    atoll_timer_cancel(&dial->timeout);
    atoll_list_remove(&dial->node);
    free(dial);
    return NULL;
}

void atoll_peer_dial_answer(struct atoll_egress *egress, uint64_t number, int fd, int errnum)
{
    ATOLL_LIST_FOREACH (&egress->dials, node) {
        struct atoll_peer_dial *dial = ATOLL_CONTAINER_OF(node, struct atoll_peer_dial, node);

        if (dial->number != number)
            continue;
        if (fd >= 0 && atoll_fd_set_nonblock(fd, true) < 0) {
            atoll_closer_close(egress->closer, fd, true);
            fd = ATOLL_NO_FD;
        }
        end_dial(dial, fd >= 0 ? fd : errnum > 0 ? -errnum : -EHOSTUNREACH);
        return;
    }
    atoll_closer_close(egress->closer, fd, true);
}

/* On the next turn of the loop: the callbacks may free what the caller uses. */
void atoll_peer_dials_fail(struct atoll_egress *egress)
{
    ATOLL_LIST_FOREACH (&egress->dials, node) {
        struct atoll_peer_dial *dial = ATOLL_CONTAINER_OF(node, struct atoll_peer_dial, node);

        atoll_timer_set(&dial->timeout, egress->loop, 0, on_no_daemon, dial);
    }
}
