#include "provider/e2b/e2b.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/fd.h"
#include "provider/e2b/control.h"

#define CLOUD "e2b.app"
#define KEY_MAX 512
#define HEADERS_MAX 32

/* The service sets memory, CPUs and disk by template and does not limit processes. So only the
 * limits of memory and CPUs can hold, and only if a configured size is large enough. */
static uint32_t missing_limits(const struct atoll_sync_provider *base,
                               const struct atoll_spec *spec)
{
    const struct atoll_e2b_provider *p =
        ATOLL_CONTAINER_OF(base, const struct atoll_e2b_provider, base);
    bool fits = !spec->image[0] &&
                atoll_size_choose(p->sizes, p->size_count, &spec->limits, spec->waived) != NULL;

    return fits ? ATOLL_LIMIT_ALL & ~(ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU) : ATOLL_LIMIT_ALL;
}

/* The service answers and accepts the key. */
static int health(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = ATOLL_CONTAINER_OF(base, struct atoll_e2b_provider, base);
    ATOLL_E2B_AUTOJSON json_t *json = NULL;
    int64_t began_ms = atoll_clock_ms();
    int r = atoll_e2b_api_json(p, call, "health", "GET", "/health", NULL, NULL, err);

    if (r == 0)
        r = atoll_e2b_api_json(p, call, "health", "GET", "/v2/sandboxes?limit=1", NULL, &json, err);
    if (r < 0)
        return r;
    if (!json_is_array(json))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "health: the service does not speak E2B's protocol");
    (void)snprintf(detail, cap, "template %s, answers in %lld ms", p->template_id,
                   (long long)(atoll_clock_ms() - began_ms) / 2);
    return 0;
}

static struct atoll_sync_provider *provider_free(struct atoll_sync_provider *base)
{
    struct atoll_e2b_provider *p = ATOLL_CONTAINER_OF(base, struct atoll_e2b_provider, base);

    p->pump = atoll_e2b_pump_free(p->pump);
    p->http = atoll_e2b_http_free(p->http);
    p->remotes = atoll_e2b_remotes_free(p->remotes);
    curl_slist_free_all(p->api_headers);
    (void)pthread_mutex_destroy(&p->agent_lock);
    if (p->key)
        explicit_bzero(p->key, strlen(p->key));
    free(p->agent_packed);
    free(p->api_url);
    free(p->sandbox_url);
    free(p->domain);
    free(p->key);
    free(p->template_id);
    free(p->isolation);
    free(p->daemon_id);
    free(p->agent_path);
    free(p->ca_file);
    free(p);
    return NULL;
}

static const struct atoll_sync_ops ops = {
    .name = "e2b",
    .caps = {.isolation = "unknown",
             .remote = true,
             .own_templates = true,
             .pause = true,
             .stats = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = missing_limits,
    .create = atoll_e2b_op_create,
    .dial = atoll_e2b_op_dial,
    .inspect = atoll_e2b_op_look,
    .list = atoll_e2b_op_list,
    .destroy = atoll_e2b_op_destroy,
    .pause = atoll_e2b_op_pause,
    .resume = atoll_e2b_op_resume,
    .stats = atoll_e2b_op_stats,
    .public_host = atoll_e2b_op_public_host,
    .health = health,
    .free = provider_free,
};

/* The config. */

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "e2b: %s", text);
}

static bool is_header_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* No trailing slash, and no user or password in it. */
static int take_url(const char *given, const char *name, char **ret, struct atoll_error *err)
{
    size_t n = strlen(given);

    if ((strncmp(given, "http://", 7) != 0 && strncmp(given, "https://", 8) != 0) ||
        strpbrk(given, "@?# \t\r\n"))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "e2b: %s must be like https://HOST or http://HOST:PORT", name);
    while (n > 0 && given[n - 1] == '/')
        n--;
    *ret = strndup(given, n);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "e2b");
}

static int take_text(const char *given, const char *otherwise, char **ret, struct atoll_error *err)
{
    *ret = strdup(given && *given ? given : otherwise);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "e2b");
}

static int take_addresses(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                          struct atoll_error *err)
{
    char url[300];
    int r = take_text(c->domain, CLOUD, &p->domain, err);

    if (r < 0)
        return r;
    if (strlen(p->domain) > ATOLL_E2B_DOMAIN_MAX || strpbrk(p->domain, "/@?# \t\r\n"))
        return refuse(err, "domain must be a name such as e2b.app");
    p->domain_is_known = (c->domain && *c->domain) || !c->api_url || !*c->api_url;
    (void)snprintf(url, sizeof(url), "https://api.%s", p->domain);
    r = take_url(c->api_url && *c->api_url ? c->api_url : url, "api_url", &p->api_url, err);
    if (r == 0 && c->sandbox_url && *c->sandbox_url)
        r = take_url(c->sandbox_url, "sandbox_url", &p->sandbox_url, err);
    return r;
}

