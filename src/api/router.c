#include "api/router.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define REST "{path}"
#define REST_OR_NONE "{rest}"

static bool is_port(const char *text)
{
    uint64_t port;
    return *text != '0' && atoll_text_u64(text, 1, 65535, &port) == 0;
}

static const struct atoll_param_kind common_params[] = {
    {"{id}", offsetof(struct atoll_route_params, id), 65, atoll_text_is_name,
     "a sandbox id (up to 32 of a-z and 0-9) or the name of a sandbox", '\0', NULL},
    {"{exec}", offsetof(struct atoll_route_params, exec), 33, atoll_text_is_id,
     "an exec id (16 hex digits)", '\0', NULL},
    {"{session}", offsetof(struct atoll_route_params, session), 33, atoll_text_is_id,
     "a session id (up to 32 of a-z and 0-9)", '\0', NULL},
    {"{port}", offsetof(struct atoll_route_params, port), 6, is_port, "a port (1 to 65535)", '\0',
     NULL},
    {"{name}", offsetof(struct atoll_route_params, name), 65, atoll_text_is_name,
     "a name (a letter or digit, then up to 63 of letters, digits, \".\", \"_\" and \"-\")", '\0',
     NULL},
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
        if (strcmp(pattern, REST_OR_NONE) == 0)
            return true;
        if (*pattern == '{' ? m == 0 : n != m || memcmp(pattern, path, n) != 0)
            return false;
        pattern += n;
        path += m;
        if (*pattern != *path)
            return *path == '\0' && strcmp(pattern, "/" REST_OR_NONE) == 0;
        if (*pattern == '\0')
            return true;
        pattern++;
        path++;
    }
}

static const struct atoll_param_kind *find_kind(const struct atoll_param_kind *kinds, size_t count,
                                                const char *pattern, size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(kinds[i].name) == n && memcmp(pattern, kinds[i].name, n) == 0)
            return &kinds[i];
    return NULL;
}

static int take_param(const struct atoll_param_kind *kind, struct atoll_route_params *params,
                      const char *value, size_t m, struct atoll_error *err)
{
    char *out = (char *)params + kind->offset;
    const char *end = kind->end ? memchr(value, kind->end, m) : NULL;
    size_t len = end ? (size_t)(end - value) : m;

    if (len < kind->cap) {
        memcpy(out, value, len);
        out[len] = '\0';
        if (kind->is_valid(out))
            return 0;
    }
    if (kind->refusal)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", kind->refusal);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "\"%.*s\" is not %s",
                      (int)ATOLL_MIN(m, (size_t)64), value, kind->what);
}

static int take_params(const struct atoll_routes *table, struct atoll_route_params *params,
                       const char *pattern, const char *path, struct atoll_error *err)
{
    *params = (struct atoll_route_params){0};
    for (;;) {
        size_t n = segment_len(pattern), m = segment_len(path);
        const struct atoll_param_kind *kind;
        int r = 0;
        if (strcmp(pattern, REST) == 0 || strcmp(pattern, REST_OR_NONE) == 0) {
            params->path = path;
            return 0;
        }
        if (*pattern == '{') {
            kind = find_kind(common_params, ATOLL_ARRAY_LEN(common_params), pattern, n);
            if (!kind)
                kind = find_kind(table->params, table->param_count, pattern, n);
            r = kind ? take_param(kind, params, path, m, err)
                     : atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL,
                                  "a route has an unknown parameter");
        }
        if (r < 0 || pattern[n] == '\0')
            return r;
        pattern += n + 1;
        path += m + (path[m] == '/');
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
                return take_params(tables[t], params, route->path, path, err);
            }
            add_allowed(allow, route->method);
        }
    if (allow[0])
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "%s does not work here; use %s",
                          atoll_http_method_name(method), allow);
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no %.200s", path);
}
