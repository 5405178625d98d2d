#include "cli/format.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/print.h"

/* Docker's names for what has another name here. */
static const struct {
    const char *name, *member;
} aliases[] = {{"status", "state"}, {"label", "metadata"}, {"labels", "metadata"}};

static bool same_name(const char *key, const char *name, size_t n)
{
    size_t i = 0;

    for (; *key; key++) {
        if (*key == '_')
            continue;
        while (i < n && name[i] == '_')
            i++;
        if (i == n || tolower((unsigned char)*key) != tolower((unsigned char)name[i++]))
            return false;
    }
    return i == n;
}

static const json_t *member_of(const json_t *item, const char *name, size_t n)
{
    json_t *object = (json_t *)item; /* jansson's iterators are not const */
    const char *key;
    json_t *value;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(aliases); i++)
        if (same_name(aliases[i].name, name, n))
            return json_object_get(item, aliases[i].member);
    json_object_foreach(object, key, value) if (same_name(key, name, n)) return value;
    return NULL;
}

/* `path` has n bytes and no leading dot. */
static const json_t *find(const json_t *item, const char *path, size_t n)
{
    while (item && n > 0) {
        size_t len = strcspn(path, ".");
        len = ATOLL_MIN(len, n);
        item = member_of(item, path, len);
        path += len;
        n -= len;
        if (n > 0) {
            path++;
            n--;
        }
    }
    return item;
}

static void put_value(const json_t *value)
{
    ATOLL_AUTOFREE char *text = NULL;

    if (json_is_string(value)) {
        atoll_cli_put(stdout, json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    atoll_cli_put(stdout, text ? text : "");
}

/* "{{.Name}}" at p; returns what follows it, NULL if it is not one. */
static const char *parse_field(const char *p, const char **ret_path, size_t *ret_n)
{
    const char *end = strncmp(p, "{{", 2) == 0 ? strstr(p, "}}") : NULL;
    const char *path = p + 2;
    size_t n;

    if (!end)
        return NULL;
    path += strspn(path, " ");
    if (*path++ != '.')
        return NULL;
    n = (size_t)(end - path);
    while (n > 0 && path[n - 1] == ' ')
        n--;
    *ret_path = path;
    *ret_n = n;
    return n > 0 ? end + 2 : NULL;
}

int atoll_cli_format(const char *format, const json_t *item, struct atoll_error *err)
{
    if (strcmp(format, "json") == 0)
        return atoll_cli_print_json(item, err);
    while (*format) {
        const json_t *value;
        const char *path, *after;
        size_t n;
        if (*format == '\\' && (format[1] == 't' || format[1] == 'n')) {
            (void)fputc(format[1] == 't' ? '\t' : '\n', stdout);
            format += 2;
            continue;
        }
        if (strncmp(format, "{{", 2) != 0) {
            (void)fputc(*format++, stdout);
            continue;
        }
        after = parse_field(format, &path, &n);
        if (!after)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--format: write json or fields such as {{.ID}}, not \"%.40s\"",
                              format);
        value = find(item, path, n);
        if (value)
            put_value(value);
        format = after;
    }
    (void)fputc('\n', stdout);
    return 0;
}

static bool has_label(const json_t *item, const char *label)
{
    const json_t *labels = json_object_get(item, "metadata");
    size_t n = strcspn(label, "=");
    const char *value = json_string_value(json_object_getn(labels, label, n));

    return value && (!label[n] || strcmp(value, label + n + 1) == 0);
}

static bool fits(const json_t *item, const char *name, size_t n, const char *wanted)
{
    const char *value = json_string_value(find(item, name, n));

    if (!value)
        return false;
    return same_name("id", name, n) ? strncmp(value, wanted, strlen(wanted)) == 0
                                    : strcmp(value, wanted) == 0;
}

/* Whether the item fits one of the filters by this member. */
static bool fits_one(const struct atoll_cli_list *filters, const json_t *item, const char *name,
                     size_t n)
{
    for (size_t i = 0; i < filters->n; i++)
        if (strncmp(filters->items[i], name, n + 1) == 0 &&
            fits(item, name, n, filters->items[i] + n + 1))
            return true;
    return false;
}

bool atoll_cli_filter(const struct atoll_cli_list *filters, const json_t *item)
{
    for (size_t i = 0; i < filters->n; i++) {
        const char *filter = filters->items[i];
        size_t n = strcspn(filter, "=");
        bool label = same_name("label", filter, n);
        if (label ? !has_label(item, filter + n + 1) : !fits_one(filters, item, filter, n))
            return false;
    }
    return true;
}

int atoll_cli_filter_check(const struct atoll_cli_list *filters, struct atoll_error *err)
{
    for (size_t i = 0; i < filters->n; i++) {
        const char *equals = strchr(filters->items[i], '=');
        if (!equals || equals == filters->items[i] || !equals[1])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--filter: \"%.80s\" must be K=V, such as state=running or label=K=V",
                              filters->items[i]);
    }
    return 0;
}
