#include "engine/network/secrets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "network/placeholder.h"
#include "network/policy.h"
#include "store/secrets.h"

struct secret {
    struct atoll_store_secret row;
    char *metadata; /* owned; row.metadata points to it */
};

struct atoll_secrets {
    struct atoll_store *store; /* borrowed */
    uint32_t most;
    struct secret **list; /* owned, by tenant and name */
    size_t count, room;
    void (*changed)(void *arg, const char *tenant);
    void *changed_arg;
};

/* The list. */

static int compare(const struct secret *s, const char *tenant, const char *name)
{
    int order = strcmp(s->row.tenant, tenant);

    return order ? order : strcmp(s->row.name, name);
}

/* The index of the first secret that does not sort before this one. */
static size_t lower_bound(const struct atoll_secrets *secrets, const char *tenant, const char *name)
{
    size_t low = 0, high = secrets->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(secrets->list[middle], tenant, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The secrets of a tenant are list[first] … list[end - 1]. */
static void range_of(const struct atoll_secrets *secrets, const char *tenant, size_t *ret_first,
                     size_t *ret_end)
{
    *ret_first = tenant ? lower_bound(secrets, tenant, "") : 0;
    *ret_end = *ret_first;
    while (*ret_end < secrets->count &&
           (!tenant || strcmp(secrets->list[*ret_end]->row.tenant, tenant) == 0))
        ++*ret_end;
}

static struct secret *secret_free(struct secret *s)
{
    if (s)
        free(s->metadata);
    free(s);
    return NULL;
}

/* Puts s into the list, in place of the one with the same name. */
static void hold(struct atoll_secrets *secrets, struct secret *s)
{
    size_t at = lower_bound(secrets, s->row.tenant, s->row.name);

    if (at < secrets->count && compare(secrets->list[at], s->row.tenant, s->row.name) == 0) {
        (void)secret_free(secrets->list[at]);
        secrets->list[at] = s;
        return;
    }
    if (secrets->count == secrets->room) {
        size_t room = ATOLL_MAX(2 * secrets->room, (size_t)16);
        struct secret **list = reallocarray(secrets->list, room, sizeof(struct secret *));

        if (!list)
            abort(); /* small objects: the daemon is crash-only */
        secrets->list = list;
        secrets->room = room;
    }
    memmove(secrets->list + at + 1, secrets->list + at,
            (secrets->count - at) * sizeof(struct secret *));
    secrets->list[at] = s;
    secrets->count++;
    atoll_metric_set(ATOLL_METRIC_SECRETS, ATOLL_NO_LABELS, (double)secrets->count);
}

static struct secret *secret_new(const struct atoll_store_secret *row)
{
    struct secret *s = calloc(1, sizeof(*s));

    if (!s || (row->metadata && !(s->metadata = strdup(row->metadata))))
        abort();
    s->row = *row;
    s->row.metadata = s->metadata;
    return s;
}

static int hold_loaded(void *arg, const struct atoll_store_secret *row,
                       struct atoll_error *err ATOLL_UNUSED)
{
    hold(arg, secret_new(row));
    return 0;
}

int atoll_secrets_new(struct atoll_store *store, uint32_t most, struct atoll_secrets **ret,
                      struct atoll_error *err)
{
    struct atoll_secrets *secrets = calloc(1, sizeof(*secrets));
    int r;

    if (!secrets)
        abort();
    secrets->store = store;
    secrets->most = most;
    r = atoll_store_each_secret(store, hold_loaded, secrets, err);
    if (r < 0)
        (void)atoll_secrets_free(secrets);
    else
        *ret = secrets;
    return r;
}

struct atoll_secrets *atoll_secrets_free(struct atoll_secrets *secrets)
{
    for (size_t i = 0; secrets && i < secrets->count; i++)
        (void)secret_free(secrets->list[i]);
    if (secrets)
        free(secrets->list);
    free(secrets);
    return NULL;
}

void atoll_secrets_watch(struct atoll_secrets *secrets, void (*fn)(void *arg, const char *tenant),
                         void *arg)
{
    secrets->changed = fn;
    secrets->changed_arg = arg;
}

/* Views. */

static void view_of(const struct secret *s, struct atoll_secret_view *ret)
{
    *ret = (struct atoll_secret_view){
        .tenant = s->row.tenant,
        .name = s->row.name,
        .id = s->row.id,
        .version = s->row.version,
        .metadata_json = s->row.metadata,
        .created_unix_ms = s->row.created_unix_ms,
        .updated_unix_ms = s->row.updated_unix_ms,
    };
}

uint32_t atoll_secrets_most(const struct atoll_secrets *secrets)
{
    return secrets->most;
}

size_t atoll_secrets_count(const struct atoll_secrets *secrets, const char *tenant)
{
    size_t first, end;

    range_of(secrets, tenant, &first, &end);
    return end - first;
}

void atoll_secrets_at(const struct atoll_secrets *secrets, const char *tenant, size_t i,
                      struct atoll_secret_view *ret)
{
    view_of(secrets->list[(tenant ? lower_bound(secrets, tenant, "") : 0) + i], ret);
}

static struct secret *find(const struct atoll_secrets *secrets, const char *tenant,
                           const char *name)
{
    size_t first, end;

    range_of(secrets, tenant, &first, &end);
    for (size_t i = first; i < end; i++)
        if (strcmp(secrets->list[i]->row.name, name) == 0)
            return secrets->list[i];
    for (size_t i = first; i < end; i++)
        if (strcmp(secrets->list[i]->row.id, name) == 0)
            return secrets->list[i];
    return NULL;
}

static int fail_absent(const char *name, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no secret %.64s", name);
}

int atoll_secrets_find(const struct atoll_secrets *secrets, const char *tenant, const char *name,
                       struct atoll_secret_view *ret, struct atoll_error *err)
{
    const struct secret *s = find(secrets, tenant, name);

    if (!s)
        return fail_absent(name, err);
    view_of(s, ret);
    return 0;
}

/* Changes. */

/* Whether the tenant may have this secret in place of the old one. */
static int check_quota(const struct atoll_secrets *secrets,
                       const struct atoll_secret_request *request, const struct secret *old,
                       struct atoll_error *err)
{
    size_t first, end, bytes = strlen(old ? old->row.name : request->name) + request->value_len;

    range_of(secrets, request->tenant, &first, &end);
    if (!old && end - first >= secrets->most) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("secrets"), 1);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "the tenant has %zu secrets, the most it may have (--tenant-secrets); "
                          "remove some",
                          end - first);
    }
    for (size_t i = first; i < end; i++)
        if (secrets->list[i] != old)
            bytes += strlen(secrets->list[i]->row.name) + secrets->list[i]->row.size_bytes;
    if (bytes > ATOLL_SECRETS_BYTES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "the secrets of a tenant may have %zu KiB together; remove some",
                          ATOLL_SECRETS_BYTES_MAX / 1024);
    return 0;
}

