/*
 * Drives: volumes of the tenant, by name. Their size is not bounded one by one, but by the quota of the
 * tenant's volumes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/kit/metadata.h"
#include "api/kit/volumes.h"
#include "api/vercel/list.h"
#include "base/text.h"
#include "engine/volume/opened.h"

#define SIZE_BYTES ((uint64_t)10 << 30) /* shown, since clients need a number */

static const char *project_of(const struct atoll_api_call *call)
{
    const char *project = atoll_http_query(call->req, "projectId");

    return project ? project : "";
}

/* Sandboxes of the tenant that mount a drive, by the name of the drive: of several the newest. */

struct mounting {
    const char *tenant;
    json_t *names; /* owned */
};

static void add_user(void *arg, const struct atoll_vercel_box *box)
{
    const struct mounting *u = arg;
    const char *owner = box->view.options.owner, *path;
    json_t *mount;

    if (strcmp(owner ? owner : "", u->tenant) != 0)
        return;
    json_object_foreach(json_object_get(box->facts, "mounts"), path, mount)
    {
        const char *drive = json_string_value(json_object_get(mount, "drive"));
        if (drive)
            (void)json_object_set_new(u->names, drive, json_string(atoll_name_or_id(&box->view)));
    }
}

static json_t *users_of(const struct atoll_api_call *call)
{
    struct mounting u = {.tenant = call->caller.tenant, .names = json_object()};

    atoll_vercel_each_box(call, add_user, &u);
    return u.names;
}

static void view(struct atoll_json_out *out, const char *key, const char *project, const char *name,
                 int64_t created_unix_ms, const json_t *users)
{
    const char *user = json_string_value(json_object_get(users, name));
    int64_t created = created_unix_ms ? created_unix_ms : 1;

    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", name);
    atoll_json_text(out, "name", name);
    atoll_json_text(out, "projectId", project);
    atoll_json_text(out, "region", ATOLL_VERCEL_REGION);
    atoll_json_u64(out, "maxSizeBytes", SIZE_BYTES);
    if (user)
        atoll_json_text(out, "currentSandboxName", user);
    atoll_json_i64(out, "createdAt", created);
    atoll_json_i64(out, "updatedAt", created);
    atoll_json_close(out, '}');
}

static void reply(struct atoll_api_call *call, const char *name, int64_t created_unix_ms)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    json_t *users = users_of(call);

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    view(&out, "drive", project_of(call), name, created_unix_ms, users);
    atoll_json_close(&out, '}');
    json_decref(users);
    atoll_api_reply(call, 200, &out);
}

/* Lists. */

struct listing {
    struct atoll_vercel_list list;
    json_t *users; /* owned */
};

static void add(void *arg, const struct atoll_volume_view *v)
{
    struct listing *l = arg;
    const struct atoll_api_call *call = l->list.call;
    const char *prefix = call->req ? atoll_http_query(call->req, "namePrefix") : NULL;
    struct atoll_keyed e = {.created_unix_ms = v->created_unix_ms};

    if (prefix && strncmp(v->name, prefix, strlen(prefix)) != 0)
        return;
    (void)snprintf(e.id, sizeof(e.id), "%.64s", v->name);
    atoll_vercel_list_add(&l->list, NULL, &e);
}

static void view_entry(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                       const struct atoll_keyed *entry)
{
    const struct listing *l = ATOLL_CONTAINER_OF(list, struct listing, list);

    view(out, NULL, list->call->req ? project_of(list->call) : "", entry->id,
         entry->created_unix_ms, l->users);
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct listing *l = arg;

    /* Without a provider of volumes the list is empty. */
    if (error && error->kind != ATOLL_ERR_UNIMPLEMENTED) {
        atoll_keyed_done(&l->list.entries);
        atoll_api_fail(l->list.call, error);
    } else {
        l->users = users_of(l->list.call);
        atoll_vercel_list_reply(&l->list, "drives", view_entry);
        json_decref(l->users);
    }
    free(l);
}

void atoll_vercel_drive_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct listing *l = atoll_api_alloc(sizeof(*l));
    struct atoll_error error;

    if (atoll_vercel_list_begin(call, &l->list, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
    } else {
        atoll_volumes_list(call->engine, call->caller.tenant, NULL, add, listed, l);
    }
}

/* One drive: the list of them knows when it was made. */

struct seeking {
    struct atoll_api_call *call;
    bool removes;
    int64_t created_unix_ms;
};

static void seek(void *arg, const struct atoll_volume_view *v)
{
    struct seeking *s = arg;

    if (strcmp(v->name, s->call->params.template) == 0)
        s->created_unix_ms = v->created_unix_ms;
}

static void removed(void *arg, const struct atoll_error *error)
{
    struct seeking *s = arg;

    if (error)
        atoll_api_fail(s->call, error);
    else
        reply(s->call, s->call->params.template, s->created_unix_ms);
    free(s);
}

static void sought(void *arg, const struct atoll_error *error)
{
    struct seeking *s = arg;

    if (error || !s->removes)
        removed(s, error);
    else
        atoll_volumes_remove(s->call->engine, s->call->caller.tenant, NULL,
                             s->call->params.template, removed, s);
}

static void begin_seeking(struct atoll_api_call *call, bool removes)
{
    struct seeking *s = atoll_api_alloc(sizeof(*s));

    s->call = call;
    s->removes = removes;
    atoll_volumes_list(call->engine, call->caller.tenant, NULL, seek, sought, s);
}

/* Making: a name that exists is the same drive. */

static void made(void *arg, struct atoll_volume_use *use, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    atoll_volume_leave(use);
    if (error && error->kind != ATOLL_ERR_ALREADY_EXISTS)
        atoll_api_fail(call, error);
    else
        begin_seeking(call, false);
}

void atoll_vercel_drive_create(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const struct atoll_volume_request request = {
        .tenant = call->caller.tenant, .name = call->params.template, .entry = ATOLL_VOLUME_NEW};

    if (!atoll_text_is_name(call->params.template))
        atoll_vercel_refuse(
            call, 400, NULL,
            "The name of a drive has up to 64 letters, digits, \".\", \"_\" and \"-\"");
    else
        atoll_volume_enter(call->engine, &request, made, call);
}

void atoll_vercel_drive_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    begin_seeking(call, true);
}

/* Mounts of a request: {PATH: {"drive", "mode"}}. */
int atoll_vercel_mounts(const json_t *mounts, struct atoll_body *body, struct atoll_options *o,
                        struct atoll_error *err)
{
    json_t *value;
    const char *path;
    int r = 0;

    if (mounts && !json_is_null(mounts) && !json_is_object(mounts))
        return atoll_fields_refuse(err, "", "mounts", mounts, "an object");
    if (json_object_size(mounts) > ATOLL_MOUNTS_MAX)
        return atoll_fields_refuse(err, "", "mounts", NULL, "at most 8 drives");
    json_object_foreach((json_t *)mounts, path, value)
    {
        const char *drive = json_string_value(json_object_get(value, "drive"));
        const char *mode = json_string_value(json_object_get(value, "mode"));
        if (!atoll_mount_is_named(drive, path))
            return atoll_fields_refuse(err, "mounts", path, value,
                                       "an absolute path with the name of a `drive`");
        r = atoll_mounts_add(body, o, drive, path, mode && strcmp(mode, "read-write") != 0, err);
        if (r < 0)
            return r;
    }
    return r;
}
