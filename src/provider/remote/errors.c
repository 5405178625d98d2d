#include "provider/remote/errors.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct atoll_remote_rule common[] = {
    {400, NULL, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, NULL},
    {401, NULL, ATOLL_ERR_UNAUTHENTICATED, EACCES, NULL},
    {403, NULL, ATOLL_ERR_PERMISSION_DENIED, EPERM, NULL},
    {404, NULL, ATOLL_ERR_NOT_FOUND, ENOENT, NULL},
    {408, NULL, ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
    {409, NULL, ATOLL_ERR_FAILED_PRECONDITION, EEXIST, NULL},
    {413, NULL, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG, NULL},
    {429, NULL, ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
    {501, NULL, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, NULL},
    {507, NULL, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC, NULL},
};

static bool matches(const struct atoll_remote_rule *rule, long status, const char *code)
{
    return (rule->status == 0 || rule->status == status) &&
           (!rule->code || (code && strcmp(rule->code, code) == 0));
}

struct atoll_remote_rule atoll_remote_rule_of(const struct atoll_remote_service *service,
                                              long status, const char *code)
{
    for (size_t i = 0; i < service->rule_count; i++)
        if (matches(&service->rules[i], status, code))
            return service->rules[i];
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(common); i++)
        if (matches(&common[i], status, code))
            return common[i];
    if (status >= 500)
        return (struct atoll_remote_rule){.kind = ATOLL_ERR_UNAVAILABLE, .errnum = EAGAIN};
    /* Redirects are not followed: the key would be sent along. */
    return (struct atoll_remote_rule){.kind = ATOLL_ERR_FAILED_PRECONDITION, .errnum = EPROTO};
}

/* Keeps printable ASCII only, and removes the secret. */
static void clean(char *text, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;

    for (char *p = text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = ' ';
    for (char *at; n > 0 && (at = strstr(text, secret));) {
        (void)memset(at, '*', ATOLL_MIN(n, (size_t)3));
        if (n > 3)
            (void)memmove(at + 3, at + n, strlen(at + n) + 1);
    }
}

/* The text is not truncated here, so that a secret is found before the text is cut. */
char *atoll_remote_text(const char *body, size_t n, const char *field, const char *secret)
{
    json_t *json = json_loadb(body ? body : "", n, 0, NULL);
    size_t outer = strcspn(field, ".");
    const json_t *of = field[outer] ? json_object_getn(json, field, outer) : json;
    const char *value =
        json_string_value(json_object_get(of, field[outer] ? field + outer + 1 : field));
    char *text = strdup(value ? value : "");

    json_decref(json);
    if (text)
        clean(text, secret);
    return text;
}

int atoll_remote_refused(struct atoll_error *err, const struct atoll_remote_service *service,
                         const char *what, long status, const char *body, size_t n,
                         uint32_t retry_after_s, const char *secret)
{
    ATOLL_AUTOFREE char *code =
        atoll_remote_text(body, n, service->code ? service->code : "code", secret);
    ATOLL_AUTOFREE char *message =
        atoll_remote_text(body, n, service->message ? service->message : "message", secret);
    struct atoll_remote_rule rule = atoll_remote_rule_of(service, status, code);
    char again[48] = "";
    int r;

    if (rule.kind == ATOLL_ERR_UNAVAILABLE && retry_after_s > 0)
        (void)snprintf(again, sizeof(again), "; try again in %u s", retry_after_s);
    r = atoll_fail(err, rule.kind, rule.errnum, "%s: %s answers %ld: %.200s%s%s%s", what,
                   service->name, status, message && *message ? message : "no reason given", again,
                   rule.hint ? "; " : "", rule.hint ? rule.hint : "");
    err->retry_ms = again[0] ? (int)retry_after_s * 1000 : 0;
    return r;
}
