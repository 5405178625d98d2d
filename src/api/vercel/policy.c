/*
 * Network policies of Vercel, in both directions: from the form of requests to a policy of the engine,
 * and to the form of answers, which has names of headers instead of their values.
 *
 * Denied ranges go first, then allowed names and ranges; a custom policy denies the rest.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/vercel/vercel_internal.h"
#include "engine/network/request.h"

#define DOMAINS_MAX 500
#define RULES_MAX 20 /* of one domain */

struct building {
    json_t *rules, *transforms;                               /* of the engine */
    json_t *domains, *allowed, *denied, *injected, *forwards; /* of the answer */
};

static int refuse(struct atoll_error *err, const char *where, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "networkPolicy.%.100s must be %s",
                      where, what);
}

static int refuse_domain(struct atoll_error *err, const char *domain, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "networkPolicy.allow.%.100s must be %s", domain, what);
}

static void add_rule(struct building *b, const char *kind, const char *target)
{
    (void)json_array_append_new(b->rules, json_pack("{s:s}", kind, target));
}

/* Rules of one domain. */

static json_t *header_names(const json_t *headers)
{
    json_t *names = json_array(), *value;
    const char *name;

    json_object_foreach((json_t *)headers, name, value)(void)
        json_array_append_new(names, json_string(name));
    return names;
}

/* "transform" is an array of {"headers"}; all of them together. */
static int merge_headers(const json_t *transform, const char *domain, json_t **ret,
                         struct atoll_error *err)
{
    json_t *all = json_object(), *part;
    size_t i;
    int r = json_is_array(transform)
                ? 0
                : refuse_domain(err, domain, "rules with an array `transform`");

    json_array_foreach(transform, i, part)
    {
        const json_t *headers = json_object_get(part, "headers");
        if (r == 0 && !json_is_object(headers))
            r = refuse_domain(err, domain, "rules whose transforms have an object `headers`");
        if (r == 0)
            (void)json_object_update(all, (json_t *)headers);
    }
    if (r < 0)
        json_decref(all);
    else
        *ret = all;
    return r;
}

static int add_headers(struct building *b, const char *domain, const json_t *transform,
                       json_t *made, struct atoll_error *err)
{
    json_t *headers;
    int r = merge_headers(transform, domain, &headers, err);

    if (r < 0)
        return r;
    (void)json_array_append_new(b->injected, json_pack("{s:s,s:o,s:O*}", "domain", domain,
                                                       "headerNames", header_names(headers),
                                                       "match", json_object_get(made, "match")));
    (void)json_object_set_new(made, "headers", headers);
    return 0;
}

static int add_forward(struct building *b, const char *domain, const json_t *url, json_t *made,
                       struct atoll_error *err)
{
    if (!json_is_string(url))
        return refuse_domain(err, domain, "rules whose `forwardURL` is a string");
    (void)json_array_append_new(b->forwards,
                                json_pack("{s:s,s:O,s:O*}", "domain", domain, "forwardURL", url,
                                          "match", json_object_get(made, "match")));
    (void)json_object_set(made, "forward", (json_t *)url);
    return 0;
}

/* "contentType" is the header that a header of that name goes before. */
static int add_answer_headers(const char *domain, const json_t *response, json_t *made,
                              struct atoll_error *err)
{
    const json_t *given = json_object_get(response, "headers");
    const json_t *type = json_object_get(response, "contentType");
    bool typed = !type;
    json_t *headers, *value;
    const char *name;

    if ((given && !json_is_object(given)) || (type && !json_is_string(type)))
        return refuse_domain(
            err, domain,
            "rules whose `response` has an object `headers` and a string `contentType`");
    headers = given ? json_copy((json_t *)given) : json_object();
    json_object_foreach(headers, name, value) typed =
        typed || strcasecmp(name, "content-type") == 0;
    if (!typed)
        (void)json_object_set(headers, "Content-Type", (json_t *)type);
    if (json_object_size(headers) > 0)
        (void)json_object_set(made, "responseHeaders", headers);
    json_decref(headers);
    return 0;
}

static int add_response(const char *domain, const json_t *response, json_t *made,
                        struct atoll_error *err)
{
    const json_t *status = json_object_get(response, "statusCode");
    const json_t *body = json_object_get(response, "body");

    if (!json_is_integer(status))
        return refuse_domain(err, domain, "rules whose `response` has a number `statusCode`");
    (void)json_object_set(made, "status", (json_t *)status);
    if (json_is_string(body))
        (void)json_object_set(made, "body", (json_t *)body);
    return add_answer_headers(domain, response, made, err);
}

