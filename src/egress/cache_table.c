#include "egress/cache_table.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/glob.h"

#define DIGEST_DIGITS ((size_t)2 * ATOLL_CACHE_DIGEST_BYTES)
#define PATH_MAX_BYTES 2048

struct row {
    struct atoll_network_target hosts[ATOLL_CACHE_ROW_MAX];
    size_t host_count;
    char *paths[ATOLL_CACHE_ROW_MAX]; /* owned, without the first slash */
    size_t path_count;
    enum atoll_cache_digest digest; /* in the path */
};

struct atoll_cache_table {
    struct row *rows; /* owned */
    size_t count;
};

static const struct {
    const char *name;
    enum atoll_cache_digest kind;
} digests[] = {{"sha256", ATOLL_CACHE_SHA256}, {"blake2b-256", ATOLL_CACHE_BLAKE2B}};

/* Parsing. */

static int refuse(struct atoll_error *err, size_t row, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "downloads[%zu].%s", row, what);
}

static int parse_hosts(const json_t *list, size_t at, struct row *row, struct atoll_error *err)
{
    size_t n = json_array_size(list);

    if (n == 0 || n > ATOLL_CACHE_ROW_MAX)
        return refuse(err, at, "hosts must be a list of 1 to 50 domains");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        struct atoll_network_target *host = &row->hosts[row->host_count];

        if (!text || atoll_network_target_parse(text, host, err) < 0)
            return refuse(err, at, "hosts must have domains, such as \"files.example.org\"");
        row->host_count++;
        if (!host->domain)
            return refuse(err, at, "hosts must have domains, such as \"files.example.org\"");
    }
    return 0;
}

static int parse_paths(const json_t *list, size_t at, struct row *row, struct atoll_error *err)
{
    size_t n = json_array_size(list);

    if (n == 0 || n > ATOLL_CACHE_ROW_MAX)
        return refuse(err, at, "paths must be a list of 1 to 50 patterns");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (!text || *text != '/' || !text[1])
            return refuse(err, at, "paths must begin with a slash, such as \"/files/**/*.whl\"");
        row->paths[row->path_count] = strdup(text + 1);
        if (!row->paths[row->path_count])
            abort(); /* a small fixed object */
        row->path_count++;
    }
    return 0;
}

static int parse_row(const json_t *json, size_t at, struct row *row, struct atoll_error *err)
{
    const char *digest = json_string_value(json_object_get(json, "digest"));
    int r = parse_hosts(json_object_get(json, "hosts"), at, row, err);

    if (r == 0)
        r = parse_paths(json_object_get(json, "paths"), at, row, err);
    for (size_t i = 0; digest && i < ATOLL_ARRAY_LEN(digests); i++)
        if (strcmp(digests[i].name, digest) == 0)
            row->digest = digests[i].kind;
    if (r == 0 && digest && row->digest == ATOLL_CACHE_NO_DIGEST)
        r = refuse(err, at, "digest must be sha256 or blake2b-256");
    return r;
}

int atoll_cache_table_parse(const json_t *json, struct atoll_cache_table **ret,
                            struct atoll_error *err)
{
    const json_t *list = json_object_get(json, "downloads");
    struct atoll_cache_table *table = calloc(1, sizeof(*table));
    size_t n = json_array_size(list);
    int r = 0;

    if (!table)
        abort(); /* a small fixed object */
    if (n == 0 || n > ATOLL_CACHE_ROWS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "downloads must be a list of 1 to %d rows", ATOLL_CACHE_ROWS_MAX);
    table->rows = r == 0 ? calloc(n, sizeof(*table->rows)) : NULL;
    if (r == 0 && !table->rows)
        abort();
    while (r == 0 && table->count < n) {
        struct row *row = &table->rows[table->count++];

        r = parse_row(json_array_get(list, table->count - 1), table->count - 1, row, err);
    }
    if (r < 0)
        (void)atoll_cache_table_free(table);
    else
        *ret = table;
    return r;
}

struct atoll_cache_table *atoll_cache_table_free(struct atoll_cache_table *table)
{
    if (!table)
        return NULL;
    for (size_t i = 0; i < table->count; i++) {
        struct row *row = &table->rows[i];

        for (size_t k = 0; k < row->host_count; k++)
            atoll_network_target_done(&row->hosts[k]);
        for (size_t k = 0; k < row->path_count; k++)
            free(row->paths[k]);
    }
    free(table->rows);
    free(table);
    return NULL;
}

/* Finding. */

static bool has_host(const struct row *row, const char *name, uint16_t port)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < row->host_count; i++) {
        const struct atoll_network_target *t = &row->hosts[i];
        size_t own = strlen(t->domain);

        if (t->port_first != 0 && (port < t->port_first || port > t->port_last))
            continue;
        if (!t->subdomains && strcasecmp(t->domain, name) == 0)
            return true;
        if (t->subdomains && n > own + 1 && name[n - own - 1] == '.' &&
            strcasecmp(name + n - own, t->domain) == 0)
            return true;
    }
    return false;
}

bool atoll_cache_table_has_host(const struct atoll_cache_table *table, const char *name,
                                uint16_t port)
{
    for (size_t i = 0; table && i < table->count; i++)
        if (has_host(&table->rows[i], name, port))
            return true;
    return false;
}

bool atoll_cache_digest_parse(const char *text, size_t n, uint8_t out[ATOLL_CACHE_DIGEST_BYTES])
{
    if (n != DIGEST_DIGITS)
        return false;
    for (size_t i = 0; i < n; i++) {
        int c = tolower((unsigned char)text[i]);

        if (!isxdigit(c))
            return false;
        c = c <= '9' ? c - '0' : c - 'a' + 10;
        out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | c : c << 4);
    }
    return true;
}

/* Components of hexadecimal digits, one after the other, that make up one digest. */
static bool find_digest(const char *path, uint8_t out[ATOLL_CACHE_DIGEST_BYTES])
{
    char digits[DIGEST_DIGITS + 1];
    size_t held = 0;

    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");

        if (strspn(at, "0123456789abcdefABCDEF") != n || n == 0 || held + n > DIGEST_DIGITS) {
            held = 0;
        } else {
            memcpy(digits + held, at, n);
            held += n;
        }
        if (held == DIGEST_DIGITS)
            return atoll_cache_digest_parse(digits, held, out);
        at += n + (at[n] == '/');
    }
    return false;
}

/* Whether the path is its own only spelling, so that a pattern means what it says. */
static bool is_plain(const char *path)
{
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");

        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += n + (at[n] == '/');
    }
    return !strcasestr(path, "%2e") && !strcasestr(path, "%2f") && !strpbrk(path, "?#\\");
}

bool atoll_cache_table_find(const struct atoll_cache_table *table, const char *name, uint16_t port,
                            const char *target, struct atoll_cache_expected *ret)
{
    const char *path = target + 1;

    if (!table || *target != '/' || strlen(path) > PATH_MAX_BYTES || !is_plain(path))
        return false;
    for (size_t i = 0; i < table->count; i++) {
        const struct row *row = &table->rows[i];

        if (!has_host(row, name, port))
            continue;
        for (size_t k = 0; k < row->path_count; k++) {
            if (!atoll_glob_match(row->paths[k], path))
                continue;
            ret->kind = row->digest;
            if (row->digest == ATOLL_CACHE_NO_DIGEST || find_digest(path, ret->bytes))
                return true;
        }
    }
    return false;
}
