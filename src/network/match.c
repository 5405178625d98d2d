/*
 * Which requests a transform is for: {"path", "method", "queryString", "headers"}, of which all that are
 * given must hold. Paths and queries are compared decoded. A path that a server may read as another one
 * ("/a/../b", "/a%2f..") is not compared: such a request gets 400 where a rule depends on the path.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "network/policy_internal.h"

#define TEXT_MAX 1024
#define ENTRIES_MAX 20
#define WHERE_MAX 200
#define DECODED_MAX ((size_t)16 * 1024)

/* Checking. */

static int check_matcher(const json_t *matcher, const char *where, struct atoll_error *err)
{
    static const char *const known[] = {"exact", "startsWith", NULL};
    json_t *value = json_object_get(matcher, "exact");

    if (json_object_get(matcher, "regex"))
        return atoll_network_refuse(err, where,
                                    "exact or startsWith: regular expressions are not supported");
    if (json_is_object(matcher) && atoll_network_known_fields(matcher, where, known, err) < 0)
        return -EINVAL;
    if (!value)
        value = json_object_get(matcher, "startsWith");
    if (json_object_size(matcher) != 1 || !json_is_string(value) ||
        json_string_length(value) > TEXT_MAX)
        return atoll_network_refuse(err, where, "{\"exact\": TEXT} or {\"startsWith\": TEXT}");
    return 0;
}

static int check_entry(const json_t *entry, const char *where, struct atoll_error *err)
{
    static const char *const known[] = {"key", "value", NULL};
    char at[WHERE_MAX + 8];
    int r = 0;

    if (!json_is_object(entry) || json_object_size(entry) == 0)
        return atoll_network_refuse(err, where, "an object with key, value or both");
    if (atoll_network_known_fields(entry, where, known, err) < 0)
        return -EINVAL;
    for (size_t i = 0; known[i] && r == 0; i++) {
        const json_t *matcher = json_object_get(entry, known[i]);
        (void)snprintf(at, sizeof(at), "%s.%s", where, known[i]);
        if (matcher)
            r = check_matcher(matcher, at, err);
    }
    return r;
}

static int check_list(const json_t *list, const char *where, bool methods, struct atoll_error *err)
{
    char at[WHERE_MAX];
    json_t *entry;
    size_t i;
    int r = 0;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > ENTRIES_MAX)
        return atoll_network_refuse(err, where,
                                    "an array of 1 to " ATOLL_STRINGIFY(ENTRIES_MAX) " entries");
    json_array_foreach(list, i, entry)
    {
        (void)snprintf(at, sizeof(at), "%.150s[%zu]", where, i);
        if (r == 0 && !methods)
            r = check_entry(entry, at, err);
        else if (r == 0 && !json_string_length(entry))
            r = atoll_network_refuse(err, at, "a method; for example \"GET\"");
    }
    return r;
}

int atoll_network_match_check(const json_t *match, const char *where, struct atoll_error *err)
{
    static const char *const known[] = {"path", "method", "queryString", "headers", NULL};
    char at[WHERE_MAX];
    int r = 0;

    if (!json_is_object(match))
        return atoll_network_refuse(err, where, "an object");
    if (atoll_network_known_fields(match, where, known, err) < 0)
        return -EINVAL;
    for (size_t i = 0; known[i] && r == 0; i++) {
        const json_t *part = json_object_get(match, known[i]);
        (void)snprintf(at, sizeof(at), "%.150s.%s", where, known[i]);
        if (part && i == 0)
            r = check_matcher(part, at, err);
        else if (part)
            r = check_list(part, at, i == 1, err);
    }
    return r;
}