static int add_domain_rule(struct building *b, const char *domain, const json_t *rule,
                           struct atoll_error *err)
{
    const json_t *transform = json_object_get(rule, "transform");
    const json_t *forward = json_object_get(rule, "forwardURL");
    const json_t *response = json_object_get(rule, "response");
    json_t *match = json_object_get(rule, "match"), *made;
    int r = 0;

    if (!json_is_object(rule))
        return refuse_domain(err, domain, "an array of rules");
    if (match && !transform && !forward && !response)
        return refuse_domain(err, domain, "rules with `transform`, `forwardURL` or `response`");
    if (forward && response)
        return refuse_domain(err, domain, "rules with either `forwardURL` or `response`");
    made = json_pack("{s:s}", "domain", domain);
    if (match && (!json_is_object(match) || json_object_size(match) > 0))
        (void)json_object_set(made, "match", match);
    if (transform)
        r = add_headers(b, domain, transform, made, err);
    if (r == 0 && forward)
        r = add_forward(b, domain, forward, made, err);
    if (r == 0 && response)
        r = add_response(domain, response, made, err);
    if (r == 0 && (transform || forward || response))
        (void)json_array_append(b->transforms, made);
    json_decref(made);
    return r;
}

static int add_domain(struct building *b, const char *domain, const json_t *rules,
                      struct atoll_error *err)
{
    size_t i;
    json_t *rule;
    int r = 0;

    if (json_array_size(b->domains) >= DOMAINS_MAX || json_array_size(rules) > RULES_MAX)
        return refuse(err, "allow", "at most 500 domains, with 20 rules each");
    add_rule(b, "allow", domain);
    (void)json_array_append_new(b->domains, json_string(domain));
    if (rules && !json_is_array(rules))
        return refuse_domain(err, domain, "an array of rules");
    json_array_foreach(rules, i, rule) if (r == 0) r = add_domain_rule(b, domain, rule, err);
    return r;
}

/* The lists. */

static int add_allowed(struct building *b, const json_t *allow, struct atoll_error *err)
{
    json_t *value;
    const char *name;
    size_t i;
    int r = 0;

    if (json_is_object(allow)) {
        json_object_foreach((json_t *)allow, name, value) if (r == 0) r =
            add_domain(b, name, value, err);
        return r;
    }
    if (allow && !json_is_array(allow))
        return refuse(err, "allow", "an array of domains, or an object of their rules");
    json_array_foreach(allow, i, value)
    {
        name = json_string_value(value);
        if (r == 0)
            r = name ? add_domain(b, name, NULL, err) : refuse(err, "allow", "an array of strings");
    }
    return r;
}

static int add_subnets(struct building *b, const json_t *list, const char *kind, json_t *shown,
                       struct atoll_error *err)
{
    size_t i;
    json_t *value;

    if (list && (!json_is_array(list) || json_array_size(list) > DOMAINS_MAX))
        return refuse(err, "subnets", "an object of arrays of at most 500 ranges of addresses");
    json_array_foreach(list, i, value)
    {
        const char *text = json_string_value(value);
        if (!text || !strpbrk(text, ".:") ||
            strspn(text, "0123456789abcdefABCDEF.:/") != strlen(text))
            return refuse(err, "subnets", "ranges of addresses such as 203.0.113.0/24");
        add_rule(b, kind, text);
        (void)json_array_append(shown, value);
    }
    return 0;
}

static int build_custom(struct building *b, const json_t *policy, struct atoll_error *err)
{
    const json_t *subnets = json_object_get(policy, "subnets");
    int r = 0;

    if (subnets && !json_is_object(subnets))
        r = refuse(err, "subnets", "an object of arrays");
    if (r == 0)
        r = add_subnets(b, json_object_get(subnets, "deny"), "deny", b->denied, err);
    if (r == 0)
        r = add_allowed(b, json_object_get(policy, "allow"), err);
    return r < 0 ? r : add_subnets(b, json_object_get(subnets, "allow"), "allow", b->allowed, err);
}

/* Errors of the engine name members of its policy: they get the names of the request. */

static const struct {
    const char *ours, *theirs;
} members[] = {
    {".domain", ""},
    {".headers", ".transform"},
    {".forward", ".forwardURL"},
    {".status", ".response.statusCode"},
    {".body", ".response.body"},
    {".responseHeaders", ".response.headers"},
};

