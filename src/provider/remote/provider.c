#include "provider/remote/provider.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

#define REQUEST_MS 60000 /* timeout of one request of a longer operation */
#define ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

/* Set-up. */

static int refuse(const struct atoll_remote_provider *p, struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: %s", p->base.ops->name, text);
}

static int take_key(struct atoll_remote_provider *p, const struct atoll_remote_config *c,
                    const char *env, struct atoll_error *err)
{
    const struct atoll_remote_key key = {
        .value = c->api_key,
        .file = c->api_key_file,
        .env = c->api_key_env && *c->api_key_env ? c->api_key_env : env,
    };
    int r = c->key_of_request ? 0 : atoll_remote_take_key(p->base.ops->name, &key, &p->key, err);

    p->api.secret = p->key;
    return r;
}

static int take_headers(struct atoll_remote_provider *p, const struct atoll_remote_config *c,
                        struct atoll_error *err)
{
    struct curl_slist **list = &p->api.headers;
    int r = p->key ? atoll_remote_key_header(p->api.service, p->key, list, err) : 0;

    if (r == 0)
        r = atoll_remote_header(list, err, "Content-Type: application/json");
    return r < 0 ? r
                 : atoll_remote_take_headers(p->base.ops->name, c->headers, c->header_count, list,
                                             err);
}

static int take_rest(struct atoll_remote_provider *p, const struct atoll_remote_config *c,
                     const char *isolation, struct atoll_error *err)
{
    int r = atoll_remote_take_text(c->isolation, isolation, &p->isolation, err);

    p->ops.caps.isolation = p->isolation;
    p->size_count = ATOLL_MIN(c->size_count, (size_t)ATOLL_SIZES_MAX);
    if (p->size_count > 0)
        memcpy(p->sizes, c->sizes, p->size_count * sizeof(p->sizes[0]));
    if (r == 0)
        r = atoll_remote_take_text(c->daemon_id, "", &p->daemon_id, err);
    if (r == 0 && (!p->daemon_id[0] || !c->agent_path || !*c->agent_path ||
                   p->daemon_id[strspn(p->daemon_id, ID_CHARS)]))
        r = refuse(p, err, "daemon_id must be of a-z, 0-9 and '-', and agent_path a file");
    return r;
}

static int extend(void *arg, const char *handle, uint32_t lease_s,
                  struct atoll_remote_extension *ret)
{
    struct atoll_remote_provider *p = arg;
    struct atoll_remote_sandbox *record = calloc(1, p->remote_ops->record_size);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_error ignored;
    int r = record ? 0 : -ENOMEM;

    if (r == 0 && !atoll_remote_leases_get(p->leases, handle, record))
        r = -ENOENT;
    if (r == 0)
        r = atoll_remote_account_open(&p->api, record->key, &account, &ignored);
    if (r == 0)
        r = atoll_remote_headers(&ret->headers, account.api.headers, NULL);
    if (r == 0)
        p->remote_ops->extend(&account.api, record, lease_s, &path, &ret->body);
    if (path && asprintf(&ret->url, "%s%s", p->api.url, path) < 0)
        ret->url = NULL;
    if (record)
        explicit_bzero(record, p->remote_ops->record_size);
    free(record);
    return r == 0 && ret->url && ret->body ? 0 : -ENOMEM;
}

static void extended(void *arg, const char *handle, const struct atoll_remote_answer *answer)
{
    struct atoll_remote_provider *p = arg;
    struct atoll_remote_sandbox *record = calloc(1, p->remote_ops->record_size);
    ATOLL_REMOTE_AUTOJSON json_t *json = atoll_remote_answer_json(answer);
    struct atoll_error ignored;

    if (record && p->remote_ops->extended && answer->status / 100 == 2 &&
        atoll_remote_leases_get(p->leases, handle, record)) {
        p->remote_ops->extended(json, record);
        (void)!atoll_remote_leases_put(p->leases, handle, record, false, false, &ignored);
    }
    if (record)
        explicit_bzero(record, p->remote_ops->record_size);
    free(record);
}

static int start(struct atoll_remote_provider *p, const struct atoll_remote_kind *kind,
                 const struct atoll_remote_config *c, struct atoll_error *err)
{
    const struct atoll_remote_service *service = kind->service;
    int r = atoll_remote_http_new(
        &(struct atoll_remote_http_config){.service = service, .ca = c->ca_file}, &p->api.http,
        err);

    if (r < 0)
        return r;
    p->api.header = kind->header;
    p->api.timeout_ms = REQUEST_MS;
    p->agent = atoll_remote_agent_new(c->agent_path, kind->form);
    p->leases = atoll_remote_leases_new(service, c->timeout_s, p->remote_ops->record_size);
    if (!p->leases || !p->agent)
        return atoll_fail_errno(err, ENOMEM, "%s", p->base.ops->name);
    return atoll_remote_pump_new(&(struct atoll_remote_pump_config){.http = p->api.http,
                                                                    .service = service,
                                                                    .secret = p->key,
                                                                    .leases = p->leases,
                                                                    .extend = extend,
                                                                    .extended = extended,
                                                                    .arg = p,
                                                                    .extend_method = "POST"},
                                 &p->pump, err);
}

int atoll_remote_provider_init(struct atoll_remote_provider *p,
                               const struct atoll_remote_kind *kind,
                               const struct atoll_remote_config *config, const char *isolation,
                               struct atoll_error *err)
{
    int r;

