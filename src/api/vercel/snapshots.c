/*
 * Snapshots as values: their ids, names and views.
 */
#include "api/vercel/snapshots.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"

#define RAND_LEN 8
#define LAST_UNIX_MS INT64_C(8640000000000000) /* of a Date in JavaScript */

void atoll_vercel_snapshot_name(const char *sandbox_id, const struct atoll_vercel_snapshot_tag *tag,
                                const char *parent, char out[ATOLL_VERCEL_SNAPSHOT_NAME_MAX])
{
    char random[RAND_LEN + 1];
    const size_t n = strlen(ATOLL_VERCEL_SNAPSHOT_PREFIX);

    atoll_rand_id(random, RAND_LEN);
    (void)snprintf(out, ATOLL_VERCEL_SNAPSHOT_NAME_MAX,
                   ATOLL_VERCEL_SNAPSHOT_TEMPLATE "%.32s:s%lld-%c-%lld-%s%s%.36s", sandbox_id,
                   (long long)tag->number, tag->automatic ? 'a' : 'm',
                   (long long)tag->expires_unix_ms, random, *parent ? "-p" : "",
                   *parent ? parent + n : "");
}

int64_t atoll_vercel_snapshot_expiry(double keep_ms)
{
    const int64_t now = atoll_clock_unix_ms(), most = LAST_UNIX_MS - now;
    const int64_t keep = keep_ms < (double)most ? (int64_t)keep_ms : most;

    return keep > 0 ? now + keep : 0;
}

static void write_id(const char *version_id, char out[ATOLL_VERCEL_SNAPSHOT_ID_MAX])
{
    (void)snprintf(out, ATOLL_VERCEL_SNAPSHOT_ID_MAX, ATOLL_VERCEL_SNAPSHOT_PREFIX "%.36s",
                   version_id);
}

void atoll_vercel_snapshot_of(const struct atoll_template_view *view,
                              struct atoll_vercel_snapshot *ret)
{
    long long number = 1, expires = 0;
    char how = 'm', random[RAND_LEN + 1], parent[37] = "";

    *ret = (struct atoll_vercel_snapshot){.created_unix_ms = view->created_unix_ms,
                                          .bytes = view->size_bytes};
    /* Another tag, or none: a snapshot that another facade made. */
    if (sscanf(view->tags, "s%lld-%c-%lld-%8[a-z0-9]-p%36[0-9a-f-]", &number, &how, &expires,
               random, parent) < 4)
        number = 1, how = 'm', expires = 0;
    ret->automatic = how == 'a';
    ret->expires_unix_ms = expires;
    atoll_vercel_sid_write(view->sandbox_id, number, ret->session);
    write_id(view->id, ret->id);
    if (*parent)
        write_id(parent, ret->parent);
}

void atoll_vercel_view_snapshot(struct atoll_json_out *out, const char *key,
                                const struct atoll_vercel_snapshot *s, bool v1)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", s->id);
    atoll_json_text(out, v1 ? "sourceSandboxId" : "sourceSessionId", s->session);
    atoll_json_text(out, "region", ATOLL_VERCEL_REGION);
    atoll_json_open(out, "regions", '[');
    atoll_json_text(out, NULL, ATOLL_VERCEL_REGION);
    atoll_json_close(out, ']');
    atoll_json_text(out, "status", s->deleted ? "deleted" : "created");
    atoll_json_u64(out, "sizeBytes", s->bytes);
    atoll_json_i64(out, "createdAt", s->created_unix_ms);
    atoll_json_i64(out, "updatedAt", s->created_unix_ms);
    atoll_json_text(out, "creationMethod", s->automatic ? "auto" : "manual");
    if (s->expires_unix_ms)
        atoll_json_i64(out, "expiresAt", s->expires_unix_ms);
    if (*s->parent)
        atoll_json_text(out, "parentId", s->parent);
    atoll_json_close(out, '}');
}

bool atoll_vercel_snapshot_find(const struct atoll_api_call *call, const char *text,
                                struct atoll_template_view *ret)
{
    const size_t n = strlen(ATOLL_VERCEL_SNAPSHOT_PREFIX);
    struct atoll_vercel_snapshot s;
    struct atoll_error error;

    if (strncmp(text, ATOLL_VERCEL_SNAPSHOT_PREFIX, n) != 0 ||
        atoll_version_find(call->engine, text + n, ret, &error) < 0 || !*ret->sandbox_id ||
        strcmp(ret->owner, call->caller.tenant) != 0)
        return false;
    atoll_vercel_snapshot_of(ret, &s);
    return !s.expires_unix_ms || s.expires_unix_ms > atoll_clock_unix_ms();
}

int atoll_vercel_snapshot_reference(const struct atoll_api_call *call, const char *snapshot,
                                    char **ret, struct atoll_error *err)
{
    struct atoll_template_view t;

    if (!atoll_vercel_snapshot_find(call, snapshot, &t))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ATOLL_VERCEL_E_NO_SNAPSHOT,
                          "Snapshot %.100s not found", snapshot);
    if (asprintf(ret, *t.digest ? "%s@sha256:%s" : "%s", t.name, t.digest) < 0)
        return atoll_fields_no_memory(err);
    return 0;
}
