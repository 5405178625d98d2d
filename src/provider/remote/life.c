/*
 * From create to destroy, by the requests of the provider's service.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "provider/remote/provider.h"
#include "provider/remote/wait.h"

#define LIST_MAX 16384 /* sandboxes; a list with more of ours is not trusted to end */
#define CURSOR_MAX 1024
#define CLEAN_MS 15000 /* deadline to remove what a failed create left, independent of its own */

/* Records, which have keys and tokens. */

struct record {
    struct atoll_remote_sandbox *of;
    size_t size;
};

static void record_done(struct record *r)
{
    if (r->of)
        explicit_bzero(r->of, r->size);
    free(r->of);
}
#define AUTORECORD ATOLL_CLEANUP(record_done)

static int record_init(struct record *r, const struct atoll_remote_provider *p,
                       struct atoll_error *err)
{
    r->size = p->remote_ops->record_size;
    r->of = calloc(1, r->size);
    return r->of ? 0 : atoll_fail_errno(err, ENOMEM, "sandbox");
}

static void set_key(struct atoll_remote_sandbox *of, const struct atoll_spec *spec)
{
    (void)snprintf(of->key, sizeof(of->key), "%s", spec->credential ? spec->credential : "");
}

int atoll_remote_keep(struct atoll_remote_provider *p, const struct atoll_spec *spec,
                      struct atoll_remote_sandbox *record, bool fresh, struct atoll_error *err)
{
    set_key(record, spec);
    return atoll_remote_leases_put(p->leases, record->handle, record,
                                   record->state == ATOLL_REMOTE_PAUSED, fresh, err);
}

/* Finding. */

struct finding {
    struct atoll_remote_provider *p;
    const struct atoll_remote_api *api; /* with the key of the sandbox */
    const struct atoll_sync_call *call;
    const char *what; /* operation, for error texts */
    const char *id;   /* our id; NULL: all sandboxes of this daemon */
    size_t count;
    int (*found)(struct finding *f, const struct atoll_remote_sandbox *of, struct atoll_error *err);
    atoll_provider_each_fn *each;
    void *arg;
};

static int take_page(struct finding *f, const json_t *page, struct atoll_error *err)
{
    AUTORECORD struct record record = {0};
    int r = record_init(&record, f->p, err);

    if (r == 0 && !json_is_array(page))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG, "%s: the answer of %s is not a list",
                       f->what, f->p->api.service->name);
    for (size_t i = 0; r == 0 && i < json_array_size(page); i++) {
        const struct atoll_remote_sandbox *of = record.of;

        r = f->p->remote_ops->read(json_array_get(page, i), record.of, err);
        /* The service's filter is not trusted: sandboxes that are not ours are skipped. */
        if (r < 0 || !of->id[0] || (f->id && strcmp(f->id, of->id) != 0))
            continue;
        if (++f->count > LIST_MAX)
            return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EOVERFLOW,
                              "%s: the list of %s does not end", f->what, f->p->api.service->name);
        r = f->found(f, of, err);
    }
    return r;
}

static int find(struct finding *f, struct atoll_error *err)
{
    char cursor[CURSOR_MAX] = "", next[CURSOR_MAX];
    int r;

    do {
        ATOLL_REMOTE_AUTOJSON json_t *page = NULL;

        next[0] = '\0';
        r = f->p->remote_ops->list(f->p, f->api, f->call, f->what, f->id, cursor, &page, next,
                                   sizeof(next), err);
        if (r == 0)
            r = take_page(f, page, err);
        f->count++; /* also counts pages without a sandbox of ours, so that the loop ends */
        memcpy(cursor, next, sizeof(cursor));
    } while (r == 0 && cursor[0] && f->count <= LIST_MAX);
    return r;
}

static int tell_each(struct finding *f, const struct atoll_remote_sandbox *of,
                     struct atoll_error *err ATOLL_UNUSED)
{
    f->each(f->arg, of->id, of->handle, of->state != ATOLL_REMOTE_STOPPED);
    return 0;
}