static int check_request(const struct atoll_secret_request *request, const struct secret *old,
                         struct atoll_error *err)
{
    if (!old && request->how == ATOLL_SECRET_UPDATE)
        return fail_absent(request->name, err);
    if (old && request->how == ATOLL_SECRET_CREATE)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "the secret %s exists already",
                          request->name);
    if (!old && !atoll_secret_is_name(request->name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a secret has 1 to %d characters of A-Z a-z 0-9 _ . -",
                          ATOLL_SECRET_NAME_MAX);
    if (request->value_len == 0 || request->value_len > ATOLL_SECRET_VALUE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the value of a secret has 1 to %zu bytes (got %zu)",
                          ATOLL_SECRET_VALUE_MAX, request->value_len);
    if (memchr(request->value, '\0', request->value_len))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the value of a secret cannot contain a NUL character");
    if (request->metadata_json && strlen(request->metadata_json) > ATOLL_SECRET_METADATA_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the metadata of a secret may have %zu bytes", ATOLL_SECRET_METADATA_MAX);
    return 0;
}

/* The row of a new secret, or the next version of an old one. */
static int next_row(const struct atoll_secret_request *request, const struct secret *old,
                    struct atoll_store_secret *ret, struct atoll_error *err)
{
    int64_t now = atoll_clock_unix_ms();

    if (old) {
        *ret = old->row;
    } else {
        size_t prefix = sizeof(ATOLL_SECRET_ID_PREFIX) - 1;

        *ret = (struct atoll_store_secret){.created_unix_ms = now};
        if (atoll_text_copy(ret->tenant, sizeof(ret->tenant), request->tenant) < 0 ||
            atoll_text_copy(ret->name, sizeof(ret->name), request->name) < 0)
            return atoll_fail_errno(err, ENAMETOOLONG, "secret");
        memcpy(ret->id, ATOLL_SECRET_ID_PREFIX, prefix);
        atoll_rand_id(ret->id + prefix, ATOLL_SECRET_ID_LEN - prefix);
    }
    ret->version++;
    ret->size_bytes = (uint32_t)request->value_len;
    ret->updated_unix_ms = now;
    if (request->metadata_json)
        ret->metadata = request->metadata_json;
    return 0;
}

int atoll_secrets_put(struct atoll_secrets *secrets, const struct atoll_secret_request *request,
                      struct atoll_secret_view *ret, struct atoll_error *err)
{
    const struct secret *old = find(secrets, request->tenant, request->name);
    struct atoll_store_secret row;
    struct secret *s;
    bool is_new = !old;
    int r = check_request(request, old, err);

    if (r == 0)
        r = check_quota(secrets, request, old, err);
    if (r == 0)
        r = next_row(request, old, &row, err);
    if (r == 0)
        r = atoll_store_put_secret(secrets->store, &row, request->value, err);
    if (r < 0)
        return r;
    s = secret_new(&row);
    hold(secrets, s);
    view_of(s, ret);
    if (secrets->changed)
        secrets->changed(secrets->changed_arg, s->row.tenant);
    return is_new;
}

int atoll_secrets_remove(struct atoll_secrets *secrets, const char *tenant, const char *name,
                         struct atoll_error *err)
{
    struct secret *s = find(secrets, tenant, name);
    size_t at;
    int r = s ? atoll_store_drop_secret(secrets->store, tenant, s->row.name, err)
              : fail_absent(name, err);

    if (r < 0)
        return r;
    at = lower_bound(secrets, tenant, s->row.name);
    secrets->count--;
    memmove(secrets->list + at, secrets->list + at + 1,
            (secrets->count - at) * sizeof(struct secret *));
    (void)secret_free(s);
    atoll_metric_set(ATOLL_METRIC_SECRETS, ATOLL_NO_LABELS, (double)secrets->count);
    if (secrets->changed)
        secrets->changed(secrets->changed_arg, tenant);
    return 0;
}

/* Use. */

/* Whether HTTP can send it (RFC 9110, section 5.5), without tabs. */
static bool is_header_value(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < ' ' || bytes[i] == 0x7f)
            return false;
    return n == 0 || (bytes[0] > ' ' && bytes[n - 1] > ' ');
}

