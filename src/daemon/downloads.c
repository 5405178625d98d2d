#include "daemon/downloads.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/fd.h"
#include "egress/cache_table.h"
#include "registry/registry_internal.h"

#define FILE_MAX_BYTES (256 * 1024)

static const struct atoll_yaml_field digests[] = {
    {"sha256", ATOLL_YAML_STRING, false, 0, 0, NULL},
    {"blake2b-256", ATOLL_YAML_STRING, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field row_fields[] = {
    {"name", ATOLL_YAML_STRING, true, 1, 64, NULL},
    {"hosts", ATOLL_YAML_STRINGS, true, 1, ATOLL_CACHE_ROW_MAX, NULL},
    {"paths", ATOLL_YAML_STRINGS, true, 1, ATOLL_CACHE_ROW_MAX, NULL},
    {"digest", ATOLL_YAML_CHOICE, false, 0, 0, digests},
    {0},
};
static const struct atoll_yaml_field file_fields[] = {
    {"downloads", ATOLL_YAML_OBJECTS, true, 1, ATOLL_CACHE_ROWS_MAX, row_fields},
    {0},
};

int atoll_downloads_load(const char *path, char **ret, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = malloc(FILE_MAX_BYTES + 1);
    struct atoll_cache_table *table = NULL;
    struct atoll_error why;
    json_t *json = NULL;
    int r = text ? atoll_fd_read_file(AT_FDCWD, path, text, FILE_MAX_BYTES + 1) : -ENOMEM;

    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "%s cannot be read: %s", path,
                          strerror(-r));
    r = atoll_yaml_load(path, text, strlen(text), file_fields, &json, err);
    if (r == 0 && atoll_cache_table_parse(json, &table, &why) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: %s", path, why.text);
    if (r == 0 && !(*ret = json_dumps(json, JSON_COMPACT)))
        r = atoll_fail_errno(err, ENOMEM, "table of downloads");
    (void)atoll_cache_table_free(table);
    json_decref(json);
    return r;
}
