/* Transforms as JSON: {"domain", "match": {}, "headers": {}, "forward", "status", "body",
 * "responseHeaders": {}}. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "network/policy_internal.h"

#define HEADER_NAME_MAX 64
#define HEADER_VALUE_MAX 4096
#define URL_MAX 2048
#define BODY_MAX (16 * 1024)
#define WHERE_MAX 160

/* Headers that say where a message goes or how it is framed: atoll-egress writes them itself. */
static const char *const own_headers[] = {
    "connection", "content-length",    "host",    "keep-alive", "proxy-connection", "te",
    "trailer",    "transfer-encoding", "upgrade",
};

static int check_header_name(const char *name, const char *where, struct atoll_error *err)
{
    static const char token[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
    size_t n = strlen(name);

    if (n == 0 || n > HEADER_NAME_MAX || strspn(name, token) != n)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network.%s: \"%.64s\" is not the name of a header; for example "
                          "\"Authorization\"",
                          where, name);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own_headers); i++)
        if (strcasecmp(name, own_headers[i]) == 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "network.%s: the header \"%s\" cannot be set", where, name);
    return 0;
}

static int parse_headers(const json_t *json, const char *where,
                         struct atoll_network_header into[ATOLL_NETWORK_HEADERS_MAX],
                         size_t *ret_count, struct atoll_error *err)
{
    json_t *headers = (json_t *)json, *value; /* jansson's iterators are not const */
    char at[WHERE_MAX + HEADER_NAME_MAX];
    const char *name;

    if (!json || json_is_null(json))
        return 0;
    if (!json_is_object(json) || json_object_size(json) > ATOLL_NETWORK_HEADERS_MAX)
        return atoll_network_refuse(
            err, where,
            "an object of at most " ATOLL_STRINGIFY(ATOLL_NETWORK_HEADERS_MAX) " strings");
    json_object_foreach(headers, name, value)
    {
        struct atoll_network_header *h = &into[*ret_count];
        if (check_header_name(name, where, err) < 0)
            return -EINVAL;
        (void)snprintf(at, sizeof(at), "%s.%s", where, name);
        if (!json_is_string(value))
            return atoll_network_refuse(err, at, "a string");
        h->name = strdup(name);
        ++*ret_count;
        if (!h->name)
            return atoll_network_no_memory(err);
        if (atoll_network_text_field(value, at, HEADER_VALUE_MAX, false, &h->value, err) < 0)
            return -EINVAL;
    }
    return 0;
}

/* "http://HOST…" or "https://HOST…", in printable ASCII. */
static bool is_url(const char *text)
{
    const char *host = strncmp(text, "https://", 8) == 0  ? text + 8
                       : strncmp(text, "http://", 7) == 0 ? text + 7
                                                          : "";

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return false;
    return *host && !strchr("/?#:@", *host) && !memchr(host, '@', strcspn(host, "/?#"));
}

static int parse_answer(const json_t *json, const char *where, struct atoll_network_transform *t,
                        struct atoll_error *err)
{
    const json_t *status = json_object_get(json, "status");
    char at[WHERE_MAX];

    if (status && !json_is_null(status)) {
        json_int_t number = json_integer_value(status);
        (void)snprintf(at, sizeof(at), "%s.status", where);
        if (number < 200 || number > 599)
            return atoll_network_refuse(err, at, "a number from 200 to 599");
        t->status = (uint16_t)number;
    }
    (void)snprintf(at, sizeof(at), "%s.body", where);
    if (atoll_network_text_field(json_object_get(json, "body"), at, BODY_MAX, true, &t->body, err) <
        0)
        return -EINVAL;
    if (t->body && !t->status)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "network.%s needs a status", at);
    (void)snprintf(at, sizeof(at), "%s.responseHeaders", where);
    if (parse_headers(json_object_get(json, "responseHeaders"), at, t->answer_headers,
                      &t->answer_header_count, err) < 0)
        return -EINVAL;
    if (t->answer_header_count > 0 && !t->status)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "network.%s needs a status", at);
    if (t->forward && t->status)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network.%s has either forward or status", where);
    return 0;
}

int atoll_network_transform_parse(const json_t *json, const char *where,
                                  struct atoll_network_transform *ret, struct atoll_error *err)
{
    static const char *const known[] = {"domain", "match", "headers",         "forward",
                                        "status", "body",  "responseHeaders", NULL};
    json_t *match = json_object_get(json, "match");
    char at[WHERE_MAX];

    if (atoll_network_known_fields(json, where, known, err) < 0)
        return -EINVAL;
    (void)snprintf(at, sizeof(at), "%s.domain", where);
    if (atoll_network_target_field(json_object_get(json, "domain"), at, &ret->target, err) < 0)
        return -EINVAL;
    if (!ret->target.domain || ret->target.port_first)
        return atoll_network_refuse(err, at,
                                    "a domain without a port; for example \"example.org\"");
    (void)snprintf(at, sizeof(at), "%s.match", where);
    if (match && !json_is_null(match)) {
        if (atoll_network_match_check(match, at, err) < 0)
            return -EINVAL;
        ret->match = json_incref(match);
    }
    (void)snprintf(at, sizeof(at), "%s.headers", where);
    if (parse_headers(json_object_get(json, "headers"), at, ret->headers, &ret->header_count, err) <
        0)
        return -EINVAL;
    (void)snprintf(at, sizeof(at), "%s.forward", where);
    if (atoll_network_text_field(json_object_get(json, "forward"), at, URL_MAX, false,
                                 &ret->forward, err) < 0)
        return -EINVAL;
    if (ret->forward && !is_url(ret->forward))
        return atoll_network_refuse(err, at, "a URL; for example \"https://mirror.example.org/\"");
    return parse_answer(json, where, ret, err);
}

static json_t *headers_json(const struct atoll_network_header *headers, size_t count)
{
    json_t *json = json_object();

    for (size_t i = 0; i < count; i++)
        (void)json_object_set_new(json, headers[i].name, json_string(headers[i].value));
    return json;
}

static void headers_done(struct atoll_network_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(headers[i].name);
        free(headers[i].value);
    }
}

json_t *atoll_network_transform_json(const struct atoll_network_transform *transform)
{
    char target[ATOLL_NETWORK_TARGET_TEXT];
    json_t *json = json_object();

    atoll_network_target_print(&transform->target, target, sizeof(target));
    (void)json_object_set_new(json, "domain", json_string(target));
    if (transform->match)
        (void)json_object_set(json, "match", transform->match);
    (void)json_object_set_new(json, "headers",
                              headers_json(transform->headers, transform->header_count));
    if (transform->forward)
        (void)json_object_set_new(json, "forward", json_string(transform->forward));
    if (transform->status)
        (void)json_object_set_new(json, "status", json_integer(transform->status));
    if (transform->body)
        (void)json_object_set_new(json, "body", json_string(transform->body));
    if (transform->answer_header_count > 0)
        (void)json_object_set_new(
            json, "responseHeaders",
            headers_json(transform->answer_headers, transform->answer_header_count));
    return json;
}

void atoll_network_transform_done(struct atoll_network_transform *transform)
{
    atoll_network_target_done(&transform->target);
    json_decref(transform->match);
    headers_done(transform->headers, transform->header_count);
    headers_done(transform->answer_headers, transform->answer_header_count);
    free(transform->forward);
    free(transform->body);
}
