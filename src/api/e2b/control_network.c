/*
 * Network settings of a sandbox as clients give them: their validation, and the part that is shown to
 * clients. control_policy.c makes the policy of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "base/text.h"

#define ENTRIES_MAX 1000
#define RULES_MAX 10
#define HEADERS_MAX 20
#define HEADER_NAME_MAX 64
#define HEADER_VALUE_MAX 2048
#define ALL_TRAFFIC "0.0.0.0/0"
#define PLACEHOLDER "${e2b."
#define HIDDEN "***"

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
}

/* An address, optionally with a prefix length. */
static bool is_cidr(const char *text)
{
    uint8_t address[16];
    char host[64];
    const char *slash = strchr(text, '/');
    uint64_t bits;
    bool is_v4;

    if (snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "/"), text) >= (int)sizeof(host))
        return false;
    is_v4 = inet_pton(AF_INET, host, address) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, address) != 1)
        return false;
    return !slash || atoll_text_u64(slash + 1, 0, is_v4 ? 32 : 128, &bits) == 0;
}

/* "example.com" or "*.example.com". */
static bool is_domain(const char *text)
{
    size_t n;

    if (strncmp(text, "*.", 2) == 0)
        text += 2;
    n = strlen(text);
    return n > 0 && n < 254 && text[0] != '.' && text[0] != '-' && !strstr(text, "..") &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n &&
           strspn(text, "0123456789.") < n;
}

static const char *text_at(const json_t *array, size_t i)
{
    return json_string_value(json_array_get(array, i));
}

static int check_list(const json_t *list, const char *name, struct atoll_error *err)
{
    if (list && !json_is_null(list) &&
        (!json_is_array(list) || json_array_size(list) > ENTRIES_MAX))
        return atoll_fields_refuse(err, "network", name, list, "an array of strings");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!text_at(list, i))
            return atoll_fields_refuse(err, "network", name, list, "an array of strings");
    return 0;
}

static int check_egress(const json_t *network, bool denied, struct atoll_error *err)
{
    const json_t *allow = json_object_get(network, "allowOut");
    const json_t *deny = json_object_get(network, "denyOut");
    bool domains = false;

    if (check_list(allow, "allowOut", err) < 0 || check_list(deny, "denyOut", err) < 0)
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(deny); i++) {
        if (!is_cidr(text_at(deny, i)))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "invalid denied CIDR %.100s",
                              text_at(deny, i));
        denied = denied || strcmp(text_at(deny, i), ALL_TRAFFIC) == 0;
    }
    for (size_t i = 0; i < json_array_size(allow); i++) {
        bool is_address = is_cidr(text_at(allow, i));
        if (!is_address && !is_domain(text_at(allow, i)))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "invalid allowed address or domain %.100s", text_at(allow, i));
        domains = domains || !is_address;
    }
    if (domains && !denied)
        return refuse(err, "When specifying allowed domains in allow out, you must include "
                           "'ALL_TRAFFIC' in deny out to block all other traffic.");
    return 0;
}

static int check_headers(const json_t *headers, struct atoll_error *err)
{
    json_t *object = (json_t *)headers, *value; /* jansson's iterators are not const */
    const char *name;

    if (headers && (!json_is_object(headers) || json_object_size(headers) > HEADERS_MAX))
        return atoll_fields_refuse(err, "network.rules", "headers", headers,
                                   "an object of at most 20 strings");
    json_object_foreach(object, name, value)
    {
        if (!*name || strlen(name) > HEADER_NAME_MAX)
            return refuse(err, "the name of a header in network.rules has 1 to 64 characters");
        if (!json_is_string(value) || json_string_length(value) > HEADER_VALUE_MAX)
            return refuse(err, "a header in network.rules is a string of at most 2048 characters");
    }
    return 0;
}

static int check_rules(const json_t *rules, struct atoll_error *err)
{
    json_t *object = (json_t *)rules, *list;
    const char *domain;

    if (!rules || json_is_null(rules))
        return 0;
    if (!json_is_object(rules) || json_object_size(rules) > RULES_MAX)
        return atoll_fields_refuse(err, "network", "rules", rules,
                                   "an object of at most 10 domains");
    json_object_foreach(object, domain, list)
    {
        const json_t *transform = json_object_get(json_array_get(list, 0), "transform");
        if (!is_domain(domain) && !is_cidr(domain))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "invalid domain in network.rules: %.100s", domain);
        if (!json_is_array(list) || json_array_size(list) > 1)
            return refuse(err, "each domain in network.rules has an array of one rule");
        if (check_headers(json_object_get(transform, "headers"), err) < 0)
            return -EINVAL;
    }
    return 0;
}