    p->ops = *kind->ops;
    p->base.ops = &p->ops;
    p->remote_ops = kind->remote_ops;
    p->api.service = kind->service;
    r = take_key(p, config, kind->key_env, err);
    if (r == 0)
        r = take_headers(p, config, err);
    if (r == 0)
        r = take_rest(p, config, isolation, err);
    return r < 0 ? r : start(p, kind, config, err);
}

void atoll_remote_provider_done(struct atoll_remote_provider *p)
{
    p->pump = atoll_remote_pump_free(p->pump);
    p->api.http = atoll_remote_http_free(p->api.http);
    p->leases = atoll_remote_leases_free(p->leases);
    p->agent = atoll_remote_agent_free(p->agent);
    curl_slist_free_all(p->api.headers);
    atoll_remote_key_free(p->key);
    free(p->api.url);
    free(p->isolation);
    free(p->daemon_id);
}

/* Requests. */

int atoll_remote_about(struct atoll_remote_provider *p, const struct atoll_spec *spec,
                       const char *what, const char *prefix, const char *rest,
                       struct atoll_remote_account *ret_account, char *path, size_t cap,
                       struct atoll_error *err)
{
    if (!spec->handle[0] || !atoll_remote_is_made_of(spec->handle, "-_"))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s: %s has no such sandbox", what,
                          p->api.service->name);
    (void)snprintf(path, cap, "%s/%s%s", prefix, spec->handle, rest);
    return atoll_remote_account_open(&p->api, spec->credential, ret_account, err);
}

/* The service sets memory, CPUs and disk by template and does not limit processes. So only the
 * limits of memory and CPUs can hold, and only if a configured size is large enough. */
uint32_t atoll_remote_missing_limits(const struct atoll_sync_provider *base,
                                     const struct atoll_spec *spec)
{
    const struct atoll_remote_provider *p =
        ATOLL_CONTAINER_OF(base, const struct atoll_remote_provider, base);
    bool fits = !spec->image[0] &&
                atoll_size_choose(p->sizes, p->size_count, &spec->limits, spec->waived) != NULL;

    return fits ? ATOLL_LIMIT_ALL & ~(ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU) : ATOLL_LIMIT_ALL;
}

const char *atoll_remote_template(const struct atoll_remote_provider *p,
                                  const struct atoll_spec *spec, const char *otherwise)
{
    const struct atoll_size *size =
        atoll_size_choose(p->sizes, p->size_count, &spec->limits, spec->waived);

    return spec->image[0] ? spec->image : size ? size->template_name : otherwise;
}

json_t *atoll_remote_labels(const struct atoll_remote_provider *p, const struct atoll_spec *spec)
{
    json_t *all = spec->metadata_json ? json_loads(spec->metadata_json, 0, NULL) : NULL;
    json_t *value;
    const char *name;
    void *next;

    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_object_foreach_safe(all, next, name, value)
    {
        if (!json_is_string(value))
            (void)json_object_del(all, name);
    }
    if (json_object_set_new(all, ATOLL_REMOTE_LABEL_ID, json_string(spec->id)) < 0 ||
        json_object_set_new(all, ATOLL_REMOTE_LABEL_DAEMON, json_string(p->daemon_id)) < 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

void atoll_remote_put_text(json_t *body, const char *name, const char *text)
{
    if (text && *text)
        (void)json_object_set_new(body, name, json_string(text));
}

json_t *atoll_remote_env(const char *const *env)
{
    json_t *all = json_object();

    for (; all && env && *env; env++) {
        const char *equals = strchr(*env, '=');
        ATOLL_AUTOFREE char *name = equals ? strndup(*env, (size_t)(equals - *env)) : NULL;

        if (name && *name)
            (void)json_object_set_new(all, name, json_string(equals + 1));
    }
    return all;
}

/* Answers. */

bool atoll_remote_is_made_of(const char *text, const char *more)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr(more, *text))
            return false;
    return true;
}

bool atoll_remote_is_token(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

bool atoll_remote_is_safe_url(const struct atoll_remote_provider *p, const char *url)
{
    bool tls = strncmp(url, "https://", 8) == 0;

    return (tls || strncmp(url, "http://", 7) == 0) &&
           (tls || strncmp(p->api.url, "https://", 8) != 0) && !strpbrk(url, "?#@\"\\");
}

void atoll_remote_set_cause(struct atoll_remote_sandbox *record, const char *before,
                            const char *reason)
{
    (void)snprintf(record->cause, sizeof(record->cause), "%s%.80s", before, reason);
    for (char *c = record->cause; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = ' ';
}

bool atoll_remote_take_field(const json_t *object, const char *name, char *out, size_t cap)
{
    const json_t *value = json_object_get(object, name);

    out[0] = '\0';
    if (!value || json_is_null(value))
        return true;
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           atoll_text_copy(out, cap, json_string_value(value)) == 0;
}

void atoll_remote_take_id(const json_t *labels, char out[33])
{
    if (!atoll_remote_take_field(labels, ATOLL_REMOTE_LABEL_ID, out, 33) || !atoll_text_is_id(out))
        out[0] = '\0';
}

uint64_t atoll_remote_take_count(const json_t *object, const char *name)
{
    double value = json_number_value(json_object_get(object, name));

    return value > 0 && value < 1e18 ? (uint64_t)value : 0;
}