/* Requests. */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes %XX, and "+" of queries; false if it is too long or has a zero byte. */
static bool decode(const char *text, size_t n, bool plus, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < n && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0) {
            c = (char)(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0' || used + 1 >= DECODED_MAX)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static size_t count_of(const char *text, size_t n, char c)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        found += text[i] == c;
    return found;
}

/* The decoded path; false if servers may read it in different ways. */
static bool read_path(const char *target, char *out)
{
    const char *scheme = strstr(target, "://");
    size_t n;

    if (*target != '/' && scheme) /* absolute form */
        target = scheme + 3 + strcspn(scheme + 3, "/?#");
    n = strcspn(target, "?#");
    if (n == 0)
        return decode("/", 1, false, out);
    if (!decode(target, n, false, out) || strpbrk(out, "\\%") || strstr(out, "//") ||
        count_of(out, strlen(out), '/') != count_of(target, n, '/'))
        return false;
    for (const char *part = strchr(out, '/'); part; part = strchr(part + 1, '/')) {
        size_t length = strcspn(part + 1, "/");
        if ((length == 1 && part[1] == '.') || (length == 2 && part[1] == '.' && part[2] == '.'))
            return false;
    }
    return true;
}

static bool holds(const json_t *matcher, const char *text, bool any_case)
{
    const char *exact = json_string_value(json_object_get(matcher, "exact"));
    const char *start = json_string_value(json_object_get(matcher, "startsWith"));

    if (!matcher)
        return true;
    if (exact)
        return any_case ? strcasecmp(exact, text) == 0 : strcmp(exact, text) == 0;
    return any_case ? strncasecmp(start, text, strlen(start)) == 0
                    : strncmp(start, text, strlen(start)) == 0;
}

static bool has_method(const json_t *list, const char *method)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        if (strcasecmp(json_string_value(entry), method) == 0)
            return true;
    }
    return !list;
}

static bool has_header(const json_t *entry, const struct atoll_network_message *message)
{
    const char *name, *value;

    for (size_t i = 0; message->header_at(message->arg, i, &name, &value); i++)
        if (holds(json_object_get(entry, "key"), name, true) &&
            holds(json_object_get(entry, "value"), value, false))
            return true;
    return false;
}

static bool has_parameter(const json_t *entry, const struct atoll_network_message *message)
{
    static char key[DECODED_MAX], value[DECODED_MAX]; /* one thread */
    const char *at = strchr(message->target, '?');

    while (at && *at && *at != '#') {
        size_t n = strcspn(++at, "&#"), split = strcspn(at, "=&#");
        size_t rest = split < n ? split + 1 : n;
        if (decode(at, split, true, key) && decode(at + rest, n - rest, true, value) &&
            holds(json_object_get(entry, "key"), key, false) &&
            holds(json_object_get(entry, "value"), value, false))
            return true;
        at += n;
    }
    return false;
}

static bool has_all(const json_t *list, const struct atoll_network_message *message,
                    bool (*has)(const json_t *entry, const struct atoll_network_message *message))
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        if (!has(entry, message))
            return false;
    }
    return true;
}

const struct atoll_network_transform *atoll_network_transform_of(
    const struct atoll_network_policy *policy, const char *name,
    const struct atoll_network_message *message)
{
    static char ambiguous[] = "the path can be read in several ways: write it without . and .. and "
                              "encoded slashes\n";
    static const struct atoll_network_transform refusal = {.status = 400, .body = ambiguous};
    static char path[DECODED_MAX]; /* one thread */
    bool readable = read_path(message->target, path);

    for (size_t i = 0; i < policy->transform_count; i++) {
        const struct atoll_network_transform *t = &policy->transforms[i];
        const json_t *by_path = json_object_get(t->match, "path");

        if (!atoll_network_match_name(&t->target, name))
            continue;
        if (by_path && !readable)
            return &refusal;
        if (holds(by_path, path, false) &&
            has_method(json_object_get(t->match, "method"), message->method) &&
            has_all(json_object_get(t->match, "queryString"), message, has_parameter) &&
            has_all(json_object_get(t->match, "headers"), message, has_header))
            return t;
    }
    return NULL;
}

bool atoll_network_goes_elsewhere(const struct atoll_network_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->transform_count; i++) {
        const struct atoll_network_transform *t = &policy->transforms[i];

        if (!atoll_network_match_name(&t->target, name))
            continue;
        if (!t->forward && t->status == 0)
            return false;
        if (!t->match)
            return true;
    }
    return false;
}