static int check_name(struct atoll_secrets *secrets, const char *tenant, const char *name,
                      struct atoll_error *err)
{
    const struct secret *s = *name ? find(secrets, tenant, name) : NULL;
    struct atoll_buf value;
    bool usable;
    int r;

    if (!*name)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a placeholder has the form ${secret.NAME}");
    if (!s || strcmp(s->row.name, name) != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "there is no secret %s; make it with POST /api/secrets or `atoll secret "
                          "create %s`",
                          name, name);
    atoll_buf_init(&value, 2 * ATOLL_SECRET_VALUE_MAX);
    r = atoll_store_secret_value(secrets->store, tenant, name, &value, err);
    usable = r == 0 && is_header_value(atoll_buf_head(&value), atoll_buf_size(&value));
    atoll_buf_wipe(&value);
    if (r == 0 && !usable)
        r = atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "the value of the secret %s cannot be in a header: it has a line end, another "
            "control character, or a blank at one of its ends",
            name);
    return r;
}

static int check_headers(struct atoll_secrets *secrets, const char *tenant,
                         const struct atoll_network_policy *policy, struct atoll_error *err)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *at;

    for (size_t i = 0; i < policy->transform_count; i++)
        for (size_t k = 0; k < policy->transforms[i].header_count; k++) {
            at = policy->transforms[i].headers[k].value;
            while (atoll_placeholder_find(at, &at, name))
                if (check_name(secrets, tenant, name, err) < 0)
                    return atoll_wrap(err, "network.transforms[%zu].headers.%.64s", i,
                                      policy->transforms[i].headers[k].name);
        }
    return 0;
}

int atoll_secrets_check(struct atoll_secrets *secrets, const char *tenant, const char *policy,
                        struct atoll_error *err)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    struct atoll_network_policy *parsed;
    const char *end;
    json_t *json;
    int r;

    if (!policy || !atoll_placeholder_find(policy, &end, name))
        return 0;
    json = atoll_json_load_own(policy);
    r = atoll_network_policy_parse(json, &parsed, err);
    json_decref(json);
    if (r < 0)
        return r;
    r = check_headers(secrets, tenant, parsed, err);
    (void)atoll_network_policy_free(parsed);
    return r;
}

static int add_value(struct atoll_secrets *secrets, const struct atoll_store_secret *row,
                     struct atoll_buf *out, struct atoll_error *err)
{
    struct atoll_buf value;
    int r;

    atoll_buf_init(&value, 2 * ATOLL_SECRET_VALUE_MAX);
    r = atoll_store_secret_value(secrets->store, row->tenant, row->name, &value, err);
    if (r == 0 && is_header_value(atoll_buf_head(&value), atoll_buf_size(&value))) {
        r = atoll_buf_appendf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",",
                              row->name);
        if (r == 0)
            r = atoll_text_json_quote(out, (const char *)atoll_buf_head(&value),
                                      atoll_buf_size(&value));
        if (r < 0)
            r = atoll_fail_errno(err, -r, "secrets of a tenant");
    }
    atoll_buf_wipe(&value);
    return r;
}

int atoll_secrets_json(struct atoll_secrets *secrets, const char *tenant, struct atoll_buf *out,
                       struct atoll_error *err)
{
    size_t first, end;
    uint8_t *tail;
    /* All the room at once, so that no copy of a value stays where the buffer was before. */
    int r = atoll_buf_reserve(out, 2 * ATOLL_SECRETS_BYTES_MAX + 8 * secrets->most + 16, &tail);

    if (r == 0)
        r = atoll_buf_appends(out, "{");
    if (r < 0)
        return atoll_fail_errno(err, -r, "secrets of a tenant");
    range_of(secrets, tenant, &first, &end);
    for (size_t i = first; r == 0 && i < end; i++)
        r = add_value(secrets, &secrets->list[i]->row, out, err);
    return r == 0 && atoll_buf_appends(out, "}") < 0 ? atoll_fail_errno(err, ENOBUFS, "secrets")
                                                     : r;
}