int atoll_remote_op_list(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         atoll_provider_each_fn *each, void *arg, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    struct finding f = {.p = p,
                        .api = &p->api,
                        .call = call,
                        .what = "list",
                        .found = tell_each,
                        .each = each,
                        .arg = arg};

    return p->key ? find(&f, err) : 0;
}

/* Removing. */

static int remove_one(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                      const struct atoll_sync_call *call, const char *handle,
                      struct atoll_error *err)
{
    int r = p->remote_ops->remove(p, api, call, handle, err);

    if (r < 0 && err->kind != ATOLL_ERR_NOT_FOUND)
        return r;
    atoll_remote_leases_forget(p->leases, handle);
    return 0;
}

static int remove_found(struct finding *f, const struct atoll_remote_sandbox *of,
                        struct atoll_error *err)
{
    return remove_one(f->p, f->api, f->call, of->handle, err);
}

/* Removes every sandbox with our id, known or not. */
static int remove_by_id(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                        const struct atoll_sync_call *call, const char *what, const char *id,
                        struct atoll_error *err)
{
    struct finding f = {
        .p = p, .api = api, .call = call, .what = what, .id = id, .found = remove_found};
    int r = find(&f, err);

    if (r == 0)
        atoll_remote_leases_set_confirmed(p->leases, id);
    return r;
}

int atoll_remote_op_destroy(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    char path[ATOLL_REMOTE_HANDLE_MAX + 8];
    int r;

    if (spec->handle[0]) {
        r = atoll_remote_about(p, spec, "destroy", "", "", &account, path, sizeof(path), err);
        if (r == 0)
            r = remove_one(p, &account.api, call, spec->handle, err);
    } else {
        r = atoll_remote_account_open(&p->api, spec->credential, &account, err);
    }
    if (r == 0 && (!spec->handle[0] || atoll_remote_leases_is_unconfirmed(p->leases, spec->id)))
        r = remove_by_id(p, &account.api, call, "destroy", spec->id, err);
    return r;
}

/* Waiting. */

int atoll_remote_await(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                       const struct atoll_sync_call *call, const char *what, int state,
                       struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    char handle[sizeof(record->handle)];
    struct atoll_remote_wait wait = {0};
    int r = 0;

    memcpy(handle, record->handle, sizeof(handle));
    for (;;) {
        if (r == 0 && !record->changing && (int)record->state == state)
            return 0;
        if (r == 0 && !record->changing)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO, "%s: %s %s", what,
                              p->api.service->name,
                              record->cause[0] ? record->cause : "left it in another state");
        r = atoll_remote_wait(&wait, p->api.http, call, what, r, err);
        if (r < 0)
            return r;
        r = p->remote_ops->look(p, api, call, what, handle, record, err);
        if (r < 0)
            memcpy(record->handle, handle, sizeof(handle));
    }
}

/* Making. */

static void clean_up(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                     const struct atoll_spec *spec, const char *handle)
{
    struct atoll_sync_call call = {.deadline_ms = atoll_clock_ms() + CLEAN_MS, .cancel_fd = -1};
    struct atoll_error ignored;

    if (handle[0] && remove_one(p, api, &call, handle, &ignored) < 0) {
        atoll_remote_leases_forget(p->leases, handle);
        atoll_remote_leases_set_unconfirmed(p->leases, spec->id);
    } else if (!handle[0] && atoll_remote_leases_is_unconfirmed(p->leases, spec->id) &&
               remove_by_id(p, api, &call, "create", spec->id, &ignored) < 0) {
        return; /* it stays unconfirmed: the next create or destroy of this id checks again */
    }
}

/* Makes the sandbox and starts the agent in it. */
static int make(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                struct atoll_remote_sandbox *of, int *ret_fd, struct atoll_error *err)
{
    bool maybe = false;
    int r = p->remote_ops->make(p, api, call, spec, of, &maybe, err);

    if (r < 0 && maybe && !of->handle[0])
        atoll_remote_leases_set_unconfirmed(p->leases, spec->id);
    if (r == 0)
        r = atoll_remote_keep(p, spec, of, true, err);
    if (r == 0)
        r = p->remote_ops->start_agent(p, call, of, err);
    if (r == 0)
        r = p->remote_ops->dial_agent(p, call, of, ret_fd, err);
    return r;
}