static int read_key_file(const char *path, char *out, struct atoll_error *err)
{
    int n = atoll_fd_read_file(AT_FDCWD, path, out, KEY_MAX);

    if (n < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -n, "e2b: api_key_file: %s",
                          strerror(-n));
    while (n > 0 && strchr(" \t\r\n", out[n - 1]))
        out[--n] = '\0';
    return 0;
}

static int take_key(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                    struct atoll_error *err)
{
    const char *variable = c->api_key_env && *c->api_key_env ? c->api_key_env : "E2B_API_KEY";
    const char *given = c->api_key && *c->api_key ? c->api_key : NULL;
    char text[KEY_MAX] = "";
    int r = 0;

    if (!given && c->api_key_file && *c->api_key_file) {
        r = read_key_file(c->api_key_file, text, err);
        given = text;
    } else if (!given) {
        given = getenv(variable);
    }
    if (r == 0 && (!given || !*given))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOKEY,
                       "e2b: there is no API key: set the variable %.64s, or api_key_file",
                       variable);
    else if (r == 0 && (strlen(given) >= KEY_MAX || !is_header_text(given)))
        r = refuse(err, "the API key is not valid");
    if (r == 0)
        r = take_text(given, "", &p->key, err);
    explicit_bzero(text, sizeof(text));
    return r;
}

static int take_headers(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                        struct atoll_error *err)
{
    int r = atoll_e2b_header(&p->api_headers, err, "X-API-Key: %s", p->key);

    if (r == 0)
        r = atoll_e2b_header(&p->api_headers, err, "Content-Type: application/json");
    if (r == 0 && c->region && (!*c->region || !is_header_text(c->region)))
        r = refuse(err, "region must be a name of one line");
    else if (r == 0 && c->region)
        r = atoll_e2b_header(&p->api_headers, err, "X-Region: %s", c->region);
    if (r == 0 && c->header_count > HEADERS_MAX)
        r = refuse(err, "there are too many headers");
    for (size_t i = 0; r == 0 && i < c->header_count; i++) {
        const struct atoll_e2b_header *h = &c->headers[i];
        if (!*h->name || strpbrk(h->name, ": \t") || !is_header_text(h->name) ||
            !is_header_text(h->value))
            r = refuse(err, "headers must be names with values of one line");
        else
            r = atoll_e2b_header(&p->api_headers, err, "%s: %s", h->name, h->value);
    }
    return r;
}

/* A service does not report its isolation; only that of E2B's cloud is known. */
static int take_isolation(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                          struct atoll_error *err)
{
    bool cloud = (!c->api_url || !*c->api_url) && strcmp(p->domain, CLOUD) == 0;
    int r = take_text(c->isolation, cloud ? "microvm" : ops.caps.isolation, &p->isolation, err);

    p->ops = ops;
    p->ops.caps.isolation = p->isolation;
    p->base.ops = &p->ops;
    return r;
}

static int take_rest(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                     struct atoll_error *err)
{
    int r = take_text(c->template_id, "base", &p->template_id, err);

    p->size_count = ATOLL_MIN(c->size_count, (size_t)ATOLL_SIZES_MAX);
    if (p->size_count > 0)
        memcpy(p->sizes, c->sizes, p->size_count * sizeof(p->sizes[0]));
    if (r == 0)
        r = take_text(c->daemon_id, "", &p->daemon_id, err);
    if (r == 0)
        r = take_text(c->agent_path, "", &p->agent_path, err);
    if (r == 0 && c->ca_file && *c->ca_file)
        r = take_text(c->ca_file, "", &p->ca_file, err);
    if (r == 0 && (!p->daemon_id[0] || !p->agent_path[0] ||
                   p->daemon_id[strspn(p->daemon_id, "abcdefghijklmnopqrstuvwxyz0123456789-")]))
        r = refuse(err, "daemon_id must be of a-z, 0-9 and '-', and agent_path a file");
    return r;
}

static int start(struct atoll_e2b_provider *p, uint32_t timeout_s, struct atoll_error *err)
{
    int r = atoll_e2b_http_new(&p->http, err);

    if (r < 0)
        return r;
    p->remotes = atoll_e2b_remotes_new(timeout_s);
    if (!p->remotes)
        return atoll_fail_errno(err, ENOMEM, "e2b");
    return atoll_e2b_pump_new(&(struct atoll_e2b_pump_config){.api_url = p->api_url,
                                                              .ca = p->ca_file,
                                                              .api_headers = p->api_headers,
                                                              .key = p->key,
                                                              .remotes = p->remotes},
                              &p->pump, err);
}

int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "e2b");
    p->base.ops = &ops;
    (void)pthread_mutex_init(&p->agent_lock, NULL);
    r = take_addresses(p, config, err);
    if (r == 0)
        r = take_isolation(p, config, err);
    if (r == 0)
        r = take_key(p, config, err);
    if (r == 0)
        r = take_headers(p, config, err);
    if (r == 0)
        r = take_rest(p, config, err);
    if (r == 0)
        r = start(p, config->timeout_s, err);
    if (r < 0)
        (void)provider_free(&p->base);
    else
        *ret = &p->base;
    return r;
}