static int check_proxy(const json_t *proxy, struct atoll_error *err)
{
    const char *address = json_string_value(json_object_get(proxy, "address"));

    if (!proxy || json_is_null(proxy) || (address && *address && strlen(address) < 256))
        return 0;
    return refuse(err, "network.egressProxy must be an object with an address, HOST:PORT");
}

static int check_ports(const json_t *ports, struct atoll_error *err)
{
    if (!ports || json_is_null(ports))
        return 0;
    if (!json_is_array(ports) || json_array_size(ports) > ENTRIES_MAX)
        return atoll_fields_refuse(err, "network", "httpsPorts", ports, "an array of ports");
    for (size_t i = 0; i < json_array_size(ports); i++) {
        json_int_t port = json_integer_value(json_array_get(ports, i));
        if (port < 1 || port > UINT16_MAX)
            return atoll_fields_refuse(err, "network", "httpsPorts", ports, "an array of ports");
    }
    return 0;
}

/* Printable, without blanks: the value becomes a Host header. */
static int check_mask(const json_t *mask, struct atoll_error *err)
{
    const char *text = json_string_value(mask);

    if (!mask || json_is_null(mask))
        return 0;
    if (text && strlen(text) == json_string_length(mask) && strlen(text) <= 256)
        for (const char *p = text; *p > ' ' && *p < 0x7f; p++)
            if (p[1] == '\0')
                return 0;
    return atoll_fields_refuse(err, "network", "maskRequestHost", mask, "a host name");
}

int atoll_e2b_network_check(const json_t *network, bool denied, struct atoll_error *err)
{
    const json_t *is_public = json_object_get(network, "allowPublicTraffic");
    int r;

    if (!network)
        return 0;
    if (!json_is_object(network))
        return atoll_fields_refuse(err, "", "network", network, "an object");
    if (is_public && !json_is_null(is_public) && !json_is_boolean(is_public))
        return atoll_fields_refuse(err, "network", "allowPublicTraffic", is_public,
                                   "true or false");
    r = check_egress(network, denied, err);
    if (r == 0)
        r = check_rules(json_object_get(network, "rules"), err);
    if (r == 0)
        r = check_proxy(json_object_get(network, "egressProxy"), err);
    if (r == 0)
        r = check_ports(json_object_get(network, "httpsPorts"), err);
    return r < 0 ? r : check_mask(json_object_get(network, "maskRequestHost"), err);
}

/* Storing the settings. */

/* Header values may be secrets, and the result is stored on disk: those that do not refer to a secret
 * by name are hidden. */
static void hide_values(json_t *rules)
{
    const char *domain, *name;
    json_t *list, *value;
    void *next;

    json_object_foreach(rules, domain, list)
    {
        json_t *transform = json_object_get(json_array_get(list, 0), "transform");
        json_t *headers = json_object_get(transform, "headers");
        json_object_foreach_safe(headers, next, name, value)
        {
            if (!strstr(json_string_value(value), PLACEHOLDER))
                (void)json_string_set(value, HIDDEN);
        }
    }
}

/* Keeps address and user name; drops the password and every other field, which may be a
 * credential. */
static json_t *keep_proxy(const json_t *proxy)
{
    static const char *const fields[] = {"address", "username"};
    json_t *kept = json_object(), *value;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++)
        if ((value = json_object_get(proxy, fields[i])))
            (void)json_object_set(kept, fields[i], value);
    return kept;
}

json_t *atoll_e2b_network_keep(const json_t *network, const json_t *old)
{
    static const char *const egress[] = {"allowOut", "denyOut", "rules", "httpsPorts"};
    static const char *const ingress[] = {"allowPublicTraffic", "maskRequestHost"};
    json_t *kept = json_object(), *value;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(egress); i++)
        if ((value = json_object_get(network, egress[i])) && !json_is_null(value))
            (void)json_object_set_new(kept, egress[i], json_deep_copy(value));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ingress); i++)
        if ((value = json_object_get(old ? old : network, ingress[i])) && !json_is_null(value))
            (void)json_object_set_new(kept, ingress[i], json_deep_copy(value));
    value = json_object_get(network, "egressProxy");
    if (json_is_object(value))
        (void)json_object_set_new(kept, "egressProxy", keep_proxy(value));
    hide_values(json_object_get(kept, "rules"));
    return kept;
}