int atoll_remote_op_create(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    AUTORECORD struct record record = {0};
    int r = record_init(&record, p, err);

    if (r == 0)
        r = atoll_remote_account_open(&p->api, spec->credential, &account, err);
    if (r == 0 && atoll_remote_leases_is_unconfirmed(p->leases, spec->id))
        r = remove_by_id(p, &account.api, call, "create", spec->id, err);
    if (r < 0)
        return r;
    r = make(p, &account.api, call, spec, record.of, ret_fd, err);
    if (r < 0)
        clean_up(p, &account.api, spec, record.of->handle);
    else
        (void)snprintf(spec->handle, sizeof(spec->handle), "%s", record.of->handle);
    return r;
}

/* Inspecting. */

static int ask_about(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                     const struct atoll_spec *spec, const char *what,
                     struct atoll_remote_sandbox *ret, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    char path[ATOLL_REMOTE_HANDLE_MAX + 8];
    int r = atoll_remote_about(p, spec, what, "", "", &account, path, sizeof(path), err);

    if (r == 0)
        r = p->remote_ops->look(p, &account.api, call, what, spec->handle, ret, err);
    if (r == 0 && strcmp(ret->handle, spec->handle) != 0)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG, "%s: %s answers about another sandbox",
                       what, p->api.service->name);
    if (r == 0)
        set_key(ret, spec);
    return r;
}

static void set_exited(struct atoll_provider_inspection *ret, const char *service, const char *text)
{
    ret->state = ATOLL_INSPECT_EXITED;
    ret->exit.code = -1;
    (void)snprintf(ret->cause, sizeof(ret->cause), "%s %s", service, text);
}

int atoll_remote_op_inspect(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                            struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    const char *service = p->api.service->name;
    AUTORECORD struct record record = {0};
    int r = record_init(&record, p, err);

    if (r == 0)
        r = ask_about(p, call, spec, "look", record.of, err);
    *ret = (struct atoll_provider_inspection){.state = ATOLL_INSPECT_ALIVE};
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND) {
        atoll_remote_leases_forget(p->leases, spec->handle);
        ret->state = ATOLL_INSPECT_GONE;
        (void)snprintf(ret->cause, sizeof(ret->cause),
                       "%s no longer has it: it was killed there, or its time to live is over",
                       service);
        return 0;
    }
    if (r < 0)
        return r;
    if (record.of->state == ATOLL_REMOTE_PAUSED)
        ret->state = ATOLL_INSPECT_PAUSED;
    else if (record.of->state == ATOLL_REMOTE_STOPPED)
        set_exited(ret, service, record.of->cause[0] ? record.of->cause : "has stopped it");
    else if (atoll_remote_leases_is_silent(p->leases, spec->handle))
        set_exited(ret, service, "still runs it, but the agent in it is gone");
    return 0;
}

/* Dialing. */

/* Finds out why a stream cannot be opened, if the service knows. */
static int explain(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    AUTORECORD struct record record = {0};
    struct atoll_error failure;
    int r = record_init(&record, p, &failure);

    if (r == 0)
        r = ask_about(p, call, spec, "dial the agent", record.of, &failure);
    if (r < 0 && failure.kind == ATOLL_ERR_NOT_FOUND) {
        *err = failure;
        return r;
    }
    if (r == 0 && record.of->state == ATOLL_REMOTE_PAUSED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "the sandbox is paused; resume it");
    return err->errnum > 0 ? -err->errnum : -EIO;
}

int atoll_remote_op_dial(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    AUTORECORD struct record record = {0};
    int r = record_init(&record, p, err);

    /* Made by an earlier daemon: the service knows how it is reached. */
    if (r == 0 && !atoll_remote_leases_get(p->leases, spec->handle, record.of)) {
        r = ask_about(p, call, spec, "dial the agent", record.of, err);
        if (r == 0)
            r = atoll_remote_keep(p, spec, record.of, false, err);
    }
    if (r < 0)
        return r;
    r = p->remote_ops->dial_agent(p, call, record.of, ret_fd, err);
    return r < 0 && err->kind != ATOLL_ERR_ABORTED ? explain(p, call, spec, err) : r;
}
