#include "api/router.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define REST "{path}"

static bool is_port(const char *text)
{
    uint64_t port;
    return *text != '0' && atoll_text_u64(text, 1, 65535, &port) == 0;
}

static bool is_template(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789._-:%")] == '\0';
}

static const struct {
    const char *name; /* as in the pattern */
    size_t offset, cap;
    bool (*is_valid)(const char *text);
    const char *what;
    char end;            /* characters after this one are not checked */
    const char *refusal; /* full error text, where clients expect a certain one */
} param_kinds[] = {
    {"{id}", offsetof(struct atoll_route_params, id), 33, atoll_text_is_id,
     "a sandbox id (up to 32 of a-z and 0-9)", '\0', NULL},
    {"{sandboxID}", offsetof(struct atoll_route_params, id), 33, atoll_text_is_id, NULL, '-',
     "Invalid sandbox ID"},
    {"{exec}", offsetof(struct atoll_route_params, exec), 33, atoll_text_is_id,
     "an exec id (16 hex digits)", '\0', NULL},
    {"{session}", offsetof(struct atoll_route_params, session), 33, atoll_text_is_id,
     "a session id (up to 32 of a-z and 0-9)", '\0', NULL},
    {"{port}", offsetof(struct atoll_route_params, port), 6, is_port, "a port (1 to 65535)", '\0',
     NULL},
    {"{name}", offsetof(struct atoll_route_params, name), 65, atoll_text_is_name,
     "a name (a letter or digit, then up to 63 of letters, digits, \".\", \"_\" and \"-\")", '\0',
     NULL},
    {"{template}", offsetof(struct atoll_route_params, template), 129, is_template,
     "the name of a template", '\0', NULL},
};

static size_t segment_len(const char *p)
{
    return strcspn(p, "/");
}

/* Compares segment by segment; a parameter matches any segment that is not empty. */
static bool path_matches(const char *pattern, const char *path)
{
    for (;;) {
        size_t n = segment_len(pattern), m = segment_len(path);
        if (strcmp(pattern, REST) == 0)
            return *path != '\0';
        if (*pattern == '{' ? m == 0 : n != m || memcmp(pattern, path, n) != 0)
            return false;
        pattern += n;
        path += m;
        if (*pattern != *path)
            return false;
        if (*pattern == '\0')
            return true;
        pattern++;
        path++;
    }
}

static int take_param(struct atoll_route_params *params, const char *pattern, size_t n,
                      const char *value, size_t m, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(param_kinds); i++) {
        char *out = (char *)params + param_kinds[i].offset;
        const char *end;
        size_t len;
        if (strlen(param_kinds[i].name) != n || memcmp(pattern, param_kinds[i].name, n) != 0)
            continue;
        end = param_kinds[i].end ? memchr(value, param_kinds[i].end, m) : NULL;
        len = end ? (size_t)(end - value) : m;
        if (len < param_kinds[i].cap) {
            memcpy(out, value, len);
            out[len] = '\0';
            if (param_kinds[i].is_valid(out))
                return 0;
        }
        if (param_kinds[i].refusal)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s",
                              param_kinds[i].refusal);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "\"%.*s\" is not %s",
                          (int)ATOLL_MIN(m, (size_t)64), value, param_kinds[i].what);
    }
    return atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL, "a route has an unknown parameter");
}

static int take_params(struct atoll_route_params *params, const char *pattern, const char *path,
                       struct atoll_error *err)
{
    *params = (struct atoll_route_params){0};
    for (;;) {
        size_t n = segment_len(pattern), m = segment_len(path);
        int r;
        if (strcmp(pattern, REST) == 0) {
            params->path = path;
            return 0;
        }
        r = *pattern == '{' ? take_param(params, pattern, n, path, m, err) : 0;
        if (r < 0 || pattern[n] == '\0')
            return r;
        pattern += n + 1;
        path += m + 1;
    }
}

static void add_allowed(char *allow, enum atoll_http_method method)
{
    size_t len = strlen(allow);

    (void)snprintf(allow + len, ATOLL_ROUTE_ALLOW_MAX - len, "%s%s%s", len ? ", " : "",
                   atoll_http_method_name(method), method == ATOLL_GET ? ", HEAD" : "");
}

int atoll_router_match(const struct atoll_routes *const *tables, size_t count,
                       enum atoll_http_method method, const char *path,
                       struct atoll_route_params *params, char *allow,
                       const struct atoll_route **ret_route, struct atoll_error *err)
{
    enum atoll_http_method wanted = method == ATOLL_HEAD ? ATOLL_GET : method;

    allow[0] = '\0';
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct atoll_route *route = &tables[t]->rows[i];
            if (!path_matches(route->path, path))
                continue;
            if (route->method == wanted) {
                allow[0] = '\0';
                *ret_route = route;
                return take_params(params, route->path, path, err);
            }
            add_allowed(allow, route->method);
        }
    if (allow[0])
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "%s does not work here; use %s",
                          atoll_http_method_name(method), allow);
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no %.200s", path);
}
