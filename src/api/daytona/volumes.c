/*
 * Volumes by name. A volume is made when a sandbox first mounts it; one that was created here and not
 * mounted yet is a name in memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"

struct planned {
    struct atoll_list node;
    char tenant[65], name[65];
    int64_t created_unix_ms;
};

static struct planned *find_planned(const struct atoll_api_call *call, const char *name)
{
    ATOLL_LIST_FOREACH (&atoll_daytona_of(call->api)->volumes, node) {
        struct planned *p = ATOLL_CONTAINER_OF(node, struct planned, node);
        if (strcmp(p->tenant, call->caller.tenant) == 0 && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

static void drop_planned(struct atoll_daytona *daytona, struct planned *p)
{
    atoll_list_remove(&p->node);
    daytona->volume_count--;
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("planned_volumes"), -1);
    free(p);
}

void atoll_daytona_volumes_done(struct atoll_daytona *daytona)
{
    ATOLL_LIST_FOREACH (&daytona->volumes, node)
        drop_planned(daytona, ATOLL_CONTAINER_OF(node, struct planned, node));
}

static void view(struct atoll_json_out *out, const char *tenant, const char *name,
                 int64_t created_unix_ms)
{
    int64_t created = created_unix_ms ? created_unix_ms : 1;

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", name);
    atoll_json_text(out, "name", name);
    atoll_json_text(out, "organizationId", tenant);
    atoll_json_text(out, "state", "ready");
    atoll_json_time(out, "createdAt", created);
    atoll_json_time(out, "updatedAt", created);
    atoll_json_null(out, "errorReason");
    atoll_json_close(out, '}');
}

/* Asking the engine for the volumes of the tenant. */

struct lookup {
    struct atoll_api_call *call;
    const char *name; /* of the volume to find; NULL: all */
    struct atoll_buf buf;
    struct atoll_json_out out;
    bool found;
    void (*then)(struct lookup *l); /* called with `found`; the call is to be answered */
};

static void look_at(void *arg, const struct atoll_volume_view *v)
{
    struct lookup *l = arg;
    struct planned *planned = find_planned(l->call, v->name);

    if (l->name && strcmp(l->name, v->name) != 0)
        return;
    if (planned) /* a sandbox has mounted it: it is not only a name any more */
        drop_planned(atoll_daytona_of(l->call->api), planned);
    l->found = true;
    view(&l->out, l->call->caller.tenant, v->name, v->created_unix_ms);
}

static void looked(void *arg, const struct atoll_error *error)
{
    struct lookup *l = arg;
    struct atoll_api_call *call = l->call;
    const struct planned *p = l->name ? find_planned(call, l->name) : NULL;

    if (p && !l->found) {
        l->found = true;
        view(&l->out, p->tenant, p->name, p->created_unix_ms);
    }
    /* Without a provider of volumes there are only planned ones. */
    if (error && error->kind != ATOLL_ERR_UNIMPLEMENTED) {
        atoll_buf_done(&l->buf);
        atoll_api_fail(call, error);
    } else {
        l->then(l);
    }
    free(l);
}

/* Begins a lookup; a planned volume of the name is found, too, if the engine has none. */
static void look(struct atoll_api_call *call, const char *name, void (*then)(struct lookup *l))
{
    struct lookup *l = atoll_api_alloc(sizeof(*l));

    *l = (struct lookup){.call = call, .name = name, .then = then};
    atoll_api_reply_init(&l->buf, &l->out);
    if (!name)
        atoll_json_open(&l->out, NULL, '[');
    atoll_volumes_list(call->engine, call->caller.tenant, NULL, look_at, looked, l);
}

static void reply_list(struct lookup *l)
{
    ATOLL_LIST_FOREACH (&atoll_daytona_of(l->call->api)->volumes, node) {
        const struct planned *p = ATOLL_CONTAINER_OF(node, struct planned, node);
        if (strcmp(p->tenant, l->call->caller.tenant) == 0)
            view(&l->out, p->tenant, p->name, p->created_unix_ms);
    }
    atoll_json_close(&l->out, ']');
    atoll_api_reply(l->call, 200, &l->out);
}

void atoll_daytona_volume_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    look(call, NULL, reply_list);
}

static void refuse_missing(struct lookup *l)
{
    atoll_buf_done(&l->buf);
    atoll_daytona_refuse(l->call, 404, NULL, "Volume with ID or name %.100s not found", l->name);
}

static void reply_one(struct lookup *l)
{
    if (l->found)
        atoll_api_reply(l->call, 200, &l->out);
    else
        refuse_missing(l);
}

void atoll_daytona_volume_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    look(call, call->params.template, reply_one);
}

/* Creating. */

struct request {
    const char *name;
};

static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct request, name), 1, 64, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static bool has_room(const struct atoll_daytona *daytona, const char *tenant)
{
    size_t count = 0;

    ATOLL_LIST_FOREACH (&daytona->volumes, node)
        count += strcmp(ATOLL_CONTAINER_OF(node, struct planned, node)->tenant, tenant) == 0;
    return count < ATOLL_DAYTONA_TENANT_VOLUMES_MAX &&
           daytona->volume_count < ATOLL_DAYTONA_VOLUMES_MAX;
}

static void reply_created(struct lookup *l)
{
    struct atoll_daytona *daytona = atoll_daytona_of(l->call->api);
    struct planned *p;

    if (l->found) {
        atoll_buf_done(&l->buf);
        atoll_daytona_refuse(l->call, 409, NULL, "Volume with name %.64s already exists", l->name);
        return;
    }
    if (!has_room(daytona, l->call->caller.tenant)) {
        atoll_buf_done(&l->buf);
        atoll_daytona_refuse(l->call, 429, NULL, "too many volumes were created and never mounted");
        return;
    }
    p = atoll_api_alloc(sizeof(*p));
    (void)snprintf(p->tenant, sizeof(p->tenant), "%s", l->call->caller.tenant);
    (void)snprintf(p->name, sizeof(p->name), "%s", l->name);
    p->created_unix_ms = atoll_clock_unix_ms();
    atoll_list_push_back(&daytona->volumes, &p->node);
    daytona->volume_count++;
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("planned_volumes"), 1);
    view(&l->out, p->tenant, p->name, p->created_unix_ms);
    atoll_api_reply(l->call, 200, &l->out);
}

void atoll_daytona_volume_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0 && (!q.name || !atoll_text_is_name(q.name)))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must be a name for the volume: a letter or digit, then letters, "
                       "digits, dots, dashes or underscores");
    if (r == 0)
        (void)snprintf(call->params.template, sizeof(call->params.template), "%s", q.name);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        look(call, call->params.template, reply_created);
}

/* Removing. */

static void removed(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 200);
}

/* A planned volume need not exist at a provider. */
static void removed_planned(void *arg, const struct atoll_error *error)
{
    bool absent =
        error && (error->kind == ATOLL_ERR_NOT_FOUND || error->kind == ATOLL_ERR_UNIMPLEMENTED);

    removed(arg, absent ? NULL : error);
}

static void remove_found(struct lookup *l)
{
    struct planned *p = find_planned(l->call, l->name);
    bool planned = p != NULL;

    if (!l->found) {
        refuse_missing(l);
        return;
    }
    atoll_buf_done(&l->buf);
    if (p)
        drop_planned(atoll_daytona_of(l->call->api), p);
    /* A sandbox may have mounted it since the lookup. */
    atoll_volumes_remove(l->call->engine, l->call->caller.tenant, NULL, l->name,
                         planned ? removed_planned : removed, l->call);
}

void atoll_daytona_volume_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    look(call, call->params.template, remove_found);
}