/* rest: what follows the index. */
static void name_rule(const struct building *b, size_t i, const char *rest, char *out, size_t cap)
{
    const size_t denied = json_array_size(b->denied);
    const char *list = i < denied                                 ? "subnets.deny"
                       : i < denied + json_array_size(b->domains) ? "allow"
                                                                  : "subnets.allow";

    (void)snprintf(out, cap, "networkPolicy.%s%s", list, rest);
}

static void name_transform(const struct building *b, size_t i, const char *rest, char *out,
                           size_t cap)
{
    const char *domain =
        json_string_value(json_object_get(json_array_get(b->transforms, i), "domain"));
    const char *theirs = "";
    size_t n;

    for (size_t at = 0; at < ATOLL_ARRAY_LEN(members); at++) {
        n = strlen(members[at].ours);
        if (strncmp(rest, members[at].ours, n) == 0 && strchr(".: ", rest[n])) {
            theirs = members[at].theirs;
            rest += n;
            break;
        }
    }
    (void)snprintf(out, cap, "networkPolicy.allow.%.100s%s%s", domain ? domain : "", theirs, rest);
}

static void rename_member(const struct building *b, struct atoll_error *err)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    unsigned i;
    int n = 0;

    (void)snprintf(text, sizeof(text), "%s", err->text);
    if (sscanf(text, "network.rules[%u]%n", &i, &n) == 1 && n > 0)
        name_rule(b, i, text + n, err->text, sizeof(err->text));
    else if (sscanf(text, "network.transforms[%u]%n", &i, &n) == 1 && n > 0)
        name_transform(b, i, text + n, err->text, sizeof(err->text));
}

/* Both results. */

static int check(const struct building *b, const char *otherwise, char **ret,
                 struct atoll_error *err)
{
    json_t *policy = json_pack("{s:s,s:s,s:O,s:O}", "mode", "bridge", "default", otherwise, "rules",
                               b->rules, "transforms", b->transforms);
    const struct atoll_network_request request = {.network = policy};
    enum atoll_network mode;
    int r = policy ? atoll_network_request_check(&request, &mode, ret, err)
                   : atoll_fields_no_memory(err);

    if (r < 0)
        rename_member(b, err);
    json_decref(policy);
    return r;
}

static json_t *answer_of(const struct building *b, const char *mode)
{
    if (strcmp(mode, "custom") != 0)
        return json_pack("{s:s}", "mode", mode);
    return json_pack("{s:s,s:O,s:O,s:O,s:O,s:O}", "mode", mode, "allowedDomains", b->domains,
                     "allowedCIDRs", b->allowed, "deniedCIDRs", b->denied, "injectionRules",
                     b->injected, "forwardRules", b->forwards);
}

static int mode_of(const json_t *policy, const char **ret, struct atoll_error *err)
{
    const json_t *mode = json_object_get(policy, "mode");
    const char *text = json_string_value(policy);

    if (!text)
        text = mode ? json_string_value(mode) : "custom";
    if (!text || (strcmp(text, "allow-all") != 0 && strcmp(text, "deny-all") != 0 &&
                  strcmp(text, "custom") != 0))
        return refuse(err, "mode", "allow-all, deny-all or custom");
    if (strcmp(text, "custom") == 0 && !json_is_object(policy))
        return refuse(err, "mode", "allow-all or deny-all");
    *ret = text;
    return 0;
}

int atoll_vercel_policy(const json_t *policy, char **ret_policy, json_t **ret_answer,
                        struct atoll_error *err)
{
    struct building b = {.rules = json_array(),
                         .transforms = json_array(),
                         .domains = json_array(),
                         .allowed = json_array(),
                         .denied = json_array(),
                         .injected = json_array(),
                         .forwards = json_array()};
    json_t *const owned[] = {b.rules,  b.transforms, b.domains, b.allowed,
                             b.denied, b.injected,   b.forwards};
    const char *mode = "allow-all";
    int r = policy && !json_is_null(policy) ? mode_of(policy, &mode, err) : 0;

    *ret_policy = NULL;
    *ret_answer = NULL;
    if (r == 0 && strcmp(mode, "custom") == 0)
        r = build_custom(&b, policy, err);
    if (r == 0)
        r = check(&b, strcmp(mode, "allow-all") == 0 ? "allow" : "deny", ret_policy, err);
    if (r == 0)
        *ret_answer = answer_of(&b, mode);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(owned); i++)
        json_decref(owned[i]);
    return r;
}
