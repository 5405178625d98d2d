#include "egress/report.h"

#include <string.h>

#define QUEUE_MAX 8192

struct event {
    struct atoll_list node;
    char tenant[ATOLL_SHARE_NAME_MAX];
    struct atoll_em_connection message; /* its texts are in data */
    char data[];
};

struct atoll_reports {
    struct atoll_list queue; /* of struct event, owned */
    struct atoll_shares shares;
    void (*on_queued)(void *arg);
    void *arg;
};

struct atoll_reports *atoll_reports_new(void)
{
    struct atoll_reports *r = calloc(1, sizeof(*r));

    if (!r)
        abort();
    atoll_list_init(&r->queue);
    atoll_shares_init(&r->shares, QUEUE_MAX);
    return r;
}

struct atoll_reports *atoll_reports_free(struct atoll_reports *r)
{
    while (r && !atoll_list_empty(&r->queue))
        atoll_reports_pop(r);
    if (r)
        atoll_shares_done(&r->shares);
    free(r);
    return NULL;
}

void atoll_reports_on_queued(struct atoll_reports *r, void (*fn)(void *arg), void *arg)
{
    r->on_queued = fn;
    r->arg = arg;
}

static struct event *first(const struct atoll_reports *r)
{
    return atoll_list_empty(&r->queue) ? NULL
                                       : ATOLL_CONTAINER_OF(r->queue.next, struct event, node);
}

const struct atoll_em_connection *atoll_reports_first(const struct atoll_reports *r)
{
    struct event *e = first(r);

    return e ? &e->message : NULL;
}

void atoll_reports_pop(struct atoll_reports *r)
{
    struct event *e = first(r);

    atoll_list_remove(&e->node);
    atoll_shares_drop(&r->shares, e->tenant, 1);
    free(e);
}

static struct event *event_new(const struct atoll_box *box,
                               const struct atoll_em_connection *message)
{
    const size_t texts[] = {
        offsetof(struct atoll_em_connection, name), offsetof(struct atoll_em_connection, address),
        offsetof(struct atoll_em_connection, rule), offsetof(struct atoll_em_connection, hint)};
    size_t size = sizeof(box->id);
    struct event *e;
    char *at;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char *text = *(const char *const *)((const char *)message + texts[i]);

        size += text ? strlen(text) + 1 : 0;
    }
    e = calloc(1, sizeof(*e) + size);
    if (!e)
        abort();
    memcpy(e->tenant, box->tenant, sizeof(e->tenant));
    e->message = *message;
    at = e->data;
    e->message.id = memcpy(at, box->id, sizeof(box->id));
    at += sizeof(box->id);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char **field = (const char **)((char *)&e->message + texts[i]);

        if (!*field)
            continue;
        size = strlen(*field) + 1;
        *field = memcpy(at, *field, size);
        at += size;
    }
    return e;
}

void atoll_box_report(struct atoll_box *box, const struct atoll_em_connection *event)
{
    struct atoll_reports *r = box->egress->reports;
    struct event *e;

    if (!atoll_shares_fits(&r->shares, box->tenant, 1)) {
        box->lost++;
        return;
    }
    e = event_new(box, event);
    e->message.lost = box->lost;
    box->lost = 0;
    atoll_shares_add(&r->shares, box->tenant, 1);
    atoll_list_push_back(&r->queue, &e->node);
    if (r->on_queued)
        r->on_queued(r->arg);
}
